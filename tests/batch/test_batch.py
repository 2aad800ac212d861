"""`run_many`: an agent, or several, on each row of a table."""

from __future__ import annotations

import asyncio
import csv
import errno
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from io import StringIO
from itertools import count
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import anyio
import pytest
from ag_ui.core import (
    ImageInputContent,
    InputContentDataSource,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    TokenUsage,
    UserMessage,
)
from pydantic import AfterValidator, BaseModel, model_validator

from agui_client import FunctionAgent, HttpAgent, UsageError, attach
from agui_client.batch import Budget, Progress, RowError, RowResult, RowRetry, run_many, table, write_table
from agui_client.batch._pace import Pace
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Step,
    faults,
    interrupt,
    serve,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from support.waiting import LIMIT, until

QUESTIONS = [{"id": f"q{number}", "question": f"What is {number}?"} for number in range(6)]


async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(text(f"You asked: {input.messages[-1].content}"))


def failing(*failures: str) -> ScriptedAgent:
    """An agent that reports an error for some prompts."""

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        prompt = str(input.messages[-1].content)
        if prompt in failures:
            yield RunErrorEvent(message=f"no idea about {prompt}", code="stumped")
        else:
            yield turn(text(prompt.upper()))

    return ScriptedAgent(answer)


async def collected(batch: Any) -> list[RowResult]:
    return sorted([done async for done in batch], key=lambda done: (done.number, done.agent))


def answers(results: list[RowResult]) -> list[tuple[str, str]]:
    return [(done.key, done.text) for done in results]


ALL = [(f"q{number}", f"You asked: What is {number}?") for number in range(6)]


@pytest.mark.parametrize("verb", ["async", "sync"])
def test_each_row_is_asked_on_a_thread_of_its_own(verb: str) -> None:
    agent = ScriptedAgent(echo, initial_messages=[UserMessage(id="u0", content="Be brief.")])
    batch = run_many(agent, QUESTIONS, prompt="question", key="id", at_once=3)
    results = sorted(batch, key=lambda done: done.number) if verb == "sync" else asyncio.run(collected(batch))
    assert answers(results) == ALL
    assert {len(input.messages) for input in agent.inputs} == {2}
    assert len({input.thread_id for input in agent.inputs}) == 6
    assert len(agent.messages) == 1
    assert (str(batch.progress).startswith("6/6 rows, 0 failed"), batch.summary.is_complete) == (True, True)


def test_no_more_rows_run_at_once_than_allowed() -> None:
    gate, running, most = Gate(), 0, 0

    async def busy(input: RunAgentInput) -> AsyncIterator[Step]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        yield gate
        running -= 1
        yield turn(text("done"))

    async def main() -> None:
        batch = run_many(ScriptedAgent(busy), QUESTIONS, prompt="question", at_once=2)
        waiting = asyncio.create_task(collected(batch))
        await until(lambda: running == 2)
        assert batch.progress.running == 2
        gate.open()
        assert len(await asyncio.wait_for(waiting, LIMIT)) == 6

    asyncio.run(main())
    assert most == 2


def test_leaving_the_loop_stops_what_runs_and_the_journal_keeps_what_is_finished(tmp_path: Path) -> None:
    agent, journal = ScriptedAgent(echo), tmp_path / "out.jsonl"

    async def main() -> None:
        async for done in run_many(agent, QUESTIONS, prompt="question", key="id", at_once=1, journal=journal):
            assert done.key == "q0"
            break
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(main())
    before = len(agent.inputs)
    assert before < 6
    for done in run_many(agent, QUESTIONS, prompt="question", key="id", at_once=1, journal=journal):
        assert done.from_journal
        break
    before = len(agent.inputs)  # the next row may have begun
    results = list(run_many(agent, QUESTIONS, prompt="question", key="id", journal=journal))
    assert answers(sorted(results, key=lambda done: done.number)) == ALL
    assert sum(done.from_journal for done in results) + len(agent.inputs) - before == 6


def test_half_a_line_at_the_end_of_the_journal_is_dropped(tmp_path: Path) -> None:
    agent, journal = ScriptedAgent(echo), tmp_path / "out.jsonl"
    list(run_many(agent, QUESTIONS, prompt="question", key="id", at_once=1, journal=journal))
    whole = journal.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for size in (last, last + 1, last + 9, last + 40, len(whole) - 2, len(whole) - 1):
        journal.write_bytes(whole[:size])
        before = len(agent.inputs)
        results = list(run_many(agent, QUESTIONS, prompt="question", key="id", at_once=1, journal=journal))
        assert sorted(answers(results)) == ALL
        # A line that lacks nothing but its end is whole.
        assert len(agent.inputs) - before == (0 if size == len(whole) - 1 else 1)
        assert len(journal.read_text("utf-8").splitlines()) == 6


