"""Evaluations that go on: the journal, Ctrl-C, and agents that cannot be reached."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput

from agui_client import FunctionAgent, HttpAgent, UsageError
from agui_client.batch import RowRetry
from agui_client.evaluation import Reproduction, Scenario, Trial, evaluate_sync
from agui_client.evaluation._conversing import Planned, ScenarioAgent
from agui_client.evaluation._evaluation import Plan
from agui_client.evaluation._outcomes import headline
from agui_client.testing import ScriptedAgent, faults, serve, serve_bytes, sse, text, turn
from support.programs import Program
from support.waiting import LIMIT, until_sync

PROGRAM = str(Path(__file__).parents[1] / "support" / "stopped_evaluation.py")


def _echo(input: RunAgentInput) -> str:
    return f"{input.messages[-1].content}!"


def test_the_next_start_asks_nothing_and_applies_changed_functions(tmp_path: Path) -> None:
    agent, journal = ScriptedAgent(turn(text("yes"))), tmp_path / "trials.jsonl"

    def scenario(check: Callable[[Trial], str | None]) -> Scenario:
        return Scenario(name="x", says=["Hi", "Bye"], checks=[{"said": "yes"}, check])

    def lenient(trial: Trial) -> None:
        """Accept everything."""

    first = evaluate_sync(agent, scenario(lenient), repeat=2, journal=journal)
    assert (first.passed, len(agent.inputs)) == (True, 4)

    def strict(trial: Trial) -> str:
        return f"{len(trial.messages)} messages"

    again = evaluate_sync(agent, scenario(strict), repeat=3, journal=journal)
    assert len(agent.inputs) == 6
    assert [each.from_journal for each in again.outcomes] == [True, True, False]
    assert {verdict.reason for each in again.outcomes for verdict in each.failed.values()} == {"4 messages"}
    # What passed in an earlier start was not kept.
    assert [each.reproduction is not None for each in again.outcomes] == [False, False, True]
    assert [path.name for path in Path(f"{journal}.failures").iterdir()] == ["x-3.jsonl"]


@pytest.mark.parametrize("change", [{"says": ["Hello"]}, {"checks": [{"judge": "it is polite"}]}, {"state": {"x": 1}}])
def test_a_journal_of_another_conversation_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    agent, journal = FunctionAgent(_echo), tmp_path / "trials.jsonl"
    scenario = Scenario(name="x", says=["Hi"])
    evaluate_sync(agent, scenario, journal=journal)
    with pytest.raises(UsageError, match="the journal has row x #1 with another prompt"):
        evaluate_sync(agent, scenario.model_copy(update=change), journal=journal, judge=agent)


def test_ctrl_c_loses_no_conversation_that_is_finished(tmp_path: Path) -> None:
    journal = tmp_path / "trials.jsonl"
    arguments = (PROGRAM, str(journal))
    with Program(*arguments, "wait") as program:
        # The third one has failed: when its reproduction is whole, the program waits for the fourth.
        kept = Path(f"{journal}.failures") / "quick-3.jsonl"
        until_sync(lambda: kept.exists() and '"kind": "scenario"' in kept.read_text("utf-8"))
        program.send_signal(signal.SIGINT)
        assert program.wait(LIMIT) != 0
    with Program(*arguments, "go on") as program:
        out, _ = program.communicate(timeout=LIMIT)
    assert out.splitlines()[0] == "7 of 8 conversations passed; 3 of 8 from the journal"
    assert out.splitlines()[-1] == "asked 5, kept quick-3.jsonl"


def test_an_agent_that_cannot_be_reached_is_asked_again_and_then_named(tmp_path: Path) -> None:
    scenario, retry = Scenario(name="x", says=["Hi"]), RowRetry(times=1, first_wait=0)
    busy: list[Any] = [faults.status(503, retry_after=0), sse(turn(text("Hello")))]
    with serve_bytes(*busy) as server:
        assert evaluate_sync(HttpAgent(server.url, retry=None), scenario, retry=retry).passed
    journal = tmp_path / "trials.jsonl"
    evaluation = evaluate_sync(HttpAgent("http://127.0.0.1:1/"), scenario, retry=0, journal=journal)
    refused = "no connection to http://127.0.0.1:1/: nothing listens there; is the agent running?"
    assert str(evaluation).splitlines() == [
        "0 of 1 conversations passed, 1 could not be held",
        "scenario  passed",
        "x         -, 1 broken",
        "x #1 could not be held",
        f"  ConnectError: {refused}",
    ]
    assert not evaluation.passed
    with serve(FunctionAgent(_echo)) as server:
        later = evaluate_sync(HttpAgent(server.url), scenario, journal=journal, rerun_failed=True)
    assert later.passed
    assert json.loads(journal.read_text("utf-8").splitlines()[-1])["parsed"]["turns"][0]["text"] == "Hi!"


def _suffixes(folder: Path) -> list[str]:
    return [each.suffix for each in folder.iterdir()]


@pytest.mark.anyio
async def test_a_conversation_that_is_stopped_before_the_journal_has_it_leaves_no_file(tmp_path: Path) -> None:
    planned = Planned(Scenario(name="x", says=["Hi"]), 1, tmp_path / "x.jsonl")
    async with ScenarioAgent(FunctionAgent(_echo), {"x": planned}).stream("x") as run:
        await anext(run)
        assert _suffixes(tmp_path) == [".unfinished"]
    assert _suffixes(tmp_path) == []


def test_a_journal_answers_for_no_other_agent(tmp_path: Path) -> None:
    journal, scenario = tmp_path / "trials.jsonl", Scenario(name="x", says=["Hi"])
    with serve(FunctionAgent(_echo)) as one, serve_bytes(b"") as other:
        first = evaluate_sync(HttpAgent(f"{one.url}?key=s3cret"), scenario, journal=journal)
        assert "s3cret" not in journal.read_text("utf-8")
        again = evaluate_sync(HttpAgent(one.url), scenario, journal=journal)
        assert str(first).splitlines()[0] == "1 of 1 conversations passed"
        assert str(again).splitlines()[0] == "1 of 1 conversations passed; 1 of 1 from the journal"
        with pytest.raises(UsageError, match=f"the journal has x #1 of the agent {one.url}, and this one is"):
            evaluate_sync(HttpAgent(other.url), scenario, repeat=2, journal=journal)
        assert other.requests == []


def test_another_judge_or_user_at_another_address_is_another_scenario(tmp_path: Path) -> None:
    journal = tmp_path / "trials.jsonl"
    with serve(ScriptedAgent(turn(text('{"passed": true, "reason": ""}')))) as judge:
        scenario = Scenario(name="x", says=["Hi"], checks=[{"judge": "it is polite"}], judge=HttpAgent(judge.url))
        assert evaluate_sync(FunctionAgent(_echo), scenario, journal=journal).passed
    other = scenario.model_copy(update={"judge": HttpAgent("http://127.0.0.1:1/")})
    with pytest.raises(UsageError, match="the journal has row x #1 with another prompt"):
        evaluate_sync(FunctionAgent(_echo), other, journal=journal)


async def _crashing(input: RunAgentInput) -> AsyncIterator[str]:
    if len(input.messages) > 1:
        raise RuntimeError("the model is gone")
    yield "Hello."


def test_a_crash_in_a_later_turn_is_a_failure_and_a_refusal_is_none() -> None:
    says = Scenario(name="x", says=["Hi", "Book"])
    for failing, kind in ((faults.status(500), "HTTPStatusError"), (faults.status(404), "HTTPStatusError")):
        with serve_bytes(sse(turn(text("Hello"))), failing) as server:
            evaluation = evaluate_sync(HttpAgent(server.url, retry=None), says, retry=0)
        (failure,) = evaluation.failures
        assert failure.failed["completes"].reason.startswith(f"in turn 2, {kind}: ")
        assert failure.trial is not None
        assert "Hello" in failure.trial.transcript
        assert failure.reproduction is not None
        assert Reproduction.read(failure.reproduction).replay().failed.keys() == {"completes"}
    busy: list[Any] = [sse(turn(text("Hello"))), faults.status(503, retry_after=0), sse(turn(text("Hello")))]
    with serve_bytes(*busy) as server:
        assert evaluate_sync(HttpAgent(server.url, retry=None), says, retry=RowRetry(times=1, first_wait=0)).passed
    with serve_bytes(faults.status(500)) as server:
        assert len(evaluate_sync(HttpAgent(server.url, retry=None), says, retry=0).broken) == 1
    (failure,) = evaluate_sync(FunctionAgent(_crashing), says).failures
    assert (
        failure.failed["completes"].reason
        == "in turn 2, RunFailedError: the agent raised RuntimeError: the model is gone"
    )


def test_the_turn_that_hung_is_in_the_transcript() -> None:
    async def hanging(input: RunAgentInput) -> AsyncIterator[str]:
        yield "One moment"
        if len(input.messages) > 1:
            await anyio.sleep(30)

    scenario = Scenario(name="x", says=["Hi", "Book"], limits={"seconds": 0.5})
    (failure,) = evaluate_sync(FunctionAgent(hanging), scenario).failures
    assert failure.trial is not None
    assert failure.trial.error == "the conversation took longer than 0.5 seconds; turn 2 was not over"
    assert [each.prompt for each in failure.trial.turns] == ["Hi", "Book"]
    assert failure.trial.transcript.splitlines()[2:] == ["user: Book", "assistant: One moment"]


def test_equal_failures_are_one_group_though_seconds_and_ids_differ() -> None:
    def late(trial: Trial) -> str:
        return f"it took {trial.seconds:.6f} seconds in thread {trial.thread_id}"

    evaluation = evaluate_sync(FunctionAgent(_echo), Scenario(name="x", says=["Hi"], checks=[late]), repeat=5)
    groups = [line for line in str(evaluation).splitlines() if line.startswith("x #")]
    assert groups == ["x #1 failed, as did 4 more"]


def test_progress_and_table_say_the_same_of_what_failed(tmp_path: Path) -> None:
    def odd(trial: Trial) -> bool:
        return trial.repetition % 3 > 0

    scenario, journal = Scenario(name="x", says=["Hi"], checks=[odd]), tmp_path / "trials.jsonl"
    for _ in range(2):
        plan = Plan(FunctionAgent(_echo), scenario, {"repeat": 9, "journal": journal})
        for done in plan.batch:
            plan.add(done)
        assert headline(plan.evaluation()).startswith("6 of 9 conversations passed")
        assert str(plan.batch.progress).startswith("9/9 conversations, 3 failed")
        said = str(plan.batch.summary)
        assert said.startswith("9 of 9 conversations in ")
        assert said.splitlines()[0].endswith(": 3 failed")
        assert said.splitlines()[1] == "  3 a check failed"
