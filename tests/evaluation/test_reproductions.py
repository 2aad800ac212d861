"""Conversations that failed: kept, held again without their agent, made short, and run by pytest."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Interrupt, RunAgentInput

from agui_client import Approve, Deny, FunctionAgent, HttpAgent, UsageError, tool
from agui_client.demo import demo_agent
from agui_client.evaluation import Outcome, Rate, Reproduction, Scenario, Trial, evaluate_sync, reproductions, shrink
from agui_client.evaluation._freezing import MEMBERS
from agui_client.recording import Recording
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn

DEMO = demo_agent(pace=0)


def bought_nothing(trial: Trial) -> str | None:
    """A check of this module, which reproductions name."""
    bought = [call.turn for call in trial.calls if call.name == "buy_tickets"]
    return f"it bought in turn {bought[0]}" if bought else None


def never(asked: Interrupt) -> Deny:
    return Deny("never")


def failure_of(agent: Any, scenario: Scenario, **options: Any) -> Outcome:
    """Return the only failure."""
    (failure,) = evaluate_sync(agent, scenario, **options).failures
    return failure


def test_a_failure_is_held_again_without_its_agent_its_tools_and_its_handlers(tmp_path: Path) -> None:
    count = 0

    @tool
    def get_weather(city: str) -> dict[str, int]:
        """Tell the weather."""
        nonlocal count
        count += 1
        return {"celsius": count}

    @tool(approval="always")
    def buy_tickets(route: str, count: int) -> str:
        """Buy tickets."""
        return f"{count} for {route}"

    agent = demo_agent(pace=0)
    agent.tools = [get_weather, buy_tickets]
    agent.set_handlers(approve=lambda request: Approve(arguments={**request.arguments, "count": 1}))
    user = ScriptedAgent(turn(text("Book the ferry")), turn(text("Book another ferry")), turn(text("[done]")))
    scenario = Scenario(name="ferry", goal="two trips", user=user, checks=[bought_nothing, {"said": "18 degrees"}])
    failure = failure_of(agent, scenario)
    path = failure.save(tmp_path / "kept" / "ferry.jsonl")
    assert (failure.reproduction or path).parent != path.parent

    kept = Reproduction.read(path, checks=[bought_nothing])
    assert kept.scenario.says == ["Book the ferry", "Book another ferry"]
    again = kept.replay()
    assert count == 2
    assert again.verdicts == failure.verdicts
    assert again.trial is not None
    assert failure.trial is not None
    assert again.trial.calls == failure.trial.calls
    assert again.trial.transcript == failure.trial.transcript
    with pytest.raises(AssertionError, match=r"ferry #1 failed\n  bought_nothing: it bought in turn 1"):
        kept.check()
    assert len(Recording.read(path).exchanges) == 6


@pytest.mark.parametrize("answer", [None, {"sure": "deny"}, never], ids=["none", "named", "function"])
def test_answers_to_questions_are_given_again(answer: Any) -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Are you sure?")), turn(text("As you like.")))
    agent.set_handlers(answer=lambda asked: Approve())
    failure = failure_of(agent, Scenario(name="x", says=["Go"], answer=answer, checks=[{"said": "done"}]))
    assert failure.trial is not None
    assert failure.reproduction is not None
    again = Reproduction.read(failure.reproduction).replay()
    assert again.trial is not None
    sent = [[each.entry.payload for each in one.answered] for one in (failure.trial, again.trial)]
    assert sent[0] == sent[1] != []


def test_a_conversation_that_began_with_messages_and_a_state_is_held_again_with_them(tmp_path: Path) -> None:
    agent = FunctionAgent(
        lambda input: f"{len(input.messages)} {input.state}",
        initial_messages=[{"role": "user", "content": "before"}, {"role": "assistant", "content": "ok"}],
        initial_state={"place": "Oslo"},
    )
    scenario = Scenario(name="x", says=["Hi", "Bye"], checks=[{"said": "Bergen"}])
    failure = failure_of(agent, scenario)
    assert failure.trial is not None
    assert failure.reproduction is not None
    assert failure.trial.turns[1].text == "5 {'place': 'Oslo'}"
    again = Reproduction.read(failure.reproduction).replay()
    assert again.trial is not None
    assert again.trial.transcript == failure.trial.transcript
    assert again.trial.state == {"place": "Oslo"}


def test_the_end_is_cut_off_where_the_check_fails_for_the_same_reason_without_it() -> None:
    says = ["Hello", "Book the ferry", "Thanks", "Bye"]
    early = failure_of(DEMO, Scenario(name="x", says=says, answer="allow", checks=[bought_nothing]))
    assert shrink(early).scenario.says == says[:2]
    # What the agent owes may still come, so that nothing is cut off.
    late = failure_of(DEMO, Scenario(name="x", says=says, answer="allow", checks=[{"said": "taxi"}]))
    assert shrink(late).scenario.says == says


def test_prompts_that_the_failure_does_not_need_are_left_out_where_the_agent_answers_anew() -> None:
    says = ["Hello", "How are you?", "Book the ferry", "Bye"]
    failure = failure_of(DEMO, Scenario(name="x", says=says, answer="allow", checks=[bought_nothing]))
    short = shrink(failure, DEMO)
    assert short.scenario.says == ["Book the ferry"]
    assert short.replay().failed["bought_nothing"].reason == "it bought in turn 1"


def test_an_agent_that_passes_shows_which_prompts_a_missing_call_needs() -> None:
    def agent(city: str) -> FunctionAgent[Any]:
        def answer(input: RunAgentInput) -> str:
            return f"It rains in {city if 'Bergen' in str(input.messages[-1].content) else 'Oslo'}."

        return FunctionAgent(answer)

    says = ["How is Oslo?", "And Bergen?", "Thanks for Oslo"]
    checks: list[Any] = [{"said": "rains in Bergen", "turns_at_most": 3}]
    failure = failure_of(agent("Oslo"), Scenario(name="x", says=says, checks=checks))
    assert shrink(failure, agent("Oslo")).scenario.says == says
    short = shrink(failure, agent("Oslo"), reference=agent("Bergen"))
    assert (short.scenario.says, short.scenario.checks) == (["And Bergen?"], [{"said": "rains in Bergen"}])


def test_a_prompt_stays_that_the_failure_needs() -> None:
    def forgetful(input: RunAgentInput) -> str:
        return "Who are you?" if len(input.messages) > 2 and "name" in str(input.messages[0].content) else "Hello."

    says = ["My name is Ada", "How are you?", "Who am I?"]
    failure = failure_of(FunctionAgent(forgetful), Scenario(name="x", says=says, checks=[{"not_said": "who are you"}]))
    assert shrink(failure, FunctionAgent(forgetful)).scenario.says == ["My name is Ada", "How are you?"]


def test_a_reproduction_is_renewed_when_the_agent_is_mended(tmp_path: Path) -> None:
    failure = failure_of(FunctionAgent(lambda input: "no"), Scenario(name="x", says=["Hi"], checks=[{"said": "yes"}]))
    kept = Reproduction.read(failure.save(tmp_path / "x.jsonl"))
    with pytest.raises(AssertionError, match="x #1 failed"):
        kept.renew(FunctionAgent(lambda input: "no"))
    kept.renew(FunctionAgent(lambda input: "yes"))
    Reproduction.read(tmp_path / "x.jsonl").check()


def test_the_judge_is_held_again_too() -> None:
    judge = ScriptedAgent(turn(text('{"passed": false, "reason": "rude"}')))
    scenario = Scenario(name="x", says=["Hi"], checks=[{"judge": "polite"}])
    failure = failure_of(FunctionAgent(lambda input: "no"), scenario, judge=judge)
    assert failure.reproduction is not None
    assert Reproduction.read(failure.reproduction).replay().failed['judge: "polite"'].reason == "rude"
    assert len(judge.inputs) == 1


def test_no_secret_is_in_a_reproduction() -> None:
    scenario = Scenario(
        name="x",
        says=["My password=hunter2", "login"],
        tools=[{"name": "login", "results": [{"api_key": "sk-s3cret"}]}],
        checks=[{"said": "nothing"}],
    )
    agent = ScriptedAgent(turn(text("ok")), turn(tool_call("login", {})), turn(text("in")))
    failure = failure_of(agent, scenario)
    assert failure.reproduction is not None
    content = failure.reproduction.read_text("utf-8")
    assert "hunter2" not in content
    assert "s3cret" not in content
    assert Reproduction.read(failure.reproduction).replay().failed == failure.failed


def test_pytest_runs_a_folder_of_reproductions_without_a_network(tmp_path: Path) -> None:
    agent = FunctionAgent(lambda input: "yes" if "good" in str(input.messages[-1].content) else "no")
    for name in ("good", "bad"):
        failure = failure_of(agent, Scenario(name=name, says=[name], checks=[{"said": "certainly"}]))
        kept = Reproduction.read(failure.save(tmp_path / "kept" / f"{name}.jsonl"))
        if name == "good":
            kept.renew(FunctionAgent(lambda input: "certainly"))
    (tmp_path / "test_kept.py").write_text(
        "from pathlib import Path\n"
        "import pytest\n"
        "from agui_client.evaluation import reproductions\n\n"
        '@pytest.mark.parametrize("reproduction", reproductions(Path(__file__).parent / "kept"), ids=str)\n'
        "def test_kept(reproduction):\n"
        "    reproduction.check()\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "--agui-block-network", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout
    assert "AssertionError: bad #1 failed" in done.stdout


def test_results_that_are_no_json_are_kept_as_it() -> None:
    script = {"name": "look", "results": [Rate(passed=1, held=2), date(2026, 11, 24)]}
    agent = ScriptedAgent(turn(tool_call("look", {})), turn(text("no")))
    scenario = Scenario.model_validate({"name": "x", "says": ["Hi"], "tools": [script], "checks": [{"said": "yes"}]})
    failure = failure_of(agent, scenario)
    assert failure.reproduction is not None
    kept: Any = Reproduction.read(failure.reproduction).scenario.tools[0]
    assert kept["results"] == [{"passed": 1, "held": 2, "broken": 0}, "2026-11-24"]


def test_ctrl_c_while_a_failure_is_kept_ends_the_evaluation() -> None:
    class Interrupted:
        """A check at whose third look for its name somebody presses Ctrl-C."""

        looks = 0

        def __call__(self, trial: Trial) -> str:
            return "it failed"

        def __getattr__(self, name: str) -> str:
            if name != "__qualname__":
                raise AttributeError(name)
            self.looks += 1
            if self.looks > 2:
                raise KeyboardInterrupt
            return "interrupted"

    with pytest.raises(KeyboardInterrupt):
        failure_of(FunctionAgent(_answer), Scenario(name="x", says=["Hi"], checks=[Interrupted()]))


def _answer(input: RunAgentInput) -> str:
    return "no"


def test_what_is_no_reproduction_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{}\n", "utf-8")
    with pytest.raises(UsageError, match=r"x\.jsonl is not a reproduction"):
        Reproduction.read(path).check()
    with pytest.raises(UsageError, match=r"y\.jsonl cannot be read: No such file"):
        Reproduction.read(tmp_path / "y.jsonl")


def test_a_reproduction_is_one_however_an_editor_wrote_its_lines(tmp_path: Path) -> None:
    path = forged(tmp_path / "x.jsonl")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    sorted_and_compact = [json.dumps(line, sort_keys=True, separators=(",", ":")) for line in lines]
    path.write_text("\n".join([*sorted_and_compact, ""]), "utf-8")
    assert list(Reproduction.read(path).replay().failed) == ['said: "yes"']


def test_a_long_name_of_a_scenario_costs_no_evaluation() -> None:
    named = [Scenario(name=f"{'ü' * 200} {end}", says=["Hi"], checks=[{"said": "yes"}]) for end in "ab"]
    failures = evaluate_sync(FunctionAgent(_answer), named).failures
    assert [each.reproduction is not None and each.reproduction.exists() for each in failures] == [True, True]


def test_a_folder_of_reproductions_that_is_gone_before_its_evaluation_is_no_error() -> None:
    failed = evaluate_sync(FunctionAgent(_answer), [Scenario(name="x", says=["Hi"], checks=[{"said": "yes"}])])
    [reproduction] = [each.reproduction for each in failed.failures]
    assert reproduction is not None
    shutil.rmtree(reproduction.parent)
    del failed
    gc.collect()  # an error in a finalizer would be a warning, which fails the test


def forged(path: Path, **members: Any) -> Path:
    """Write a reproduction whose scenario has other members than it was kept with."""
    failure = failure_of(FunctionAgent(_answer), Scenario(name="x", says=["Hi"], checks=[{"said": "yes"}]))
    assert failure.reproduction is not None
    *lines, scenario = failure.reproduction.read_text("utf-8").splitlines()
    content = json.loads(scenario)
    assert content["scenario"].keys() == MEMBERS
    content["scenario"].update(members)
    path.write_text("\n".join([*lines, json.dumps(content), ""]), "utf-8")
    return path


def renewed(reproduction: Reproduction) -> Reproduction:
    """Hold the conversation of a reproduction with another agent."""
    return reproduction.renew(DEMO)


def test_a_regular_expression_of_a_reproduction_is_looked_for_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ScriptedAgent(turn(text(f"{'a' * 50}!\n")))
    failure = failure_of(agent, Scenario(name="long", says=["Hi"], checks=[{"said": "no"}]), keep=tmp_path)
    assert failure.reproduction is not None
    *lines, scenario = failure.reproduction.read_text("utf-8").splitlines()
    # As a line break may follow the end, for Python, and one that is no end does not.
    checks = [{"said": {"matches": "(a+)+!$"}}, {"not_said": {"matches": "(a+)+$"}}, {"said": {"matches": "(?i)A!"}}]
    content = json.loads(scenario)
    content["scenario"]["checks"] = checks
    failure.reproduction.write_text("\n".join([*lines, json.dumps(content), ""]), "utf-8")
    # An engine that goes back would take years.
    monkeypatch.setattr("agui_client.evaluation._checks.re.search", None)
    assert Reproduction.read(failure.reproduction).replay().failed == {}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"checks": ["forged_check:run"]}, r"names the check forged_check:run, which is not looked for"),
        ({"checks": [{"said": "no"}, "os:getcwd"]}, r"give it as checks=\[getcwd\]"),
        ({"goal": "talk", "user": "http://127.0.0.1:9/"}, "a reproduction is data, and has no goal"),
        ({"user": "openai:gpt-5"}, "a reproduction is data, and has no user"),
        ({"checks": [{"judge": "x"}], "judge": "http://127.0.0.1:9/"}, "a reproduction is data, and has no judge"),
        ({"persona": "x"}, "has no persona"),
        ({"checks": [{"not_said": {"matches": "(?=a)b"}}]}, "look-around"),
        ({"checks": [{"not_leaked": {"matches": "(a)\\1"}}]}, "reference to a group"),
        ({"approve": "forged_check:run", "tools": [{"name": "buy", "results": [1]}]}, "approve"),
    ],
)
@pytest.mark.parametrize("use", [Reproduction.replay, Reproduction.check, shrink, renewed])
def test_a_forged_reproduction_imports_nothing_and_asks_nobody(
    members: Any,
    problem: str,
    use: Callable[..., object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "forged_check.py").write_text("raise SystemExit('it was imported')\n", "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    path = forged(tmp_path / "forged.jsonl", **members)
    for reproduction in (Reproduction.read(path), *reproductions(tmp_path, checks=[bought_nothing])):
        with pytest.raises(UsageError, match=problem):
            use(reproduction)
    assert "forged_check" not in sys.modules


def test_a_reproduction_finds_its_checks_among_those_given_by_their_names(tmp_path: Path) -> None:
    def says(word: str) -> Callable[[Trial], bool]:
        def check(trial: Trial) -> bool:
            return word in trial.said

        return check

    scenario = Scenario(name="x", says=["Hi"], checks=[says("n"), {"said": "yes"}, says("o"), bought_nothing])
    failure = failure_of(FunctionAgent(_answer), scenario)
    path = failure.save(tmp_path / "x.jsonl")
    # Functions of one name are told apart by their order.
    kept = Reproduction.read(path, checks=[bought_nothing, says("z"), says("o"), never_used])
    assert {name: verdict.passed for name, verdict in kept.replay().verdicts.items()} == {
        "completes": True,
        "test_a_reproduction_finds_its_checks_among_those_given_by_their_names.<locals>.says.<locals>.check": False,
        'said: "yes"': False,
        "test_a_reproduction_finds_its_checks_among_those_given_by_their_names.<locals>.says.<locals>.check (2)": True,
        "bought_nothing": True,
    }
    three: list[Any] = [bought_nothing, says("n"), says("o"), says("p")]
    with pytest.raises(UsageError, match=r"has 2 of the 3 checks .*check: give it those alone"):
        Reproduction.read(path, checks=three).check()
    with pytest.raises(UsageError, match="takes the functions that the reproduction names"):
        Reproduction.read(path, checks=[{"said": "yes"}])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def never_used(trial: Trial) -> None:
    """A check that no reproduction names."""
    raise AssertionError("it was called")


@pytest.mark.parametrize("approve", ["allow", {"*": "allow"}, {"delete": "allow"}, {"buy": "allow", "*": "allow"}])
def test_a_reproduction_approves_no_function_of_the_agent(approve: Any, tmp_path: Path) -> None:
    called: list[str] = []

    @tool(approval="always")
    def delete() -> str:
        called.append("delete")
        return "deleted"

    agent = ScriptedAgent(turn(tool_call("buy", {}), tool_call("delete", {})), turn(text("yes")))
    agent.tools = [delete]
    scripted = {"name": "buy", "results": ["bought"], "approval": "always"}
    Reproduction.read(forged(tmp_path / "x.jsonl", approve=approve, tools=[scripted])).renew(agent)
    results = [each.content for each in agent.inputs[-1].messages if each.role == "tool"]
    assert ("bought" in results, len(results)) == (approve != {"delete": "allow"}, 2)
    assert called == []


def test_a_file_that_another_start_wrote_is_never_touched(tmp_path: Path) -> None:
    def start(*answers: str, says: str = "Hi") -> list[Path | None]:
        scenario = Scenario(name="x", says=[says], checks=[{"said": "yes"}])
        agent = HttpAgent("http://127.0.0.1:1/") if not answers else ScriptedAgent(*(turn(text(a)) for a in answers))
        return [each.reproduction for each in evaluate_sync(agent, scenario, keep=tmp_path, retry=0).outcomes]

    mine = tmp_path / "x-1.jsonl"
    mine.write_text("written by hand", "utf-8")
    for answers in (("yes",), ()):
        assert start(*answers) == [None]
        assert [each.name for each in tmp_path.iterdir()] == ["x-1.jsonl"]
    # Another file of scenarios may have one of the same name.
    assert start("no") == [tmp_path / "x-1-2.jsonl"]
    assert start("no", says="Bye") == [tmp_path / "x-1-3.jsonl"]
    assert mine.read_text("utf-8") == "written by hand"
    assert [reproduction.scenario.says for reproduction in map(Reproduction.read, sorted(tmp_path.glob("x-1-*")))] == [
        ["Hi"],
        ["Bye"],
    ]


def test_the_next_start_with_a_journal_leaves_a_renewed_test_as_it_is(tmp_path: Path) -> None:
    journal, scenario = tmp_path / "trials.jsonl", Scenario(name="x", says=["Hi"], checks=[{"said": "yes"}])
    agent = FunctionAgent(_answer)
    failure = failure_of(agent, scenario, journal=journal)
    assert failure.reproduction is not None
    Reproduction.read(failure.reproduction).renew(FunctionAgent(lambda input: "yes"))
    renewed = failure.reproduction.read_bytes()
    again = failure_of(agent, scenario, journal=journal)
    assert (again.from_journal, again.reproduction) == (True, None)
    assert failure.reproduction.read_bytes() == renewed
    assert [each.name for each in failure.reproduction.parent.iterdir()] == ["x-1.jsonl"]


def test_a_conversation_that_is_broken_off_leaves_no_file(tmp_path: Path) -> None:
    def stops(trial: Trial) -> str:
        if trial.turns:
            raise KeyboardInterrupt
        return "Hi"

    (tmp_path / "x-1.jsonl").write_text("kept", "utf-8")
    with pytest.raises(KeyboardInterrupt):
        evaluate_sync(FunctionAgent(_answer), Scenario(name="x", says=[stops, stops]), keep=tmp_path)
    assert [(each.name, each.read_text("utf-8")) for each in tmp_path.iterdir()] == [("x-1.jsonl", "kept")]


def test_a_folder_that_cannot_have_reproductions_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    agent = ScriptedAgent(turn(text("no")))
    with pytest.raises(UsageError, match="keep: reproductions cannot be put into"):
        evaluate_sync(agent, Scenario(name="x", says=["Hi"]), keep=tmp_path / "file" / "kept")
    assert agent.inputs == []