def test_a_journal_is_refused_that_is_none_or_belongs_to_others(tmp_path: Path) -> None:
    agent, journal = ScriptedAgent(echo), tmp_path / "out.jsonl"

    def refusal(rows: Any = QUESTIONS, **options: Any) -> str:
        with pytest.raises(UsageError) as refused:
            list(run_many(agent, rows, prompt="question", key="id", journal=journal, **options))
        return str(refused.value)

    for content in ('{"id": 1}\n', "id,question\n", "id,question", "\0\0\0\0"):
        journal.write_text(content)
        assert "line 1 is not a line of a journal" in refusal()
        assert journal.read_text() == content
    journal.unlink()
    assert len(list(run_many(agent, QUESTIONS, prompt="question", key="id", journal=journal))) == 6
    assert "row q0 with another prompt" in refusal([{"id": "q0", "question": "Something else?"}])
    assert "was not parsed as this type" in refusal(parse=Animal)
    asked = len(agent.inputs)
    journal.unlink()
    batch = iter(run_many(agent, QUESTIONS, prompt="question", key="id", at_once=1, journal=journal))
    next(batch)
    assert "another program is writing" in refusal()
    batch.close()
    assert asked == 6


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of the batch so far, without the folder of the file."""
    return [record.getMessage().rpartition("/")[2] for record in caplog.records if record.name == "agui_client.batch"]


ODD_LINES = {
    "deep": ('"parsed":null', '"parsed":' + "[" * 5000 + "]" * 5000),
    "a list as the key": ('"key":"1"', '"key":[1]'),
    "no counts": ('"usage":{}', '"usage":null'),
    "an error of another kind": ('"error":null', '"error":{"a":1}'),
    "cut in the middle": ('"usage":{}', "\n"),
    "zeros": ('{"key":"1"', "\0" * 20),
}


@pytest.mark.parametrize(("good", "odd"), ODD_LINES.values(), ids=ODD_LINES)
def test_a_damaged_line_harms_no_row_but_its_own_and_stays(
    good: str, odd: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = tmp_path / "out.jsonl"

    def finished(answer: str, *rows: str, **options: Any) -> set[tuple[str, str, bool]]:
        batch = run_many(ScriptedAgent(turn(text(answer))), rows, journal=journal, **options)
        return {(done.key, done.text, done.from_journal) for done in batch}

    finished("once", "a")
    whole = journal.read_text()
    damaged = whole.replace(good, odd)
    assert damaged != whole
    journal.write_text(damaged + whole.replace('"1"', '"2"').replace('"a"', '"b"'))
    assert finished("twice", "a", "b") == {("1", "twice", False), ("2", "once", True)}
    assert "out.jsonl, line 1 is damaged and stays as it is; its row is run again" in logged(caplog)
    assert finished("", "a", "b", rerun_failed=True) == {("1", "twice", True), ("2", "once", True)}
    assert damaged in journal.read_text()


def test_an_answer_that_is_not_of_the_type_harms_no_row_but_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = tmp_path / "out.jsonl"

    def names(name: str) -> list[tuple[str, str | None, bool]]:
        agent = ScriptedAgent(turn(text(json.dumps({"name": name, "legs": 4}))))
        batch = run_many(agent, ["a", "b"], parse=Animal, journal=journal, at_once=1)
        return [(done.key, done.parsed.name if done.parsed else None, done.from_journal) for done in batch]

    names("dog")
    first, second = journal.read_text().splitlines()
    journal.write_text("\n".join((first, second.replace('"legs":4', '"legs":"four"'), "")))
    assert names("cat") == [("1", "dog", True), ("2", "cat", False)]
    assert names("cow") == [("1", "dog", True), ("2", "cat", True)]
    assert "row 2 with a reply that was not parsed as this type; it is run again" in caplog.text


def nested(value: object) -> object:
    for _ in range(1000):
        value = [value]
    return value


def to_bytes(value: object) -> object:
    return b"\xff"


def to_digits(value: object) -> object:
    return 10**5000


@pytest.mark.parametrize(
    ("made", "why"),
    [(nested, "depth"), (to_bytes, "invalid utf-8"), (to_digits, "cannot be read")],
)
def test_an_answer_without_a_json_form_reaches_the_caller_and_is_a_failed_row_of_the_journal(
    made: Callable[[object], object], why: str, tmp_path: Path
) -> None:
    journal, kind = tmp_path / "out.jsonl", Annotated[Any, AfterValidator(made)]
    agent = ScriptedAgent(turn(text("1")))
    first: Any = run_many(agent, ["a", "b"], parse=kind, journal=journal)
    assert [done.error for done in first] == [None, None]
    again: Any = list(run_many(agent, ["a", "b"], parse=kind, journal=journal))
    assert [(done.text, done.from_journal, done.parsed) for done in again] == [("1", True, None)] * 2
    assert all(why in done.error.message for done in again)


class Animal(BaseModel):
    name: str
    legs: int


@pytest.mark.parametrize("shape", ["Animal", 3, GenericAlias(list, ("Nowhere",))], ids=str)
def test_a_type_that_cannot_be_read_is_refused_before_the_first_row(shape: Any) -> None:
    agent = ScriptedAgent(echo)
    with pytest.raises(UsageError, match="parse= takes a type that pydantic can read"):
        run_many(agent, ["a"], parse=shape)
    assert agent.inputs == []


def test_a_row_whose_answer_makes_the_type_itself_fail_keeps_its_text(tmp_path: Path) -> None:
    class Broken(BaseModel):
        @model_validator(mode="before")
        @classmethod
        def fail(cls, value: Any) -> Any:
            raise LookupError("no such animal")

    agent, journal = ScriptedAgent(turn(text("{}"), usage=USAGE)), tmp_path / "out.jsonl"
    (done,) = run_many(agent, ["a"], parse=Broken, journal=journal)
    assert done.error is not None
    assert (done.error.type, done.text, done.parsed, bool(done.usage)) == ("LookupError", "{}", None, True)
    assert json.loads(journal.read_bytes())["text"] == "{}"


def test_answers_are_parsed_also_those_of_the_journal(tmp_path: Path) -> None:
    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text("a snake?" if input.messages[-1].content == "snake" else '{"name": "ant", "legs": 6}'))

    results: list[RowResult] = []
    for _ in range(2):
        batch = run_many(ScriptedAgent(answer), ["ant", "snake"], parse=Animal, journal=tmp_path / "out.jsonl")
        results = sorted(batch, key=lambda done: done.number)
        assert [done.parsed for done in results] == [Animal(name="ant", legs=6), None]
        assert results[1].error is not None
        assert (results[1].error.type, results[1].text) == ("ParseError", "a snake?")
    (ant, snake) = table(results)
    assert (ant["parsed.legs"], snake["parsed.legs"], ant["error"]) == (6, None, None)


def test_a_failed_row_has_its_error_and_is_run_again_if_asked_for(tmp_path: Path) -> None:
    journal = tmp_path / "out.jsonl"

    def run(agent: ScriptedAgent, **options: Any) -> list[RowResult]:
        batch = run_many(agent, ["a", "b", "c"], journal=journal, **options)
        return sorted(batch, key=lambda done: done.number)

    first = run(failing("b"))
    error = RowError("RunFailedError", "no idea about b (code stumped)", "stumped")
    assert [(done.text, done.error, done.attempts) for done in first] == [
        ("A", None, 1),
        ("", error, 1),
        ("C", None, 1),
    ]
    healed = failing()
    assert [done.error for done in run(healed)] == [None, error, None]
    assert [done.text for done in run(healed, rerun_failed=True)] == ["A", "B", "C"]
    assert (len(healed.inputs), len(journal.read_text().splitlines()), len(list(tmp_path.iterdir()))) == (1, 3, 1)


def test_a_run_that_waits_for_somebody_is_no_answer() -> None:
    (done,) = run_many(ScriptedAgent(turn(text("Well,"), outcome=interrupt("Shall I?"))), ["Buy it"])
    assert done.error is not None
    assert (done.error.type, "Shall I?" in done.error.message, done.text) == ("Unfinished", True, "Well,")


def test_a_run_that_is_cancelled_or_waits_for_a_tool_is_no_answer() -> None:
    cancelled = ScriptedAgent(turn(text("Well,"), outcome=RunFinishedCancelledOutcome(type="cancelled")))
    waiting = ScriptedAgent(turn(tool_call("buy", {})))
    results = sorted(run_many({"a": cancelled, "b": waiting}, ["Buy it"]), key=lambda done: done.agent)
    assert [done.error and done.error.message for done in results] == [
        "the run was cancelled",
        "the agent waits for the result of buy; give the agent the tool, or approve=",
    ]


def test_errors_are_repeated_as_the_policy_says() -> None:
    tries = count(1)

    async def sometimes(input: RunAgentInput) -> AsyncIterator[Step]:
        yield RunErrorEvent(message="later") if next(tries) % 3 else turn(text("now"))

    quick = RowRetry(times=2, on="any", first_wait=0.001)
    (done,) = run_many(ScriptedAgent(sometimes), ["a"], retry=quick)
    assert (done.text, done.attempts, done.error) == ("now", 3, None)
    (done,) = run_many(ScriptedAgent(sometimes), ["a"], retry=5)
    assert (done.attempts, done.error is not None) == (1, True)  # the agent had begun
    asked: list[str] = []

    def judge(error: Exception) -> bool:
        asked.append(type(error).__name__)
        return True

    policy = RowRetry(times=1, on=judge, first_wait=0)
    (done,) = run_many(ScriptedAgent([RunErrorEvent(message="never")]), ["a"], retry=policy)
    assert (done.attempts, asked) == (2, ["RunFailedError"])


def test_a_server_that_asks_to_come_back_holds_back_all_rows() -> None:
    replies = [faults.status(429, retry_after=1), faults.status(429, retry_after=1)]
    moments: list[float] = []

    def reply(request: Any) -> Any:
        moments.append(time.monotonic())
        return replies.pop() if replies else faults.healthy(sse(turn(text("now"))))

    with serve_bytes(reply) as server:
        results = list(run_many(HttpAgent(server.url), ["a", "b", "c", "d"], at_once=2))
    assert [done.text for done in results] == ["now"] * 4
    assert sorted(done.attempts for done in results) == [1, 1, 2, 2]
    assert moments[2] - moments[0] > 0.9


@pytest.mark.parametrize(
    ("status", "repeated_on"),
    [
        (400, {"any"}),
        (408, {"transport", "any"}),
        (429, {"unsent", "transport", "any"}),
        (500, {"transport", "any"}),
        (503, {"unsent", "transport", "any"}),
    ],
)
def test_a_status_is_repeated_by_the_policies_that_cover_it(status: int, repeated_on: set[str]) -> None:
    kinds: tuple[Any, ...] = ("unsent", "transport", "any")
    repeated: set[str] = set()
    with serve_bytes(lambda request: faults.status(status)) as server:
        for kind in kinds:
            (done,) = run_many(HttpAgent(server.url), ["a"], retry=RowRetry(times=1, on=kind, first_wait=0))
            assert done.error is not None
            assert (done.error.type, done.error.code) == ("HTTPStatusError", str(status))
            if done.attempts == 2:
                repeated.add(kind)
    assert repeated == repeated_on


def test_a_row_that_would_wait_too_long_is_left_or_has_failed(tmp_path: Path) -> None:
    journal, budget = tmp_path / "out.jsonl", Budget(seconds=30)
    with serve_bytes(lambda request: faults.status(429, retry_after=60)) as server:
        left = run_many(HttpAgent(server.url), ["a"], budget=budget, journal=journal)
        assert (list(left), left.summary.stopped_by, journal.read_bytes()) == ([], "seconds", b"")
        (done,) = run_many(HttpAgent(server.url), ["a"], retry=RowRetry(max_wait=59))
        assert (done.attempts, done.error and done.error.code) == (1, "429")
    left = run_many(failing("a"), ["a"], budget=budget, retry=RowRetry(on="any", first_wait=100))
    assert (list(left), left.summary.stopped_by) == ([], "seconds")
    assert str(left.summary).endswith("stopped by the budget of seconds; 1 rows are left")


def test_progress_is_a_line_for_people() -> None:
    def line(seconds_left: float | None) -> str:
        rate = None if seconds_left is None else 12.3
        return str(Progress(9, 4, 0, 1, 2, 0, 8.5, per_minute=rate, seconds_left=seconds_left))

    assert line(None) == "4/9 rows, 1 failed"
    ends = {59: "59 s left", 125: "2 min left", 7500: "2 h 5 min left"}
    assert {seconds: line(seconds).removeprefix("4/9 rows, 1 failed, 12 a minute, ") for seconds in ends} == ends


def test_rows_are_spread_over_the_minute() -> None:
    begun: list[float] = []

    async def note(input: RunAgentInput) -> AsyncIterator[Step]:
        begun.append(time.monotonic())
        yield turn(text("ok"))

    start = time.monotonic()
    list(run_many(ScriptedAgent(note), ["a", "b", "c"], per_minute=600))
    assert max(begun) - start > 0.19


@pytest.mark.parametrize(
    ("budget", "stopped_by", "finished"),
    [
        (Budget(rows=2), "rows", 2),
        (Budget(tokens=15), "tokens", 2),
        (Budget(cost="15 USD", prices={"m": (1e6, 1e6)}), "cost", 2),
        (Budget(cost="15 USD"), "cost", 1),
        (Budget(cost="15 USD", prices={"*": (0, 0)}), None, 6),
        (Budget(failures=0), "failures", 1),
        (Budget(seconds=0), "seconds", 0),
        (Budget(rows=6), None, 6),
    ],
)
def test_a_budget_ends_a_start_and_the_next_one_goes_on(
    budget: Budget, stopped_by: str | None, finished: int, tmp_path: Path
) -> None:
    agent = failing("a") if budget.failures is not None else ScriptedAgent(turn(text("x"), usage=USAGE))
    rows, journal = ["a", "b", "c", "d", "e", "f"], tmp_path / "out.jsonl"
    batch = run_many(agent, rows, at_once=1, budget=budget, journal=journal)
    assert len(list(batch)) == finished
    assert (batch.summary.stopped_by, batch.summary.finished) == (stopped_by, finished)
    rest = run_many(agent, rows, at_once=1, journal=journal)
    assert (len(list(rest)), len(agent.inputs), rest.summary.from_journal) == (6, 6, finished)


USAGE = [TokenUsage(model="m", input_tokens=6, output_tokens=4)]


def test_rows_say_what_they_cost_and_the_summary_which_models_have_no_price(tmp_path: Path) -> None:
    agents = {
        "priced": ScriptedAgent(turn(text("x"), usage=USAGE)),
        "other": ScriptedAgent(turn(text("y"), usage=OTHER)),
    }
    journal, budget = tmp_path / "out.jsonl", Budget(prices={"m": (1e6, 1e6)})
    batch = run_many(agents, ["a", "b"], journal=journal, budget=budget)
    assert sorted((done.agent, done.cost) for done in batch) == [("other", None)] * 2 + [("priced", 10.0)] * 2
    assert (batch.summary.cost, batch.summary.unpriced) == (20.0, ("n",))
    assert "priced: " in str(batch.summary)
    assert "20 tokens, 20.00 USD, 0 failed" in str(batch.summary)
    assert "there is no price of n; see Budget(prices=...)" in str(batch.summary)
    # The journal knows it without prices.
    again = run_many(agents, ["a", "b"], journal=journal)
    rows = table(again)
    assert [row["cost"] for row in rows if row["agent"] == "priced"] == [10.0, 10.0]
    assert again.summary.cost == 20.0
    assert "cost" not in table(run_many(agents["priced"], ["a"]))[0]


OTHER = [TokenUsage(model="n", input_tokens=6, output_tokens=4)]


def test_several_agents_answer_the_same_rows(tmp_path: Path) -> None:
    old, new = ScriptedAgent(turn(text("old"), usage=USAGE)), failing("b")
    agents, journal = {"old": old, "new": new}, tmp_path / "out.jsonl"
    expected = [("1", "new", "A"), ("1", "old", "old"), ("2", "new", ""), ("2", "old", "old")]
    first = run_many(agents, ["a", "b"], journal=journal)
    assert sorted((done.key, done.agent, done.text) for done in first) == expected
    batch = run_many(agents, ["a", "b"], journal=journal)
    results = sorted(batch)
    in_order = [("1", "old", "old"), ("1", "new", "A"), ("2", "old", "old"), ("2", "new", "")]
    assert [(done.key, done.agent, done.text) for done in results] == in_order
    assert len(old.inputs) == len(new.inputs) == 2
    summary = batch.summary
    assert (summary.agents["new"].failed, summary.agents["old"].tokens, summary.tokens) == (1, 20, 20)
    assert summary.errors == {"RunFailedError: no idea about b (code stumped)": 1}
    assert list(summary.agents) == ["old", "new"]
    assert "new: " in str(summary)
    assert [row["agent"] for row in table(results)] == ["old", "new", "old", "new"]


def test_failures_are_of_one_kind_apart_from_the_ids_and_numbers_of_their_runs() -> None:
    messages = ("run 3f2a-77 took 31.5 s at 10:41:07.", "run 9c81-aa0 took 8 s\n at 23:05.", "run 3f2a-77 was cut off.")
    kinds = [RowError("ReadTimeout", message, "504").kind for message in messages]
    assert kinds == [*["ReadTimeout 504: run … took … s at …."] * 2, "ReadTimeout 504: run … was cut off."]
    assert RowError("ReadTimeout", messages[0]).kind == "ReadTimeout: run … took … s at …."


def test_a_batch_and_its_rows_say_in_one_line_what_they_are() -> None:
    batch = run_many({"old": failing("b\nc"), "new": ScriptedAgent(echo)}, ["b\nc"], at_once=1)
    assert repr(batch) == "<Batch of old, new: 0/2 rows, 0 failed>"
    failed, answered = (re.sub(r"[0-9.]+ s", "0.1 s", repr(done)) for done in sorted(batch))
    assert failed == "<RowResult 1 of old, 0.1 s, 0 tokens: failed, RunFailedError: no idea about b c (code stumped)>"
    assert answered == r"<RowResult 1 of new, 0.1 s, 0 tokens: 'You asked: b\nc'>"


def test_a_terminal_has_a_bar_while_the_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    printed = sys.stdout
    for _ in run_many(ScriptedAgent(echo), ["a", "b"]):
        assert sys.stdout is printed, "a file or a pipe"
    assert "2/2 rows, 0 failed" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "nothing of it is left"


def test_a_prompt_may_be_made_of_a_row() -> None:
    image = attach(b"\x89PNG\r\n\x1a\n")
    agent = ScriptedAgent(echo)
    list(run_many(agent, [{"word": "tower"}], prompt=lambda row: [f"Which {row['word']}?", image]))
    content: Any = agent.inputs[0].messages[0].content
    assert content[0].text == "Which tower?"
    assert isinstance(content[1], ImageInputContent)
    assert isinstance(content[1].source, InputContentDataSource)


def test_an_agent_that_raises_fails_its_row_alone() -> None:
    async def answer(input: RunAgentInput) -> AsyncIterator[Any]:
        if input.messages[-1].content == "a":
            raise LookupError("nothing there")
        async for event in ScriptedAgent(turn(text("fine"))).run(input):
            yield event

    results = sorted(run_many(FunctionAgent(answer), ["a", "b"]), key=lambda done: done.number)
    assert [(done.text, done.error) for done in results] == [
        ("", RowError("LookupError", "nothing there")),
        ("fine", None),
    ]


# --- inputs


def write_csv(path: Path) -> None:
    path.write_text('\ufeffid,question\nq0,What is 0?\nq1,"What,\nis 1?"\n', encoding="utf-8")


def write_lines(path: Path) -> None:
    path.write_text('{"id": "q0", "question": "What is 0?"}\n\n{"id": "q1", "question": "What,\\nis 1?"}\n')


def write_tabs(path: Path) -> None:
    path.write_text('id\tquestion\nq0\tWhat is 0?\nq1\t"What,\nis 1?"\n')


def write_parquet(path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    rows = [{"id": "q0", "question": "What is 0?"}, {"id": "q1", "question": "What,\nis 1?"}]
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [("in.csv", write_csv), ("in.tsv", write_tabs), ("in.jsonl", write_lines), ("in.parquet", write_parquet)],
)
def test_rows_come_from_files(name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / name)
    results = sorted(
        run_many(ScriptedAgent(echo), tmp_path / name, prompt="question", key="id"), key=lambda d: d.number
    )
    assert answers(results) == [("q0", "You asked: What is 0?"), ("q1", "You asked: What,\nis 1?")]
    assert dict(results[0].row) == {"id": "q0", "question": "What is 0?"}


def test_rows_come_from_a_data_frame() -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [7, 8], "prompt": ["a", "b"], "price": [1.5, None]})
    results = sorted(run_many(ScriptedAgent(echo), frame, key="id"), key=lambda done: done.number)
    assert answers(results) == [("7", "You asked: a"), ("8", "You asked: b")]
    assert pandas.DataFrame(table(results))["text"].tolist() == ["You asked: a", "You asked: b"]
    frame.loc[1, "prompt"] = None
    with pytest.raises(UsageError, match=r"column 'prompt' has no prompt for row 8"):
        run_many(ScriptedAgent(echo), frame, key="id")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("no.csv", None, r"no\.csv cannot be read: No such file"),
        ("in.txt", b"a", r"the name of a file of rows ends with \.csv"),
        ("in.csv", b"id,text\n1,a\n", r"row 1 has no column 'question'; it has 'id', 'text'"),
        ("in.csv", b"id,question\n1,a\n1,b\n", r"column 'id' has one key for several rows: '1'"),
        ("in.csv", b"id,question\n1,a\n,b\n", r"column 'id' has no key in row 2"),
        ("in.csv", b"id,question\n1,a\n2, \n", r"column 'question' has no prompt for row 2"),
        ("in.csv", b"id,question\n1,a,c\n", r"line 2: the row has not the 2 cells"),
        ("in.csv", b"id,question\n1\n", r"line 2: the row has not the 2 cells"),
        ("in.csv", b'id,question\n1,"a\n', r"line 1: unexpected end of data"),
        ("in.csv", b"id,id\n1,a\n", r"has two columns 'id'"),
        ("in.csv", b"", r"is empty: its first line has the names of the columns"),
        ("in.csv", b"id,question\n" + b"1,a\n" * 9999 + b"2,\xff\n", r"line 10001 is not UTF-8: it has the byte 0xff"),
        ("in.jsonl", b'{"id": 1, "question": "a"}\n{"id": 2,\n', r"line 2 is not JSON: Expecting property name"),
        ("in.jsonl", b'{"id": 1, "question": "\\ud800"}\n', r"row 1 has half a character in its prompt"),
        ("in.jsonl", b'{"id": "\\ud800", "question": "a"}\n', r"row 1 has half a character in its key"),
        ("in.jsonl", b'{"id": 1, "question": ["\\ud800"]}\n', r"row 1 has half a character in its prompt"),
        ("in.jsonl", b"[1]\n", r"line 1 is not a JSON object"),
        ("in.parquet", b"PAR1", r"is not a Parquet file"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_before_anything_is_sent(
    name: str, content: bytes | None, complaint: str, tmp_path: Path
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    agent = ScriptedAgent(echo)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=complaint):
        run_many(agent, tmp_path / name, prompt="question", key="id")
    assert agent.inputs == []


def test_tables_with_two_columns_of_one_name_are_refused() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame: Any = pandas.DataFrame([["a", "b"]], columns=["prompt", "prompt"])
    made: Any = arrow.table([["a"], ["b"]], names=["prompt", "prompt"])
    for rows in (frame, made):
        with pytest.raises(UsageError, match="the table has two columns 'prompt'"):
            run_many(ScriptedAgent(echo), rows)


def test_numbers_of_other_libraries_are_prompts_and_keys() -> None:
    pandas: Any = pytest.importorskip("pandas")
    number = pandas.Series([7]).iloc[0]
    (done,) = run_many(ScriptedAgent(echo), [{"id": number, "prompt": number}], key="id")
    assert (done.key, done.prompt, done.text) == ("7", "7", "You asked: 7")


def test_missing_values_of_a_data_frame_are_empty_cells_of_tables(tmp_path: Path) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": ["a"], "price": [float("nan")], "day": [pandas.NaT], 5: [pandas.NA]})
    results = list(run_many(ScriptedAgent(echo), frame))
    for kind in ("csv", "jsonl", "parquet"):
        write_table(results, tmp_path / f"out.{kind}")
        (done,) = run_many(ScriptedAgent(echo), tmp_path / f"out.{kind}")
        assert [done.row[name] or None for name in ("price", "day", "5")] == [None] * 3


def test_a_function_of_prompts_that_raises_names_the_row() -> None:
    with pytest.raises(KeyError) as raised:
        run_many(ScriptedAgent(echo), [{"a": 1}, {"b": 2}], prompt=lambda row: row["a"])
    assert raised.value.__notes__ == ["in the function of prompt=, for row 2"]


def test_options_that_make_no_sense_are_refused() -> None:
    agent, wrong = ScriptedAgent(echo), list[dict[str, Any]]()
    wrong += [
        {"at_once": 0},
        {"at_once": 2.5},
        {"per_minute": 0},
        {"retry": -1},
        {"budget": 3},
        {"rerun_failed": True},
        {"run_id": "r"},
        {"prompt": 0},
        {"key": 0},
    ]
    for options in wrong:
        with pytest.raises(UsageError):
            run_many(agent, ["a"], **options)
    for agents in ([], {"": agent}, [agent, agent], ["http://localhost"]):
        with pytest.raises(UsageError):
            run_many(agents, ["a"])
    for rows in (5, {"prompt": "a"}, [5]):
        with pytest.raises(UsageError):
            run_many(agent, rows)
    for make in (lambda: RowRetry(on="all"), lambda: Budget(rows=-1)):  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            make()
    with pytest.raises(
        TypeError,
        match=r"^unknown keyword rows_at_once=; did you mean at_once=\? help\(run_many\) explains all keywords$",
    ):
        run_many(agent, ["a"], rows_at_once=3)  # type: ignore[call-overload]
    batch = run_many(agent, ["a"])
    list(batch)
    with pytest.raises(UsageError, match="iterated once"):
        list(batch)
    assert list(run_many(agent, [])) == []


# --- outputs


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_table_is_written_and_can_be_the_next_input(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    rows = [{"prompt": "a", "text": "mine", "tags": ["x", 1]}, {"prompt": "b", "text": "mine", "tags": "y"}]
    agent = ScriptedAgent(turn(text("answer, \u2028 and more"), usage=USAGE))
    path = tmp_path / f"out.{kind}"
    write_table(sorted(run_many(agent, rows), key=lambda done: done.number), path)
    again = sorted(run_many(agent, path), key=lambda done: done.number)
    assert [done.prompt for done in again] == ["a", "b"]
    first = again[0].row
    assert (first["input.text"], first["text"], str(first["usage.input_tokens"])) == (
        "mine",
        "answer, \u2028 and more",
        "6",
    )
    assert first["tags"] == (["x", 1] if kind == "jsonl" else '["x",1]')
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UsageError, match="ends with"):
        write_table([], tmp_path / "out.xls")


RUN_BY_SPREADSHEETS = ("=1+1", "+cmd", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\0=1", "\uff1d1", "'=1", "''-a")
HARMLESS = ("-3", "+47.5e-1", "-.5", "a=1", " =1", "", "'", "'quoted'", "it's", "3")


def test_texts_that_a_spreadsheet_would_run_have_an_apostrophe_which_the_next_input_takes_off(tmp_path: Path) -> None:
    texts = [*RUN_BY_SPREADSHEETS, *HARMLESS]
    rows = [{"prompt": "p", "=name": each, "number": -3, "list": ["=1"]} for each in texts]
    agent, path = ScriptedAgent(turn(text("=1"))), tmp_path / "out.csv"
    write_table(sorted(run_many(agent, rows), key=lambda done: done.number), path)
    with path.open(encoding="utf-8", newline="") as file:
        names, *cells = csv.reader(file)
    assert names[:5] == ["prompt", "'=name", "number", "list", "key"]
    assert [row[:5] for row in cells] == [
        ["p", each if each in HARMLESS else f"'{each}", "-3", '["=1"]', str(number)]
        for number, each in enumerate(texts, start=1)
    ]
    assert {row[names.index("text")] for row in cells} == {"'=1"}
    again = sorted(run_many(agent, path), key=lambda done: done.number)
    assert [(done.row["=name"], done.row["number"], done.row["text"]) for done in again] == [
        (each, "-3", "=1") for each in texts
    ]


def test_an_apostrophe_in_a_file_of_others_is_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("key,prompt\n1,'-' or '+'?\n")
    (done,) = run_many(ScriptedAgent(echo), path)
    assert done.prompt == "'-' or '+'?"


def test_a_journal_is_json_lines_that_other_tools_read(tmp_path: Path) -> None:
    list(run_many(ScriptedAgent(turn(text("x"), usage=USAGE)), ["a"], journal=tmp_path / "out.jsonl"))
    line = json.loads((tmp_path / "out.jsonl").read_text("utf-8"))
    assert line["seconds"] >= line["first_text"] > 0
    del line["seconds"], line["first_text"]
    assert line == {
        "key": "1",
        "agent": "",
        "prompt": "a",
        "text": "x",
        "parsed": None,
        "usage": {"input_tokens": 6, "output_tokens": 4},
        "attempts": 1,
        "error": None,
    }


class HalfName(BaseModel):
    name: str = "caf\udce9"


def test_half_a_character_in_a_parsed_answer_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "out.jsonl"
    (done,) = run_many(ScriptedAgent(turn(text("{}"))), ["a"], parse=HalfName, journal=journal)
    assert done.parsed == HalfName()
    assert json.loads(journal.read_bytes())["parsed"] == {"name": "caf?"}


def test_a_journal_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no" / "out.jsonl", "No such file")):
        with pytest.raises(UsageError, match=f"the journal .* cannot be opened: {reason}"):
            list(run_many(ScriptedAgent(echo), ["a"], journal=path))


def test_half_a_character_in_an_error_loses_nothing(tmp_path: Path) -> None:
    async def answer(input: RunAgentInput) -> AsyncIterator[Any]:
        if input.messages:
            raise LookupError("caf\udce9")
        yield

    journal = tmp_path / "out.jsonl"
    for _ in range(2):
        results = list(run_many(FunctionAgent(answer), ["a"], journal=journal))
        assert [each.error and each.error.type for each in results] == ["LookupError"]
    assert json.loads(journal.read_bytes())["error"]["message"] == "caf?"
    for kind in ("csv", "jsonl"):
        write_table(run_many(FunctionAgent(answer), ["a"]), tmp_path / f"table.{kind}")


def test_a_full_disk_ends_the_batch_and_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, agent, room, write = tmp_path / "out.jsonl", ScriptedAgent(echo), 500, os.write

    def write_until_full(file: int, data: bytes) -> int:
        if journal.exists() and os.path.samestat(os.fstat(file), journal.stat()):
            left = room - journal.stat().st_size
            if left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data[:left])
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        with pytest.raises(OSError, match=r"No space left on device: '.*out\.jsonl'"):
            list(run_many(agent, QUESTIONS, prompt="question", key="id", journal=journal))
    kept = journal.read_bytes()
    assert kept.count(b"\n") == 2
    assert kept.endswith(b"\n")
    results = list(run_many(agent, QUESTIONS, prompt="question", key="id", journal=journal))
    assert sorted(answers(results)) == ALL


def test_connections_are_used_again_by_later_rows() -> None:
    with serve(ScriptedAgent(echo)) as server:
        agent = HttpAgent(server.url)
        assert len(list(run_many(agent, QUESTIONS, prompt="question", at_once=2))) == 6


def test_a_batch_runs_on_trio() -> None:
    trio: Any = pytest.importorskip("trio")
    results: list[RowResult] = trio.run(
        collected, run_many(ScriptedAgent(echo), QUESTIONS, prompt="question", key="id")
    )
    assert answers(results) == ALL


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_a_new_journal_belongs_to_its_owner_and_tables_are_as_other_files(tmp_path: Path) -> None:
    kept, new, out = tmp_path / "kept", tmp_path / "new", tmp_path / "out.csv"
    kept.touch()
    kept.chmod(0o644)
    before = os.umask(0o027)
    try:
        for journal in (kept, new):
            write_table(run_many(FunctionAgent(lambda input: "ok"), ["a"], journal=journal), out)
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (kept, new, out)] == [0o644, 0o600, 0o640]
    assert {each.name for each in tmp_path.iterdir()} == {"kept", "new", "out.csv"}


@pytest.mark.anyio
async def test_a_turn_waits_again_if_a_server_asked_for_more_time_meanwhile() -> None:
    pace = Pace(None)
    moments: list[float] = []
    pace.hold(0.05)

    async def begin() -> None:
        assert await pace.turn()
        moments.append(anyio.current_time())

    start = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        await anyio.sleep(0.02)
        pace.hold(0.1)
    assert moments[0] - start >= 0.12
