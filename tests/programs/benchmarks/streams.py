"""Events through the whole client: from bytes to `async for`, bare, with extensions, with payloads, and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ag_ui.core import AssistantMessage, TextMessageContentEvent, TextMessageStartEvent

from agui_client import HookContext, Reducer, RunObserver, Subscriber
from programs.benchmarks.measure import Row, Work, best_times, per_event
from programs.benchmarks.wire import RUN_ID, Stream, iterate, metadata, raw_event, text, text_chunks, tool_call

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput

    from agui_client import Change, HttpAgent
    from agui_client.types import Next, RunScope

DELTAS = 20_000
_LONG, _SHORT = 200_000, 2_000
_MESSAGES = 100
_ARGUMENTS = 8_000
_LINEAR = 1.15


def text_deltas(repeat: int) -> list[Row]:
    """Text deltas in one message, nobody but the caller listening."""
    return [
        _against_floor(repeat, Stream(text(DELTAS)), "20 k text deltas", 1.1),
        _against_floor(repeat, Stream(text(DELTAS), is_flushed=True), "20 k text deltas, one to a read", 1.35),
    ]


def awaiting_results(repeat: int) -> list[Row]:
    """`run_agent`, held against iterating the same run."""
    stream = Stream(text(DELTAS))
    awaited: Work = lambda: asyncio.run(stream.agent().run_agent(run_id=RUN_ID))  # noqa: E731
    ours, iterated = best_times(repeat, awaited, stream.iterated())
    absolute = per_event(ours, iterated, stream.event_count)
    return [Row("run_agent, 20 k text deltas", ours / iterated, 1.03, "iterating", absolute)]


def raw_events(repeat: int) -> list[Row]:
    """Text deltas that carry what the provider or the server said."""
    loaded, labelled = Stream(text(DELTAS, carrying=raw_event)), Stream(text(DELTAS, carrying=metadata))
    return [
        _against_floor(repeat, loaded, "20 k text deltas, 2 kB rawEvent on each", 1.5),
        _against_floor(repeat, labelled, "20 k text deltas, timestamp and metadata on each", 1.8),
    ]


def extensions(repeat: int) -> list[Row]:
    """Text deltas through a middleware and to three subscribers."""
    stream = Stream(text(DELTAS))
    extended: Work = lambda: stream.expect(asyncio.run(iterate(_extended(stream.agent()))))  # noqa: E731
    ours, floor = best_times(repeat, extended, stream.floor())
    work = "20 k text deltas, one middleware, three subscribers"
    return [Row(work, ours / floor, 3, "floor", per_event(ours, floor, stream.event_count))]


def observed(repeat: int) -> list[Row]:
    """Text deltas with an observer of every event."""
    stream = Stream(text(DELTAS))
    watched: Work = lambda: stream.expect(asyncio.run(iterate(stream.agent().add_observer(_Watching()))))  # noqa: E731
    ours, unobserved = best_times(repeat, watched, stream.iterated())
    absolute = per_event(ours, unobserved, stream.event_count)
    return [Row("20 k text deltas, an observer of every event", ours / unobserved, 1.2, "none", absolute)]


def message_length(repeat: int) -> list[Row]:
    """What a delta costs at the end of a long message."""
    long, short = Stream(text(_LONG)), Stream(text(_SHORT))
    ours, reference = best_times(repeat, long.iterated(), _again(short.iterated(), _LONG // _SHORT))
    return [_per_event_row("200 k deltas in one message", ours / reference, "2 k", ours, reference, _LONG)]


def looking(repeat: int) -> list[Row]:
    """Reading `run.messages` after each delta."""
    each = DELTAS // _MESSAGES
    stream = Stream([frame for index in range(_MESSAGES) for frame in text(each, message_id=f"message-{index}")])
    looked: Work = lambda: stream.expect(asyncio.run(_look(stream.agent())))  # noqa: E731
    ours, blind = best_times(repeat, looked, stream.iterated())
    absolute = per_event(ours, blind, stream.event_count)
    growing, copying = best_times(repeat, _look_at_one_text, _copy_one_text)
    size = per_event(growing, copying, _LOOKS)
    return [
        Row("run.messages after each of 20 k deltas, 100 messages", ours / blind, 2, "not looking", absolute),
        Row("messages after each delta of one text of 2 MB", growing / copying, 2, "copying the text", size),
    ]


_LOOKS = 2_000
_PIECE = "x" * 1_000


def _look_at_one_text() -> None:
    reducer, delta = Reducer(), TextMessageContentEvent(message_id="m", delta=_PIECE)
    reducer.feed(TextMessageStartEvent(message_id="m"))
    for _ in range(_LOOKS):
        reducer.feed(delta)
        _ = reducer.messages


def _copy_one_text() -> None:
    grown = ""
    for _ in range(_LOOKS):
        seen = grown  # with a second reference, Python has to copy the text
        grown = seen + _PIECE


def chunks(repeat: int) -> list[Row]:
    """The same text as chunk events."""
    spelled, short = Stream(text(DELTAS)), Stream(text_chunks(DELTAS))
    # The pair of events around the text is not in the stream, but the caller sees it.
    ours, reference = best_times(repeat, lambda: asyncio.run(iterate(short.agent())), spelled.iterated())
    absolute = per_event(ours, reference, spelled.event_count)
    return [Row("20 k text deltas as chunk events", ours / reference, 1.3, "start, content, end", absolute)]


def arguments(repeat: int) -> list[Row]:
    """Arguments of a tool call, read once; and looked at, as far as they can be read, after every delta."""
    once, twice = Stream(tool_call(_ARGUMENTS)), Stream(tool_call(2 * _ARGUMENTS))
    words = Stream(text(_ARGUMENTS))
    double, single, spoken = best_times(repeat, _called(twice), _called(once), words.iterated())
    long, short = best_times(repeat, _watched(twice), _watched(once))
    growth = double / (2 * single)
    return [
        _per_event_row("16 k tool argument deltas", growth, "8 k", double / 2, single, _ARGUMENTS),
        _per_event_row("16 k looked at each", long / (2 * short), "8 k", long / 2, short, _ARGUMENTS),
        Row("8 k tool argument deltas", single / spoken, 1.2, "text deltas", per_event(single, spoken, _ARGUMENTS)),
    ]


class _Watching(RunObserver):
    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        """See every event."""


class _Everything(Subscriber):
    def on_event(self, event: Event, context: HookContext) -> None:
        """Hear of every event."""


class _Text(Subscriber):
    def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
        """Hear of text."""


class _Messages(Subscriber):
    def on_messages_changed(self, context: HookContext) -> None:
        """Hear of messages."""


async def _pass(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        yield event


def _extended(agent: HttpAgent) -> HttpAgent:
    for subscriber in (_Everything(), _Text(), _Messages()):
        agent.subscribe(subscriber)
    return agent.use(_pass)


async def _look(agent: HttpAgent) -> int:
    count = 0
    async with agent.stream(run_id=RUN_ID) as run:
        async for _ in run:
            count += bool(run.messages) or 1
    return count


def _called(stream: Stream) -> Work:
    def work() -> None:
        agent = stream.agent()
        stream.expect(asyncio.run(iterate(agent)))
        message = agent.messages[-1]
        assert isinstance(message, AssistantMessage)
        assert message.tool_calls
        assert len(message.tool_calls[0].function.arguments) > _ARGUMENTS

    return work


def _watched(stream: Stream) -> Work:
    """Iterate, and look at what can be read of the arguments after each of their deltas."""

    async def watch() -> int:
        count = 0
        async with stream.agent().stream(run_id=RUN_ID) as run:
            async for call in run.tool_call_stream:
                count += call.partial_arguments is not None
        return count

    def work() -> None:
        assert asyncio.run(watch()) > _ARGUMENTS / 2

    return work


def _again(work: Work, times: int) -> Work:
    def repeated() -> None:
        for _ in range(times):
            work()

    return repeated


def _against_floor(repeat: int, stream: Stream, work: str, limit: float) -> Row:
    ours, floor = best_times(repeat, stream.iterated(), stream.floor())
    return Row(work, ours / floor, limit, "floor", per_event(ours, floor, stream.event_count))


def _per_event_row(work: str, ratio: float, reference: str, ours: float, theirs: float, events: int) -> Row:
    return Row(f"{work}, per event", ratio, _LINEAR, reference, per_event(ours, theirs, events))
