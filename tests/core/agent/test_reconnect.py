"""Streams that are cut and taken up at their cursor (`agui_client.reconnect`)."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agui_client import HttpAgent, RetryPolicy, RunResult, Timeouts
from agui_client._core.transport import resuming
from agui_client._core.transport import retry as _retry
from agui_client._core.transport.numbered import NumberedFramer
from agui_client.errors import AGUIError, ConnectError, IdleTimeoutError, IncompleteRunError, UsageError
from agui_client.reconnect import Connect, DetachedRuns, LastEventId
from agui_client.testing import Reply, Request, ScriptedAgent, serve_bytes, turn
from support.waiting import LIMIT, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.anyio

_QUICK = RetryPolicy(first_wait=0.001)
_THREAD = {"threadId": "t", "runId": "r"}
_WORDS = [f"word{number} " for number in range(60)]
_EVENTS: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", **_THREAD},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
    *({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": word} for word in _WORDS),
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "RUN_FINISHED", **_THREAD},
]


def _frames(events: Sequence[dict[str, Any]], first: int = 0) -> list[bytes]:
    return [f"id: {number}\ndata: {json.dumps(event)}\n\n".encode() for number, event in enumerate(events, first)]


_ALL = _frames(_EVENTS)
_NO_ID = "reconnect= could not take it up: the server gave the latest event no `id:`"


def _after(request: Request) -> int:
    """Return the number of the frame at which an answer goes on."""
    return int(request.headers.get("last-event-id", "-1")) + 1


def _agent(url: str, **options: Any) -> HttpAgent:
    return HttpAgent(url, thread_id="t", retry=_QUICK, reconnect=LastEventId(), **options)


def _cutting(cuts: int, seed: int, end: Any) -> Callable[[Request], Reply]:
    """Answer at the cursor, and cut that many answers at a random byte after at least one frame."""
    left, chance = [cuts], random.Random(seed)

    def answer(request: Request) -> Reply:
        body = _ALL[_after(request) :]
        if not left[0]:
            return Reply([b"".join(body)])
        left[0] -= 1
        most = len(b"".join(body[:4]))
        return Reply([b"".join(body)[: chance.randint(len(body[0]), most)]], end=end)

    return answer


@pytest.mark.parametrize("end", ["close", "cut", "reset"])
async def test_an_answer_that_is_cut_twenty_times_is_whole_and_its_run_is_posted_once(end: str) -> None:
    with serve_bytes(_cutting(20, seed=7, end=end)) as server:
        async with _agent(server.url).stream("hi", run_id="r") as run:
            seen = [event.type.value async for event in run]
            result = await run.result()
    assert result.text == "".join(_WORDS)
    assert seen == [event["type"] for event in _EVENTS]
    # A reset may overtake bytes that were written, so that a cut stream brings nothing.
    assert result.reconnects >= 20
    assert [request.method for request in server.requests] == ["POST"] + ["GET"] * result.reconnects
    assert all(request.body == b"" and "content-length" not in request.headers for request in server.requests[1:])


@pytest.mark.parametrize("verb", ["run_agent_sync", "observe"])
def test_the_other_surfaces_take_a_stream_up_too(verb: str) -> None:
    with serve_bytes(_cutting(5, seed=3, end="cut")) as server:
        agent = _agent(server.url)
        if verb == "observe":
            agent.observe("hi", run_id="r").run()
        else:
            assert agent.run_agent_sync("hi", run_id="r").reconnects == 5
    assert agent.messages[-1].content == "".join(_WORDS)
    assert len(server.requests) == 6


_PRIMING = {
    "an id before the first event": b"id: 0\n\n",
    "an id with empty data": b"id: 0\ndata:\n\n",
    "a byte order mark": b"\xef\xbb\xbfid: 0\n\n",
    "an id with a NUL behind it": b"id: 0\nid: a\0b\n\n",
}


@pytest.mark.parametrize("priming", _PRIMING.values(), ids=_PRIMING)
async def test_a_run_is_taken_up_at_an_id_that_came_before_its_first_event(priming: bytes) -> None:
    with serve_bytes(Reply([priming], end="cut"), Reply(_frames(_EVENTS, 1))) as server:
        result = await _agent(server.url).run_agent("hi", run_id="r")
    assert (result.text, server.requests[1].headers.get("last-event-id")) == ("".join(_WORDS), "0")


async def test_frames_without_an_id_are_told_again_if_they_may_be_and_end_the_reconnecting_if_not() -> None:
    note = b'data: {"type": "CUSTOM", "name": "note", "value": 1}\n\n'
    nul = b'id: 2\0\nretry: 1\nretry: soon\ndata: {"type": "RAW", "event": 1}\n\n'
    with serve_bytes(Reply([*_ALL[:2], note, nul], end="cut"), Reply([note, *_ALL[2:]])) as server:
        result = await _agent(server.url).run_agent("hi", run_id="r")
    assert (result.text, len(result.custom)) == ("".join(_WORDS), 2)
    assert server.requests[1].headers["last-event-id"] == "1"
    word = f"data: {json.dumps(_EVENTS[2])}\n\n".encode()
    with serve_bytes(Reply([*_ALL[:2], word], end="cut")) as server, pytest.raises(IncompleteRunError):
        await _agent(server.url).run_agent("hi", run_id="r")


async def test_a_wait_that_the_server_asks_for_stays_if_what_it_asks_for_next_is_no_number() -> None:
    framer = NumberedFramer(1_000_000, drops_known=True)
    framer.feed(b"retry: 70\nretry: soon\nid: 1\ndata: {}\n\n")
    assert (framer.retry_seconds, framer.cursor) == (0.07, "1")


_FORMS = [
    "id: 7\ndata: x\n\n",
    "id: é\u2028\ndata:  y\x0b\n\n",
    'data: {"type": "RAW"}\n\n',
    "id: 9\ndata: é\n\n",
    "retry: 5\n\n",
]


def _never(*_: Any) -> None:
    """Fail where frames in the usual form go the slow way."""
    pytest.fail("frames in the usual form went the slow way")


@pytest.mark.parametrize("frames", [_FORMS, _FORMS[:1] * 3, [_FORMS[0], _FORMS[3]], [_FORMS[1], _FORMS[2]]])
def test_numbered_frames_in_the_usual_form_are_split_at_once_and_as_those_of_any_form_are(
    frames: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, slow = (NumberedFramer(1_000, drops_known=True) for _ in range(2))
    found = [slow.feed(each.encode()) for each in (": hello\n\n", *frames)], slow.cursor
    with monkeypatch.context() as patch:
        fast.feed(b": hello\n\n")
        is_usual = all(each.startswith("id: ") for each in frames)
        if is_usual:
            patch.setattr(NumberedFramer, "_any", _never)
        split = fast.feed("".join(frames).encode())
    assert (split, fast.cursor) == ([data for some in found[0] for data in some], found[1])
    # One character more than the form has is in every frame of any other.
    assert NumberedFramer(1_000, drops_known=True)._plain(b"id: 7\ndata: x\n\n") is None, (
        "a stream may begin with a mark"
    )


@pytest.mark.parametrize("digits", [400, 5_000])
async def test_a_wait_of_more_digits_than_a_number_can_have_is_as_long_as_the_policy_allows(digits: int) -> None:
    wait, policy = f"retry: {'9' * digits}\n\n".encode(), RetryPolicy(max_wait=0.01, first_wait=0.001)
    with serve_bytes(Reply([wait, *_ALL[:3]], end="cut"), Reply(_ALL[3:])) as server:
        result = await HttpAgent(server.url, reconnect=LastEventId(), retry=policy).run_agent("hi", run_id="r")
    assert result.text == "".join(_WORDS)


async def test_frames_that_come_again_are_dropped_and_a_snapshot_that_restates_is_understood() -> None:
    told = "".join(_WORDS[:3])
    snapshot = {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [
            {"id": "u", "role": "user", "content": "hi"},
            {"id": "m", "role": "assistant", "content": told},
        ],
    }
    again = b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in (_EVENTS[0], snapshot))
    with serve_bytes(Reply(_ALL[:5], end="cut"), Reply([again, *_ALL])) as server:
        agent = _agent(server.url)
        result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
    assert (result.text, len(agent.messages), result.reconnects) == ("".join(_WORDS), 2, 1)


async def test_a_stream_is_taken_up_with_a_post_of_its_input_where_the_agent_has_a_connect_url() -> None:
    def answer(request: Request) -> Reply:
        return Reply(_ALL[_after(request) :][:30], end="close")

    with serve_bytes(answer) as server:
        agent = _agent(server.url, connect_url="connect", headers={"authorization": "Bearer 1"})
        result = await agent.run_agent("hi", run_id="r")
    assert [(each.method, each.path, each.headers.get("last-event-id")) for each in server.requests] == [
        ("POST", "/", None),
        ("POST", "/connect", "29"),
        ("POST", "/connect", "59"),
    ]
    assert server.requests[1].json() == server.requests[0].json()
    assert server.requests[1].headers["authorization"] == "Bearer 1"
    assert result.text == "".join(_WORDS)


@pytest.mark.parametrize(("cursor", "sent"), [("é ü", "é ü"), (" ", None), ("a\x01", None)])
async def test_a_cursor_is_sent_as_it_came_or_not_at_all(cursor: str, sent: str | None) -> None:
    first = Reply([f"id: {cursor}\ndata: {json.dumps(_EVENTS[0])}\n\n".encode()], end="cut")
    with serve_bytes(first, Reply([b"".join(_ALL[1:])])) as server:
        if sent is None:
            with pytest.raises(IncompleteRunError):
                await _agent(server.url).run_agent("hi", run_id="r")
        else:
            await _agent(server.url).run_agent("hi", run_id="r")
    cursors = [each.headers["last-event-id"] for each in server.requests[1:]]
    # HTTP libraries read headers as Latin-1.
    assert [each.encode("latin-1").decode() for each in cursors] == ([] if sent is None else [sent])


@pytest.mark.parametrize(
    "cut",
    [Reply(_frames(_EVENTS[:4]), end="cut"), Reply([frame.split(b"\n", 1)[1] for frame in _ALL[:4]], end="cut")],
    ids=["not asked for", "not numbered"],
)
async def test_a_stream_is_not_taken_up_unless_it_is_numbered_and_the_application_asked_for_it(cut: Reply) -> None:
    is_numbered = cut.pieces[0] == _ALL[0]
    with serve_bytes(cut) as server, pytest.raises(IncompleteRunError) as caught:
        await HttpAgent(server.url, thread_id="t", reconnect=None if is_numbered else LastEventId()).run_agent("hi")
    assert len(server.requests) == 1
    assert (_NO_ID in str(caught.value)) is not is_numbered


@pytest.mark.parametrize("end", ["close", "cut", "reset", "stall"])
async def test_a_policy_that_cannot_take_a_stream_up_says_why_however_the_stream_is_cut(end: Any) -> None:
    frames = [frame.split(b"\n", 1)[1] for frame in _ALL[:4]]
    limits = Timeouts(idle=0.2) if end == "stall" else None
    with serve_bytes(Reply(frames, end=end)) as server:
        agent = HttpAgent(server.url, thread_id="t", reconnect=LastEventId(), timeout=limits)
        with pytest.raises(AGUIError, match=_NO_ID) as caught:
            await agent.run_agent("hi")
    assert type(caught.value) is (IdleTimeoutError if end == "stall" else IncompleteRunError)
    assert str(caught.value).count("raise Timeouts.idle") == (end == "stall")
    assert len(server.requests) == 1


async def test_a_run_whose_last_frame_no_blank_line_ends_is_over_also_where_it_could_not_be_taken_up() -> None:
    frames = [frame.split(b"\n", 1)[1] for frame in _ALL]
    with serve_bytes(Reply([*frames[:-1], frames[-1].rstrip()])) as server:
        result = await HttpAgent(server.url, thread_id="t", reconnect=LastEventId()).run_agent("hi", run_id="r")
    assert result.text == "".join(_WORDS)


async def test_requests_that_bring_no_event_end_the_run_and_an_event_begins_the_count_anew() -> None:
    nothing = Reply([b": nothing\n\n"], end="cut")
    more = [Reply([_ALL[number]], end="cut") for number in range(4)]
    answers = [*more, *[nothing] * 4, more[3]]
    with serve_bytes(*answers) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=LastEventId(attempts=5))
        with pytest.raises(IncompleteRunError) as failure:
            await agent.run_agent("hi", run_id="r")
    # One post, three requests with an event each, and five without: an event that comes again is none.
    assert len(server.requests) == 9
    assert "could not be taken up: 5 requests in a row brought no event" in str(failure.value)


async def test_a_refusal_ends_the_run_and_a_server_that_is_busy_is_asked_again() -> None:
    busy, gone = Reply([], status=503, content_type=None), Reply([b"unknown run"], status=404)
    with serve_bytes(Reply(_ALL[:3], end="close"), busy, gone) as server, pytest.raises(IncompleteRunError) as failure:
        await _agent(server.url).run_agent("hi", run_id="r")
    assert [request.method for request in server.requests] == ["POST", "GET", "GET"]
    assert "it could not be taken up: 2 requests in a row brought no event; " in str(failure.value)
    assert "404" in str(failure.value)


async def test_a_server_that_takes_up_no_run_with_get_is_said_to_need_a_connect_url() -> None:
    refusal = Reply([], status=405, content_type=None)
    with serve_bytes(Reply(_ALL[:3], end="close"), refusal) as server, pytest.raises(IncompleteRunError) as failure:
        await HttpAgent(server.url, thread_id="t", reconnect=LastEventId()).run_agent("hi", run_id="r")
    assert "it could not be taken up: 1 request brought no event; " in str(failure.value)
    assert "name the address that does with connect_url=" in str(failure.value)


async def test_a_server_that_is_away_is_asked_for_long_enough_to_be_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(resuming, "anyio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(_retry, "random", SimpleNamespace(uniform=max))
    away = Reply([], status=503, content_type=None)
    with serve_bytes(Reply(_ALL[:3], end="close"), *[away] * 11, Reply(_ALL[3:])) as server:
        result = await HttpAgent(server.url, thread_id="t", reconnect=LastEventId()).run_agent("hi", run_id="r")
    assert (result.text, result.reconnects) == ("".join(_WORDS), 1)
    assert slept == [0.2, 0.4, 0.8, 1.6, *[2.0] * 8]
    slept.clear()
    slow = RetryPolicy(first_wait=3)
    with serve_bytes(Reply(_ALL[:3], end="close"), away) as server, pytest.raises(IncompleteRunError):
        await HttpAgent(server.url, thread_id="t", retry=slow, reconnect=LastEventId()).run_agent("hi", run_id="r")
    assert slept == [3.0] * 12


async def test_an_abort_during_the_wait_does_not_reconnect() -> None:
    with serve_bytes(Reply([b"retry: 60000\n\n", *_ALL[:5]], end="cut")) as server:
        agent = _agent(server.url)

        async def stop_soon() -> None:
            await until(lambda: len(agent.messages) == 2)
            agent.abort_run()

        results: list[RunResult] = []
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop_soon)
                results.append(await agent.run_agent("hi", run_id="r"))
    assert (results[0].aborted, results[0].reconnects, len(server.requests)) == (True, 0, 1)


async def test_the_waits_are_at_least_those_that_the_server_asks_for_within_the_bound() -> None:
    with serve_bytes(Reply([b"retry: 60000\n\n", *_ALL[:5]], end="cut"), _cutting(0, 0, "close")) as server:
        policy = RetryPolicy(first_wait=0.001, max_wait=0.2)
        with anyio.fail_after(5):
            start = anyio.current_time()
            agent = HttpAgent(server.url, thread_id="t", retry=policy, reconnect=LastEventId())
            result = await agent.run_agent("hi", run_id="r")
    assert result.reconnects == 1
    assert anyio.current_time() - start >= 0.2


def test_a_policy_that_would_start_the_run_again_is_refused() -> None:
    with pytest.raises(UsageError, match="start the run again"):
        HttpAgent("http://localhost:1/", reconnect=LastEventId(method="POST"))
    with pytest.raises(UsageError, match="takes a policy"):
        HttpAgent("http://localhost:1/", reconnect=LastEventId)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a whole number from 1 up, not 0"):
        LastEventId(attempts=0)


# --- servers that send the run again, or the thread when the run is over


def _frames_of(*events: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def _again(upto: int) -> list[dict[str, Any]]:
    """Return the run as a server sends it again that puts texts together: an earlier run, and this one so far."""
    earlier: list[dict[str, Any]] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "before"}]
    earlier += [{"type": "STATE_SNAPSHOT", "snapshot": {"n": 0}}, {**_EVENTS[-1], "runId": "before"}]
    told = {**_EVENTS[2], "delta": "".join(_WORDS[:upto])}
    return [
        *earlier,
        *_EVENTS[:2],
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": upto}]},
        told,
    ]


_INTERRUPT = {"id": "i", "reason": "input_required", "message": "Where to?"}


@pytest.mark.parametrize("outcome", [{}, {"type": "success"}, {"type": "interrupt", "interrupts": [_INTERRUPT]}])
async def test_a_run_that_is_sent_again_goes_on_at_the_character_where_it_was_cut(outcome: dict[str, Any]) -> None:
    end = {**_EVENTS[-1], "outcome": outcome} if outcome else _EVENTS[-1]
    replies: list[Reply] = [Reply([_frames_of(*_EVENTS[:2], {**_EVENTS[2], "delta": "wor"})], end="cut")]
    replies += [Reply([_frames_of(*_again(upto))], end="reset" if upto % 2 else "cut") for upto in range(1, 20)]
    replies.append(Reply([_frames_of(*_again(len(_WORDS)), _EVENTS[-2], end)]))
    with serve_bytes(*replies) as server:
        agent = HttpAgent(
            server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect(attempts=20)
        )
        async with agent.stream("hi", run_id="r") as run:
            events = [event async for event in run]
            result = await run.result()
    assert (result.text, agent.state, result.warnings) == ("".join(_WORDS), {"n": 0, "a": len(_WORDS)}, [])
    kinds = [event.type.value for event in events]
    assert (kinds.count("RUN_STARTED"), kinds.count("TEXT_MESSAGE_START"), kinds.count("RUN_FINISHED")) == (1, 1, 1)
    assert [request.path for request in server.requests].count("/") == 1
    assert (result.reconnects, [each.id for each in result.interrupts]) == (
        20,
        ["i"] if "interrupts" in outcome else [],
    )


_FOREIGN: dict[str, dict[str, Any]] = {"null": {"rawEvent": None}, "unknown member": {"traceId": "x"}}


@pytest.mark.parametrize("members", _FOREIGN.values(), ids=_FOREIGN)
async def test_events_with_members_that_are_stripped_are_joined_as_those_without(members: dict[str, Any]) -> None:
    chance, thought, arguments = random.Random(7), "".join(_WORDS[:9]), json.dumps({"words": _WORDS[:9]})

    def run() -> bytes:
        """Return the run with its texts divided anew."""

        def pieces(event: dict[str, Any], text: str) -> list[dict[str, Any]]:
            size = chance.randint(1, 40)
            return [{**event, "delta": text[at : at + size]} for at in range(0, len(text), size)]

        about = {"toolCallId": "c"}
        events = [
            _EVENTS[0],
            {"type": "REASONING_MESSAGE_START", "messageId": "g", "role": "reasoning"},
            *pieces({"type": "REASONING_MESSAGE_CONTENT", "messageId": "g"}, thought),
            {"type": "REASONING_MESSAGE_END", "messageId": "g"},
            _EVENTS[1],
            *pieces(_EVENTS[2], "".join(_WORDS)),
            _EVENTS[-2],
            {"type": "TOOL_CALL_START", "toolCallName": "look", **about},
            *pieces({"type": "TOOL_CALL_ARGS", **about}, arguments),
            {"type": "TOOL_CALL_END", **about},
            _EVENTS[-1],
        ]
        return _frames_of(*({**each, **(members if chance.random() < 0.7 else {})} for each in events))

    for _ in range(20):
        wholes = [run() for _ in range(4)]
        replies = [Reply([each[: chance.randint(1, len(each) - 99)]], end="cut") for each in wholes[:3]]
        with serve_bytes(*replies, Reply([wholes[3]])) as server:
            agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
            result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
        [call] = result.pending_tool_calls
        contents = {each.role: each.content for each in agent.messages if each.content is not None}
        assert contents == {"user": "hi", "reasoning": thought, "assistant": "".join(_WORDS)}
        assert call.function.arguments == arguments


async def test_a_second_beginning_with_unknown_members_is_left_out_at_a_cursor() -> None:
    again = b"data: %b\n\n" % json.dumps({**_EVENTS[0], "traceId": "x"}).encode()
    with serve_bytes(Reply(_ALL[:5], end="cut"), Reply([again, *_ALL[5:]])) as server:
        result = await _agent(server.url).run_agent("hi", run_id="r")
    assert (result.text, result.reconnects) == ("".join(_WORDS), 1)


@pytest.mark.parametrize("members", _FOREIGN.values(), ids=_FOREIGN)
async def test_a_stored_thread_with_members_that_are_stripped_has_the_end_of_the_run(members: dict[str, Any]) -> None:
    restated = [{"id": "u", "role": "user", "content": "hi"}, {"id": "m", "role": "assistant", "content": "ab"}]
    over = _frames_of(_EVENTS[0], {"type": "MESSAGES_SNAPSHOT", "messages": restated, **members}, _EVENTS[-1])
    with serve_bytes(Reply([_frames_of(*_EVENTS[:2])], end="cut"), Reply([over])) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=DetachedRuns(patience=0.2))
        result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
    assert result.text == "ab"


async def test_a_character_that_was_cut_in_half_comes_whole_when_the_run_is_sent_again() -> None:
    halves = [{**_EVENTS[2], "delta": delta} for delta in ("a\ud83d", "\ude00b")]
    replies = Reply([_frames_of(*_EVENTS[:2], halves[0])], end="cut"), Reply([_frames_of(*_EVENTS[:2], *halves)])
    with serve_bytes(*replies, Reply([_frames_of(*_EVENTS[:2], *halves, *_EVENTS[-2:])])) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
        result = await agent.run_agent("hi", run_id="r")
    assert result.text == "a😀b"


async def test_changes_of_the_state_that_was_sent_fit_it_when_the_run_is_sent_again() -> None:
    def change(number: int) -> dict[str, Any]:
        return {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": number}]}

    begun = [_EVENTS[0], change(1)]
    with serve_bytes(
        Reply([_frames_of(*begun)], end="cut"), Reply([_frames_of(*begun, change(2), _EVENTS[-1])])
    ) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
        agent.state = {"n": 0, "mine": "kept"}
        result = await agent.run_agent("hi", run_id="r")
    assert (agent.state, result.warnings) == ({"n": 2, "mine": "kept"}, [])


def _subagent(subagent_run_id: str) -> dict[str, Any]:
    return {"type": "SUBAGENT_STARTED", "subagentRunId": subagent_run_id, "name": "worker"}


_CALL = [
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "pay", "subagentRunId": "b"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"amou', "subagentRunId": "b"},
]


async def test_a_run_that_a_server_attempts_again_leaves_nothing_open_of_the_attempt_that_was_cut() -> None:
    of_a, of_b = {"subagentRunId": "a"}, {"subagentRunId": "b"}
    first = [_EVENTS[0], _subagent("a"), _subagent("b"), _subagent("gone")]
    first += [{"type": "STEP_STARTED", "stepName": "plan", **of_a}, {"type": "STEP_STARTED", "stepName": "look"}]
    first += [{**each, **of_a, "messageId": "cut"} for each in _EVENTS[1:3]] + _CALL
    asked = {"id": "u", "role": "user", "content": "hi"}
    again = [_EVENTS[0], {"type": "MESSAGES_SNAPSHOT", "messages": [asked]}, _subagent("b")]
    again += [{"type": f"STEP_{how}", "stepName": "plan", **of_b} for how in ("STARTED", "FINISHED")]
    again += [{"type": "SUBAGENT_FINISHED", **of_b}, _subagent("a")]
    again += [{**each, **of_a} for each in _EVENTS[1:-1]]
    again += [{"type": "SUBAGENT_FINISHED", **of_a}, _EVENTS[-1]]
    with serve_bytes(Reply([_frames_of(*first)], end="cut"), Reply([_frames_of(*again)])) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
        async with agent.stream(asked, run_id="r") as run:
            seen = [event.type.value async for event in run]
            result = await run.result()
    assert [(each.id, each.content) for each in agent.messages] == [("u", "hi"), ("m", "".join(_WORDS))]
    assert {each.subagent_run_id: each.status for each in result.subagents} == {
        "a": "success",
        "b": "success",
        "gone": "abandoned",
    }
    assert (seen.count("SUBAGENT_STARTED"), seen.count("TOOL_CALL_END"), seen[-1]) == (3, 1, "RUN_FINISHED")
    assert (result.pending_tool_calls, result.warnings, result.reconnects) == ([], [], 1)


def _said(message_id: str, *, calls: bool) -> list[dict[str, Any]]:
    """A message, and perhaps a call of an id that the server gives again."""
    said = [{**each, "messageId": message_id} for each in (*_EVENTS[1:3], _EVENTS[-2])]
    call = {"toolCallId": "c", "toolCallName": "pay", "parentMessageId": message_id}
    kinds = [("START", call), ("ARGS", {"toolCallId": "c", "delta": "{}"}), ("END", {"toolCallId": "c"})]
    return [*said, *({"type": f"TOOL_CALL_{kind}", **fields} for kind, fields in kinds if calls)]


@pytest.mark.parametrize("is_cut_sent", [True, False], ids=["both attempts", "the last attempt"])
async def test_a_call_of_a_further_attempt_stands_before_its_result_though_its_id_is_known(
    *, is_cut_sent: bool
) -> None:
    asked = {"id": "u", "role": "user", "content": "hi"}
    restated = {"type": "MESSAGES_SNAPSHOT", "messages": [asked]}
    first, last = _said("x", calls=True), _said("y", calls=True)
    last += [{"type": "TOOL_CALL_RESULT", "toolCallId": "c", "messageId": "paid", "content": "paid"}]
    again = [_EVENTS[0], restated, *([*first, restated] if is_cut_sent else []), *last, *_said("z", calls=False)]
    with serve_bytes(
        Reply([_frames_of(_EVENTS[0], *first)], end="cut"), Reply([_frames_of(*again, _EVENTS[-1])])
    ) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
        result = await agent.run_agent(asked, run_id="r")
    assert [each.id for each in agent.messages] == ["u", "y", "paid", "z"]
    assert [call.function.arguments for each in agent.messages for call in getattr(each, "tool_calls", None) or ()] == [
        "{}"
    ]
    assert (result.pending_tool_calls, result.reconnects) == ([], 1)


async def test_a_call_that_does_not_come_again_ends_the_run_at_once() -> None:
    first, again = [_EVENTS[0], _subagent("b"), *_CALL], [_EVENTS[0], _EVENTS[-1]]
    with serve_bytes(Reply([_frames_of(*first)], end="cut"), Reply([_frames_of(*again)])) as server:
        policy = Connect(attempts=200)
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=policy)
        with pytest.raises(IncompleteRunError, match="sent the thread again without the tool call 'c' that was cut"):
            await agent.run_agent("hi", run_id="r")
    assert len(server.requests) == 2


@pytest.mark.parametrize("seen", ["", '{"a"', '{"a": 1}'], ids=["nothing", "a part", "all"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["in one stream", "cut in between"])
async def test_a_call_that_another_process_makes_again_under_its_id_is_whole(seen: str, *, is_cut: bool) -> None:
    def call(*deltas: str) -> list[dict[str, Any]]:
        about = {"toolCallId": "c"}
        args = [{"type": "TOOL_CALL_ARGS", "delta": delta, **about} for delta in deltas if delta]
        return [{"type": "TOOL_CALL_START", "toolCallName": "look", **about}, *args, {"type": "TOOL_CALL_END", **about}]

    text = [{**each, "messageId": "n"} for each in (_EVENTS[1], _EVENTS[2], _EVENTS[-2])]
    restated = [{"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": "hi"}]}]
    # The first process ended in the call, whose end the server added; the second one begins anew behind the prompt.
    first, second = [*_EVENTS[:3], _EVENTS[-2], *call(seen)], [*text, *call('{"a"', ": 1}"), _EVENTS[-1]]
    streams = [[*first, *restated, *second]]
    if is_cut:
        streams = [[*first, *restated], [_EVENTS[0], *restated, *second]]
    replies = [Reply([_frames_of(*_EVENTS[:2])], end="cut")]
    replies += [Reply([_frames_of(*each)], end="close" if each is streams[-1] else "cut") for each in streams]
    with serve_bytes(*replies) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, connect_url="connect", reconnect=Connect())
        result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
    [made] = result.pending_tool_calls
    assert (made.id, made.function.arguments) == ("c", '{"a": 1}')


def _thread(*messages: tuple[str, str, str]) -> bytes:
    restated = [{"id": message_id, "role": role, "content": content} for message_id, role, content in messages]
    return _frames_of(_EVENTS[0], {"type": "MESSAGES_SNAPSHOT", "messages": restated}, _EVENTS[-1])


@pytest.mark.parametrize("is_restarted", [False, True], ids=["the same program", "another program"])
async def test_a_server_that_sends_nothing_before_the_end_is_asked_until_it_has_the_answer(is_restarted: bool) -> None:
    prompt, whole = ("u", "user", "hi"), "".join(_WORDS)
    begun = Reply([_frames_of(*_EVENTS[:4])], end="stall" if is_restarted else "cut")
    busy, stale = Reply([], status=409, content_type=None), Reply([_thread(prompt)])
    over = Reply([_thread(prompt, ("m", "assistant", whole))])
    with serve_bytes(begun, stale, busy, stale, over) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=DetachedRuns(attempts=1))
        asked = {"id": "u", "role": "user", "content": "hi"}
        if is_restarted:
            async with agent.stream(asked, run_id="r") as run:
                async for event in run:
                    if event.type.value == "TEXT_MESSAGE_CONTENT":
                        run.detach()
                left = await run.result()
            assert (left.aborted, left.detached, left.outcome) == (True, True, None)
            document = agent.snapshot().model_dump_json()
            agent = HttpAgent(server.url, retry=_QUICK, reconnect=DetachedRuns(attempts=1))
            agent.restore(type(agent.snapshot()).model_validate_json(document))
            result = await agent.connect_agent()
        else:
            result = await agent.run_agent(asked, run_id="r")
    assert (result.text, [message.role for message in agent.messages]) == (whole, ["user", "assistant"])
    # No request but the first one can start a run.
    assert [len(request.json()["messages"]) for request in server.requests] == [1, 0, 0, 0, 0]


_UNANSWERED = Reply([], status=None, end="cut")


@pytest.mark.parametrize("answer", [_UNANSWERED, Reply([], status=502)], ids=["cut", "502 of a proxy"])
@pytest.mark.parametrize("is_refusing", [True, False], ids=["409", "the thread before the run"])
async def test_a_post_without_an_answer_is_taken_up_with_a_request_that_starts_no_run(
    answer: Reply, *, is_refusing: bool
) -> None:
    prompt, whole = ("u", "user", "hi"), "".join(_WORDS)
    # agent-framework-ag-ui 1.7 sends the thread as it was before the run.
    before = Reply([_frames_of(_EVENTS[0], _EVENTS[-1])])
    busy = Reply([], status=409, content_type=None) if is_refusing else before
    over = Reply([_thread(prompt, ("m", "assistant", whole))])
    with serve_bytes(answer, busy, busy, over) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=DetachedRuns(attempts=1))
        result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
    assert (result.text, result.reconnects) == (whole, 1 if is_refusing else 3)
    assert [len(request.json()["messages"]) for request in server.requests] == [1, 0, 0, 0]


async def test_a_post_that_the_server_knows_nothing_of_fails_when_a_first_event_would_be_late() -> None:
    earlier = Reply([_thread(("m", "assistant", "Good morning."))])

    def answer(request: Request) -> Reply:
        return earlier if request.json()["messages"] == [] else _UNANSWERED

    with serve_bytes(answer) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=DetachedRuns(attempts=2))
        with anyio.fail_after(LIMIT), pytest.raises(ConnectError, match=r"the server had no end of the run for \d s"):
            await agent.run_agent("hi", run_id="r", timeout=Timeouts(first_event=1.0))
    assert len(server.requests) > 3


async def test_a_post_without_an_answer_is_not_taken_up_at_a_cursor() -> None:
    with serve_bytes(_UNANSWERED) as server:
        with pytest.raises(ConnectError):
            await _agent(server.url).run_agent("hi")
        assert len(server.requests) == 1


async def test_a_run_of_which_nothing_arrived_is_read_from_the_thread_that_has_it() -> None:
    whole = "".join(_WORDS)
    over = Reply([_thread(("u", "user", "hi"), ("m", "assistant", whole))])
    with serve_bytes(Reply([b": begun\n\n"], end="cut"), over) as server:
        agent = HttpAgent(server.url, thread_id="t", retry=_QUICK, reconnect=DetachedRuns())
        result = await agent.run_agent({"id": "u", "role": "user", "content": "hi"}, run_id="r")
    assert (result.text, [message.role for message in agent.messages]) == (whole, ["user", "assistant"])


async def test_a_run_that_is_left_to_the_server_is_not_reported_as_aborted_to_on_abort() -> None:
    aborts: list[str] = []
    with serve_bytes(Reply(_ALL[:5], end="stall")) as server:
        agent = HttpAgent(server.url, thread_id="t", on_abort=lambda context: aborts.append(context.run_id))
        async with agent.stream("hi", run_id="r") as run:
            await anext(aiter(run))
            run.detach()
        assert await anyio.to_thread.run_sync(server.disconnected.wait, 5)
    assert aborts == []
    local = ScriptedAgent(turn())
    async with local.stream("hi") as run:
        with pytest.raises(UsageError, match="runs in the process"):
            run.detach()
