"""Batches whose rows are runs that are kept: each row is run once, however often the batch is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput, RunFinishedEvent, RunStartedEvent, TextMessageChunkEvent

from agui_client import Approve, FunctionAgent, Resolve, UsageError
from agui_client.batch import RowError, RowRetry, run_many
from agui_client.store import RunInfo, Store
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.programs import Program
from support.waiting import until_sync

pytestmark = pytest.mark.anyio

_PROGRAM = str(Path(__file__).parents[1] / "support" / "kept_batch.py")
_SECONDS = 60.0


class Answerer:
    """An agent that counts the prompts that it is asked, and fails at those in a set."""

    def __init__(self, *failing: str) -> None:
        self.asked: Counter[str] = Counter()
        self.failing = set(failing)
        self.store = Store()
        self.store.runs.add("answerer", FunctionAgent(self._answer))

    async def _answer(self, run_input: RunAgentInput) -> AsyncGenerator[Event]:
        prompt = str(run_input.messages[-1].content)
        self.asked[prompt] += 1
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        if prompt in self.failing:
            raise ValueError(f"no answer to {prompt}")
        yield TextMessageChunkEvent(message_id="m", role="assistant", delta=f"Answer to {prompt}")
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    async def answers(self, rows: Mapping[str, str], name: str = "batch", **options: Any) -> dict[str, str]:
        """Run a batch; return the answer or the error of each row by its key."""
        data = [{"id": key, "prompt": prompt} for key, prompt in rows.items()]
        batch = run_many("answerer", data, key="id", on=self.store, name=name, **options)
        return {done.key: done.error.message if done.error else done.text async for done in batch}


async def test_a_batch_that_is_started_again_reads_the_runs_that_are_kept() -> None:
    agent = Answerer()
    first, second = [await agent.answers({"a": "one", "b": "two"}) for _ in range(2)]
    assert first == second == {"a": "Answer to one", "b": "Answer to two"}
    assert agent.asked == {"one": 1, "two": 1}
    [run, _] = await agent.store.runs.list(owner="batch batch")
    assert run.status == "finished"


async def test_another_prompt_and_another_name_of_the_batch_make_other_runs() -> None:
    agent = Answerer()
    await agent.answers({"a": "one", "b": "two"})
    assert await agent.answers({"a": "three", "b": "two"}) == {"a": "Answer to three", "b": "Answer to two"}
    await agent.answers({"b": "two"}, name="another")
    assert agent.asked == {"one": 1, "two": 2, "three": 1}


async def test_a_row_that_failed_is_kept_unless_retries_run_it_again() -> None:
    agent = Answerer("one")
    failed = {"a": "ValueError: no answer to one (code agent_failed)"}
    assert [await agent.answers({"a": "one"}) for _ in range(2)] == [failed, failed]
    assert agent.asked == {"one": 1}
    again = RowRetry(times=1, on="any", first_wait=0.001)
    assert await agent.answers({"a": "one"}, retry=again) == failed
    agent.failing.clear()
    answered = {"a": "Answer to one"}
    assert [await agent.answers({"a": "one"}, retry=again) for _ in range(2)] == [answered, answered]
    assert (await agent.answers({"a": "one"}), agent.asked) == (answered, {"one": 3})


async def test_a_row_that_waits_for_a_person_says_which_run_to_answer_and_a_later_start_reads_the_answer(
    tmp_path: Path,
) -> None:
    store = Store()
    agent = ScriptedAgent(
        turn(text("I pay."), tool_call("pay", {"amount": 3})),
        turn(text("Paid."), outcome=interrupt("Proceed?", interrupt_id="i")),
        turn(text("Done.")),
    )
    agent.tool(pay, approval="always")
    store.runs.add("answerer", agent)

    async def row() -> tuple[str, RowError | None]:
        rows, journal = [{"id": "a", "prompt": "Pay"}], tmp_path / "answers.jsonl"
        [done] = [each async for each in run_many("answerer", rows, key="id", on=store, name="b", journal=journal)]
        return done.text, done.error

    async def waiting() -> RunInfo:
        [found] = [each for each in await store.runs.list() if each.status == "waiting"]
        return found

    how = "answer it with runs.answer or agui runs answer, and start the batch again"
    said, error = await row()
    asks = await waiting()
    call = 'pay with {"amount": 3}'
    message = f"run {asks.run_id!r} waits for an answer: Allow the call of {call}?; {how}"
    assert (said, error) == ("I pay.", RowError("Unfinished", message, "waiting"))
    assert (await row(), len(agent.inputs)) == ((said, error), 1)
    await store.runs.answer(asks.run_id, {each.id: Approve() for each in asks.interrupts})
    # The next start follows the run that goes on, and that one waits, too.
    said, error = await row()
    asks = await waiting()
    message = f"run {asks.run_id!r} waits for an answer: Proceed?; {how}"
    assert (said, error) == ("Paid.", RowError("Unfinished", message, "waiting"))
    await store.runs.answer(asks.run_id, {"i": Resolve(payload=True)})
    assert [await row() for _ in range(2)] == [("Done.", None)] * 2
    assert len(agent.inputs) == 3


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_what_a_batch_on_runs_cannot_have_is_refused_before_anything_runs() -> None:
    agent, store = ScriptedAgent(turn(text("Hi"))), Store()
    store.runs.add("helper", agent)
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("helper", {"on": store}),
        ("helpr", {"on": store, "name": "b"}),
        ({"old": "helper", "new": "helpr"}, {"on": store, "name": "b"}),
        ("helper", {"name": "b"}),
        ("helper", {}),
        (agent, {"on": store, "name": "b"}),
        ("helper", {"on": store, "name": "b", "headers": {"a": "b"}}),
        ("helper", {"on": store, "name": "b", "rerun_failed": True, "journal": "answers.jsonl"}),
    ]
    for given, options in wrong:
        with pytest.raises(UsageError):
            run_many(given, ["a"], **options)
    with pytest.raises(UsageError, match=r"^on= takes Store\(URL\) of agui_client.store, not the URL itself$"):
        run_many("helper", ["a"], on="postgresql://ann:secret@host/runs", name="b")
    assert agent.inputs == []


def test_a_batch_on_runs_that_an_earlier_batch_has_closed_is_refused_as_a_whole(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'runs.db'}")
    store.runs.add("helper", ScriptedAgent(turn(text("Hi"))))
    assert [done.text for done in run_many("helper", ["a"], on=store, name="b")] == ["Hi"]
    with pytest.raises(UsageError, match=r"^the store of these runs was closed"):
        list(run_many("helper", ["a", "b"], on=store, name="b"))


async def test_a_batch_on_runs_in_memory_says_that_they_end_with_the_program(caplog: pytest.LogCaptureFixture) -> None:
    agent = Answerer()
    assert await agent.answers({"a": "one"}) == {"a": "Answer to one"}
    assert [each.getMessage() for each in caplog.records if each.name == "agui_client.batch"] == [
        "the rows are runs in memory, which end with this program; Store(URL) keeps them in a database"
    ]


def test_a_batch_goes_on_when_its_program_is_killed_and_started_again(tmp_path: Path) -> None:
    begun, hold, database = tmp_path / "begun", tmp_path / "hold", f"sqlite:///{tmp_path / 'runs.db'}"
    hold.touch()

    def count(row: int) -> int:
        return begun.read_text().split().count(str(row)) if begun.exists() else 0

    with Program(_PROGRAM, database, str(tmp_path), stderr=2) as first:
        assert first.stdout is not None
        assert {first.stdout.readline() for _ in range(3)} == {f"Answer to {row}\n" for row in (1, 2, 3)}
        until_sync(lambda: all(map(count, (4, 5, 6))), _SECONDS)
    hold.unlink()
    with Program(_PROGRAM, database, str(tmp_path), stderr=2) as second:
        lines = second.communicate(timeout=_SECONDS)[0].splitlines()
    assert sorted(lines) == [f"Answer to {row}" for row in range(1, 10)]
    assert [count(row) for row in range(1, 10)] == [1, 1, 1, 2, 2, 2, 1, 1, 1]
