"""The log of one run: its phases, its size, and attempts that replace what an earlier one wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Interrupt,
    Message,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCall,
    UserMessage,
)

from agui_client import UsageError
from agui_client._core.agent.run_records import Place, RunKey, RunsClosedError, cursor_of, read_cursor
from agui_client.store import RunInfo, RunStatus
from agui_client.store._runs.run_log import LogPhase, RunLog

pytestmark = pytest.mark.anyio

KEY = RunKey("ann", "t", "r")
BEGUN = RunStartedEvent(thread_id="t", run_id="r")
OVER = RunFinishedEvent(thread_id="t", run_id="r")
ASKED = Interrupt(id="i", reason="confirmation", message="Proceed?")
WAITS = RunFinishedEvent(thread_id="t", run_id="r", outcome=RunFinishedInterruptOutcome(interrupts=[ASKED]))


class Keeper:
    """Notes what a log reports."""

    def __init__(self) -> None:
        self.size, self.reports = 0, list[str]()

    def on_growth(self, log: RunLog, size: int) -> None:
        self.size += size

    def on_end(self, log: RunLog) -> None:
        self.reports.append("end")

    def on_left(self, log: RunLog) -> None:
        self.reports.append("left")


def a_log(*events: Event, keeper: Keeper | None = None) -> RunLog:
    log = RunLog(KEY, keeper or Keeper())
    log.open([], {})
    for event in events:
        log.append(event)
    return log


def said(*deltas: str) -> list[Event]:
    """A message that is begun, and not ended."""
    return [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(TextMessageContentEvent(message_id="m", delta=each) for each in deltas),
    ]


async def read(log: RunLog, place: Place) -> list[tuple[Place, str]]:
    """The places and types of the next frames."""
    frames = await log.read(place)
    return [(place, json.loads(frame.removeprefix(b"data: "))["type"]) for place, frame in frames]


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (OVER, RunStatus.FINISHED),
        (WAITS, RunStatus.WAITING),
        (OVER.model_copy(update={"outcome": RunFinishedCancelledOutcome()}), RunStatus.STOPPED),
        (RunErrorEvent(message="broken"), RunStatus.FAILED),
    ],
    ids=lambda value: value.value if isinstance(value, RunStatus) else "",
)
async def test_the_description_of_a_run_says_how_it_ended(last: Event, status: RunStatus) -> None:
    keeper = Keeper()
    log = a_log(BEGUN, keeper=keeper)
    about: Any = {"run_id": "r", "thread_id": "t", "owner": "ann", "begun_at": log.begun_at}
    assert log.info == RunInfo(status=RunStatus.RUNNING, ended_at=None, event_count=1, interrupts=(), **about)
    assert (log.age < 0, log.phase, log.end) == (True, LogPhase.OPEN, Place(1, 1))
    log.append(last)
    interrupts = [ASKED] if status is RunStatus.WAITING else ()
    assert log.info == RunInfo(status=status, ended_at=log.ended_at, event_count=2, interrupts=interrupts, **about)
    assert log.ended_at is not None
    assert log.ended_at >= log.begun_at
    assert (0 <= log.age < 60, log.phase, keeper.reports) == (True, LogPhase.OVER, ["end"])
    log.settle(is_answered=True)
    settled = RunStatus.FINISHED if status is RunStatus.WAITING else status
    assert (log.info.status, log.info.interrupts) == (settled, ())


async def test_a_log_takes_what_it_holds_and_gives_it_back_when_it_is_dropped() -> None:
    keeper = Keeper()
    log = RunLog(KEY, keeper, 1000)
    begin = log.size
    assert 1000 < begin < 10_000
    call = ToolCall(id="c", function=FunctionCall(name="look", arguments="x" * 10_000))
    messages: list[Message] = [UserMessage(id="u", content="x" * 20_000), AssistantMessage(id="a", tool_calls=[call])]
    log.open(messages, {"x": "x" * 40_000})
    assert 70_000 < log.size - begin < 71_000
    log.append(BEGUN)
    for event in said("x" * 80_000):
        log.append(event)
    assert 150_000 < log.size - begin < 152_000
    written = RunLog(KEY, Keeper())
    before = written.size
    written.extend([frame for _, frame in await log.read(Place(0, 1))], is_end=False)
    assert 80_000 < written.size - before < 81_000
    assert keeper.size == log.size - begin
    log.drop()
    assert (keeper.size, log.size, log.phase, log.before) == (-begin, 0, LogPhase.DROPPED, None)
    # It was dropped before its end: the run goes on elsewhere, and is no run that nobody knows.
    with pytest.raises(RunsClosedError, match=r"^run 'r' is left to another process$"):
        await log.read(Place(0, 1))
    ended = a_log(BEGUN, OVER)
    ended.drop()
    with pytest.raises(UsageError, match=r"^run 'r' is no longer kept; Store\(keep=, max_bytes=\) say for how long$"):
        await ended.read(Place(0, 1))


async def test_a_follower_gets_events_as_they_come_and_none_when_the_run_is_over() -> None:
    log = a_log(BEGUN)
    got: list[Sequence[tuple[Place, str]]] = []

    async def follow() -> None:
        place = Place(0, 1)
        while frames := await read(log, place):
            got.append(frames)
            place = frames[-1][0]

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            log.append(said()[0])
            await anyio.wait_all_tasks_blocked()
            log.append(OVER)
    assert got == [
        [(Place(1, 1), "RUN_STARTED")],
        [(Place(2, 1), "TEXT_MESSAGE_START")],
        [(Place(3, 1), "RUN_FINISHED")],
    ]
    assert await read(log, Place(2, 1)) == got[-1]
    with pytest.raises(UsageError, match=r"^run 'r' has no 4 events; the cursor is of another run$"):
        await log.read(Place(4, 1))


async def test_a_follower_of_an_earlier_attempt_gets_the_ends_of_what_it_saw_and_then_what_replaced_it() -> None:
    log = a_log(BEGUN, StepStartedEvent(step_name="look"), *said("One. ", "Two."))
    log.begin_again(2, 1)
    with anyio.fail_after(10):
        # It has seen the beginning of a step and of a message, or nothing that was cut.
        for at in (4, 5):
            ends = [(Place(at, ends=1), "TEXT_MESSAGE_END"), (Place(at, ends=2), "STEP_FINISHED")]
            assert await read(log, Place(at)) == ends
            assert await read(log, ends[0][0]) == ends[1:]
        assert await read(log, Place(2, 1)) == [(Place(2, ends=1), "STEP_FINISHED")]
        assert await read(log, Place(0, 1)) == [(Place(1, 2), "RUN_STARTED")]
        got: list[Any] = []

        async def follow() -> None:
            got.extend(await read(log, Place(4, ends=2)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            log.append(said()[0])
        assert got == [(Place(2, 2), "TEXT_MESSAGE_START")]
        # A third attempt goes on from the same checkpoint, and one that has seen the first goes on there, too.
        log.begin_again(3, 1)
        log.append(OVER)
        assert await read(log, Place(2, 2)) == [(Place(2, 2, ends=1), "TEXT_MESSAGE_END")]
        assert [kind for _, kind in await read(log, Place(4))] == ["TEXT_MESSAGE_END", "STEP_FINISHED"]
        assert await read(log, Place(2, 2, ends=1)) == [(Place(2, 3), "RUN_FINISHED")]
        assert await read(log, Place(1, 3)) == await read(log, Place(1, 1)) == [(Place(2, 3), "RUN_FINISHED")]
        assert (await read(log, Place(2, 3)), log.end) == ([], Place(2, 3))


async def all_behind(log: RunLog, place: Place) -> list[tuple[Place, str]]:
    """The places of all events behind one, each with its type and its subagent or message."""
    found: list[tuple[Place, str]] = []
    while frames := await log.read(found[-1][0] if found else place):
        events = [json.loads(frame.removeprefix(b"data: ")) for _, frame in frames]
        what = [f"{each['type']} {each.get('subagentRunId', each.get('messageId', ''))}".strip() for each in events]
        found += zip([at for at, _ in frames], what, strict=True)
    return found


def begun(subagent: str) -> Event:
    return SubagentStartedEvent(subagent_run_id=subagent, name=subagent)


def done(subagent: str) -> Event:
    return SubagentFinishedEvent(subagent_run_id=subagent)


async def test_a_follower_gets_the_beginning_and_the_end_of_each_subagent_once_over_all_attempts() -> None:
    log = a_log(BEGUN, begun("a"), begun("b"), *said("One."), done("b"))
    log.begin_again(2, 1)
    for event in (begun("b"), begun("c"), done("b"), begun("a")):
        log.append(event)
    log.begin_again(3, 1)
    for event in (begun("a"), done("a"), begun("b"), done("b"), begun("d"), done("d"), OVER):
        log.append(event)
    with anyio.fail_after(10):
        last = ["SUBAGENT_STARTED a", "SUBAGENT_FINISHED a", "SUBAGENT_STARTED b", "SUBAGENT_FINISHED b"]
        last += ["SUBAGENT_STARTED d", "SUBAGENT_FINISHED d", "RUN_FINISHED"]
        seen = {
            # Nothing that was cut.
            Place(1): last,
            # a and b, and the beginning of a message.
            Place(4): ["TEXT_MESSAGE_END m", "SUBAGENT_FINISHED a", "SUBAGENT_FINISHED b", *last[4:]],
            # The end of b, too.
            Place(6): ["TEXT_MESSAGE_END m", "SUBAGENT_FINISHED a", *last[4:]],
            # b and c of the second attempt, of which the third has no c.
            Place(3, 2): [*last[:2], last[3], *last[4:6], "SUBAGENT_ERROR c", "RUN_FINISHED"],
            # a of the first attempt, and b and c of the second one.
            Place(3, 2, (Place(2),)): [last[1], last[3], *last[4:6], "SUBAGENT_ERROR c", "RUN_FINISHED"],
        }
        for place, expected in seen.items():
            found = await all_behind(log, place)
            assert [what for _, what in found] == expected
            assert len({cursor_of("r", at) for at, _ in found}) == len(found)
            # Each of them is a place to go on at.
            for number, (at, _) in enumerate(found, 1):
                assert read_cursor(cursor_of("r", at)) == ("r", at)
                assert [what for _, what in await all_behind(log, at)] == expected[number:]


async def test_what_is_not_stored_yet_is_not_shown_to_followers() -> None:
    log = a_log(BEGUN, *said())
    log.show(1)
    got: list[tuple[Place, str]] = []

    async def follow() -> None:
        got.extend(await all_behind(log, Place(0)))

    with anyio.fail_after(10):
        assert await log.has_more(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            log.append(said("One.")[1])
            log.show(2)
            await anyio.wait_all_tasks_blocked()
            log.append(OVER)
        assert not await log.has_more(4)
    assert got == [
        (Place(1), "RUN_STARTED"),
        (Place(2), "TEXT_MESSAGE_START m"),
        (Place(3), "TEXT_MESSAGE_CONTENT m"),
        (Place(4), "RUN_FINISHED"),
    ]


async def test_a_follower_that_has_more_than_a_mirror_waits_for_it() -> None:
    written, log = a_log(BEGUN, *said("One.")), a_log(BEGUN)
    log.is_remote = True
    got: list[list[tuple[Place, str]]] = []

    async def follow(place: Place) -> None:
        got.append(await all_behind(log, place))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, Place(2))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(follow, Place(1, 2))
            await anyio.wait_all_tasks_blocked()
            log.extend([frame for _, frame in await written.read(Place(1))], is_end=False)
            log.begin_again(2, 1)
            log.append(OVER)
    over = (Place(2, 2), "RUN_FINISHED")
    assert sorted(got, key=len) == [[over], [(Place(2, ends=1), "TEXT_MESSAGE_END m"), over]]
    with pytest.raises(UsageError, match=r"^run 'r' has no 3 events; the cursor is of another run$"):
        await log.read(Place(3, 2))


async def test_the_last_follower_that_leaves_a_run_that_goes_on_is_reported() -> None:
    keeper = Keeper()
    log = a_log(BEGUN, keeper=keeper)
    assert (log.is_followed, keeper.reports) == (False, [])
    with log.followed():
        with log.followed():
            assert (log.is_followed, keeper.reports) == (True, [])
        assert (log.is_followed, keeper.reports) == (True, [])
    assert (log.is_followed, keeper.reports) == (False, ["left"])
    with log.followed():
        log.append(OVER)
    assert keeper.reports == ["left", "end"]


async def test_a_run_that_is_refused_is_over_with_its_refusal() -> None:
    keeper = Keeper()
    log = RunLog(KEY, keeper)
    seen: list[bool] = []

    async def wait() -> None:
        seen.append(await log.is_followable())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            log.refuse(LookupError("no"))
        with pytest.raises(LookupError, match="no"):
            await log.opened()
        with pytest.raises(UsageError, match=r"^run 'r' has no events$"):
            await log.beginning([])
    assert (seen, log.phase, log.status, keeper.reports) == ([False], LogPhase.OVER, RunStatus.FAILED, ["end"])


async def test_a_caller_who_has_nothing_of_the_thread_gets_what_the_run_began_with() -> None:
    log = RunLog(KEY, Keeper())
    log.open([UserMessage(id="u", content="Hi")], {"n": 1})
    log.append(BEGUN)
    first, messages, state = [json.loads(each.removeprefix(b"data: ")) for each in await log.beginning([])]
    assert (first["type"], first["runId"]) == ("RUN_STARTED", "r")
    assert messages == {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}
    assert state == {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}
