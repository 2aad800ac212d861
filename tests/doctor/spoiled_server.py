"""A small server that speaks AG-UI well, apart from the fault that a test names."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anyio

from agui_client import HttpAgent
from agui_client._core.transport.in_process import ASGIApp, Receive, Send

Event = dict[str, Any]
Events = list[Event]
Request = dict[str, Any]
LATE = 0.06
"""The seconds that a slow spoil waits."""


class Server:
    """The server, as an ASGI app.

    Args:
        fault: The name of a fault or habit; empty for none.
    """

    def __init__(self, fault: str = "") -> None:
        self.headers = {"content-type": "text/event-stream; charset=utf-8"}
        self.status = 200
        self.runs: dict[str, int] = {}
        self.left: set[str] = set()
        self.change: Callable[[Events, Request], Iterable[Event]] = lambda events, request: events
        self.write: Callable[[Events], Iterator[bytes]] = frames
        self.refuse: Callable[[Request], int | None] = lambda request: None
        self.refused_malformed = 422
        self.before = 0.0
        self.between = 0.0
        self.is_locking = False
        if fault:
            (FAULTS | HABITS)[fault](self)

    def agent(self, **options: Any) -> HttpAgent:
        return HttpAgent("http://server.example/agent", app=self.app, **options)

    @property
    def app(self) -> ASGIApp:
        return self

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        request = json.loads((await receive())["body"])
        if not isinstance(request["messages"], list):
            await self._respond(send, self.refused_malformed, {"content-type": "application/json"}, [b"{}"])
            return
        thread = request["threadId"]
        self.runs[thread] = self.runs.get(thread, 0) + 1
        status = 409 if thread in self.left else self.refuse(request) or self.status
        if status >= 300:
            page = [b"<html><body>\x1b[31m<script>alert(1)</script></body></html>"]
            await self._respond(send, status, {**self.headers, "content-type": "text/html"}, page)
            return
        pieces = self.write(list(self.change(answer(request), request)))
        is_over = False
        try:
            await self._respond(send, status, self.headers, pieces)
            is_over = True
        except OSError:  # the client has left
            pass
        finally:
            if self.is_locking and not is_over:
                self.left.add(thread)

    async def _respond(self, send: Send, status: int, headers: dict[str, str], pieces: Iterable[bytes]) -> None:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await anyio.sleep(self.before)
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await anyio.sleep(self.between)
        await send({"type": "http.response.body", "body": b""})


Change = Callable[[Server], None]
FAULTS: dict[str, Change] = {}
"""What is wrong with a server, by name."""
HABITS: dict[str, Change] = {}
"""Ways of a server that the protocol allows, by name."""


def fault(change: Change) -> Change:
    FAULTS[change.__name__] = change
    return change


def habit(change: Change) -> Change:
    HABITS[change.__name__] = change
    return change


def answer(request: Request) -> Events:
    """The events of a run without a fault."""
    run = {"threadId": request["threadId"], "runId": request["runId"]}
    last: Request = request["messages"][-1] if request["messages"] else {"role": ""}
    prompt = last.get("content") if last.get("role") == "user" else ""
    started = {"type": "RUN_STARTED", **run, "protocolVersion": "1.0"}
    finished: Event = {"type": "RUN_FINISHED", **run}
    if prompt == "fail":
        return [started, {"type": "RUN_ERROR", "message": "no model", "code": "NO_MODEL"}]
    if prompt == "ask" and not request.get("resume"):
        return [started, {**finished, "outcome": asking(f"i-{request['runId']}")}]
    if request.get("tools") and last.get("role") != "tool":
        count = 2 if "Turin" in str(prompt) else 1
        names = [f"c{number}-{request['runId']}" for number in range(count)]
        offered = request["tools"][0]["name"]
        return [started, *(event for name in names for event in call(name, offered)), finished]
    words = ["It ", "is ", "18 ", "degrees", "."]
    state: Event = {"type": "STATE_SNAPSHOT", "snapshot": request.get("state")}
    return [started, state, *text(f"m-{request['runId']}", *words), finished]


def text(name: str, *words: str) -> Events:
    content = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": word} for word in words]
    start = {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
    return [start, *content, {"type": "TEXT_MESSAGE_END", "messageId": name}]


def asking(*names: str) -> dict[str, Any]:
    """The outcome of a run that waits for answers."""
    asked = [{"id": name, "reason": "confirmation", "message": "Go on?"} for name in names]
    return {"type": "interrupt", "interrupts": asked}


def call(name: str, tool: str = "get_weather") -> Events:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": tool},
        {"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": json.dumps({"city": name[:2]})},
        {"type": "TOOL_CALL_END", "toolCallId": name},
    ]


def frames(events: Events) -> Iterator[bytes]:
    return (b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def _replaced(old: bytes, new: bytes) -> Callable[[Events], Iterator[bytes]]:
    return lambda events: (frame.replace(old, new) for frame in frames(events))


def _at(events: Events, kind: str) -> int:
    return next((index for index, event in enumerate(events) if event["type"] == kind), len(events))


def _with(kind: str, *added: Event, behind: bool = True) -> Callable[[Events, Request], Events]:
    """Put events behind, or in front of, the first of a type."""

    def change(events: Events, request: Request) -> Events:
        at = _at(events, kind) + behind
        return [*events[:at], *added, *events[at:]]

    return change


def _without(kind: str) -> Callable[[Events, Request], Events]:
    return lambda events, request: [event for event in events if event["type"] != kind]


def _put(kind: str, **members: Any) -> Callable[[Events, Request], Events]:
    """Put members into all events of a type."""
    return lambda events, request: [event | members if event["type"] == kind else event for event in events]


@fault
def wrong_content_type(server: Server) -> None:
    server.headers = {"content-type": "application/json"}


@fault
def no_run_started(server: Server) -> None:
    server.change = _without("RUN_STARTED")


@fault
def two_run_started(server: Server) -> None:
    server.change = lambda events, request: [events[0], *events]


@fault
def events_after_the_end(server: Server) -> None:
    server.change = lambda events, request: [*events, {"type": "CUSTOM", "name": "x", "value": 1}]


@fault
def text_without_start(server: Server) -> None:
    server.change = _without("TEXT_MESSAGE_START")


@fault
def delta_of_an_unknown_id(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "TOOL_CALL_ARGS", "toolCallId": "nobody", "delta": "{"})


@fault
def unclosed_tool_call(server: Server) -> None:
    server.change = _without("TOOL_CALL_END")


@fault
def empty_delta(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        name = f"m-{request['runId']}"
        empty = {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": ""}
        return (
            _with("TEXT_MESSAGE_START", empty)(events, request)
            if _at(events, "TEXT_MESSAGE_START") < len(events)
            else events
        )

    server.change = change


@fault
def nulls(server: Server) -> None:
    server.change = _put("TEXT_MESSAGE_START", name=None, rawEvent=None, metadata=None)


@fault
def wrong_thread_id(server: Server) -> None:
    server.change = _put("RUN_STARTED", threadId="another")


@fault
def wrong_run_id(server: Server) -> None:
    server.change = lambda events, request: [
        event | {"runId": "another"} if "runId" in event else event for event in events
    ]


@fault
def ids_that_come_again(server: Server) -> None:
    server.change = lambda events, request: [
        event | {"messageId": "message"} if "messageId" in event else event for event in events
    ]


@fault
def no_json(server: Server) -> None:
    server.write = _replaced(b'"delta": "is "', b"'delta': 'is '")


@fault
def no_utf_8(server: Server) -> None:
    server.write = _replaced(b"degrees", b"degr\xe9s")


@fault
def no_object(server: Server) -> None:
    server.write = lambda events: iter([*frames(events[:1]), b"data: [DONE]\n\n", *frames(events[1:])])


@fault
def malformed_patch(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "STATE_DELTA", "delta": {"op": "add", "path": "/x", "value": 1}})


@fault
def patch_that_fits_nothing(server: Server) -> None:
    patch = [{"op": "replace", "path": "/nothing/here", "value": 1}]
    server.change = _with("RUN_STARTED", {"type": "STATE_DELTA", "delta": patch})


@fault
def collected_response(server: Server) -> None:
    server.before = LATE
    server.write = lambda events: iter([b"".join(frames(events))])


@fault
def collected_by_gzip(server: Server) -> None:
    server.before = LATE
    server.headers |= {"content-encoding": "gzip"}

    def write(events: Events) -> Iterator[bytes]:
        packer = zlib.compressobj(wbits=31)
        yield packer.compress(b"".join(frames(events))) + packer.flush()

    server.write = write


@fault
def content_length(server: Server) -> None:
    def write(events: Events) -> Iterator[bytes]:
        body = b"".join(frames(events))
        server.headers["content-length"] = str(len(body))
        yield body

    server.headers["content-length"] = "0"
    server.write = write


@fault
def unterminated_last_frame(server: Server) -> None:
    server.write = lambda events: iter([*frames(events[:-1]), [*frames(events)][-1].rstrip()])


@fault
def frames_without_blank_lines(server: Server) -> None:
    server.write = lambda events: (frame.rstrip() + b"\n" for frame in frames(events))


@fault
def arguments_that_are_no_json(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        return [{**each, "delta": "{'city':"} if each["type"] == "TOOL_CALL_ARGS" else each for each in events]

    server.change = change


@fault
def state_lost_over_an_interrupt(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        return [
            {**each, "snapshot": {}} if each["type"] == "STATE_SNAPSHOT" and request.get("resume") else each
            for each in events
        ]

    server.change = change


@fault
def cut_stream(server: Server) -> None:
    server.change = _without("RUN_FINISHED")


@fault
def cut_frame(server: Server) -> None:
    server.write = lambda events: iter([*frames(events[:-1]), [*frames(events)][-1][:-20]])


@fault
def server_error_page(server: Server) -> None:
    server.status = 500


@fault
def redirect_to_login(server: Server) -> None:
    server.status = 302
    server.headers |= {"location": "http://user:pass-word@server.example/login?next=secret-token"}


@fault
def state_that_does_not_come_back(server: Server) -> None:
    server.change = _put("STATE_SNAPSHOT", snapshot={"mood": "fine"})


@fault
def state_refused(server: Server) -> None:
    server.refuse = lambda request: 422 if request["state"] else None


@fault
def tool_result_ignored(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        return answer({**request, "messages": request["messages"][:1]}) if request.get("tools") else events

    server.change = change


@fault
def tool_result_refused(server: Server) -> None:
    server.refuse = lambda request: 400 if any(each["role"] == "tool" for each in request["messages"]) else None


@fault
def tools_refused(server: Server) -> None:
    server.refuse = lambda request: 422 if request["tools"] else None


@fault
def tool_result_invented(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        name = next((event["toolCallId"] for event in events if "toolCallId" in event), None)
        result = {"type": "TOOL_CALL_RESULT", "messageId": f"r-{name}", "toolCallId": name, "content": "18 degrees"}
        return [*events[:-1], result, events[-1]] if name else events

    server.change = change


@fault
def resume_ignored(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        asked = {"id": "same", "reason": "confirmation"}
        is_asking = request.get("resume") or request["messages"][-1].get("content") == "ask"
        outcome = {"type": "interrupt", "interrupts": [asked]}
        return [events[0], events[-1] | {"outcome": outcome}] if is_asking else events

    server.change = change


@fault
def resume_refused(server: Server) -> None:
    server.refuse = lambda request: 500 if request.get("resume") else None


@fault
def interrupts_with_one_id(server: Server) -> None:
    asked = {"id": "same", "reason": "confirmation"}
    outcome = {"type": "interrupt", "interrupts": [asked, asked]}

    def change(events: Events, request: Request) -> Events:
        return [events[0], events[-1] | {"outcome": outcome}] if "outcome" in events[-1] else events

    server.change = change


@fault
def second_run_refused(server: Server) -> None:
    server.refuse = lambda request: 409 if any(each["role"] == "assistant" for each in request["messages"]) else None


@fault
def newer_client_refused(server: Server) -> None:
    server.refuse = lambda request: 422 if request["protocolVersion"] != "1.0" else None


@fault
def unknown_member_refused(server: Server) -> None:
    server.refuse = lambda request: 422 if "aguiDoctor" in request else None


@fault
def run_error_without_code(server: Server) -> None:
    server.change = lambda events, request: [
        {"type": "RUN_ERROR", "message": event["message"]} if event["type"] == "RUN_ERROR" else event
        for event in events
    ]


@fault
def every_run_fails(server: Server) -> None:
    server.change = lambda events, request: [events[0], {"type": "RUN_ERROR", "message": "no key", "code": "KEY"}]


@fault
def goes_on_after_disconnect(server: Server) -> None:
    server.is_locking = True
    server.between = 0.001


@fault
def silent_without_comments(server: Server) -> None:
    server.before = LATE


@fault
def unknown_event_type(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "TOKEN_COUNT", "count": 3})


@fault
def unknown_property(server: Server) -> None:
    server.change = _put("TEXT_MESSAGE_CONTENT", message_id="m")


@fault
def crlf(server: Server) -> None:
    server.write = _replaced(b"\n\n", b"\r\n\r\n")


@fault
def timestamp_as_text(server: Server) -> None:
    server.change = _put("TEXT_MESSAGE_START", timestamp="2026-11-22T12:00:00Z")


@fault
def timestamp_in_seconds(server: Server) -> None:
    server.change = _put("TEXT_MESSAGE_START", timestamp=1_795_351_133)


@fault
def response_that_breaks_off(server: Server) -> None:
    def write(events: Events) -> Iterator[bytes]:
        yield from frames(events)
        raise RuntimeError("an exception behind the last event")

    server.write = write


@fault
def version_without_minor(server: Server) -> None:
    server.change = _put("RUN_STARTED", protocolVersion="v1")


@fault
def malformed_input_breaks_it(server: Server) -> None:
    server.refused_malformed = 500


@fault
def chunk_without_id(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "TEXT_MESSAGE_CHUNK", "delta": "Hm"})


@fault
def step_that_was_not_started(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "STEP_FINISHED", "stepName": "plan"})


@fault
def retired_thinking(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "THINKING_START"}, {"type": "THINKING_END"})


@fault
def reasoning_without_message(server: Server) -> None:
    orphan = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "Hm"}
    server.change = _with("RUN_STARTED", {"type": "REASONING_START", "messageId": "r"}, orphan)


@fault
def subagent_never_ends(server: Server) -> None:
    server.change = _with("RUN_STARTED", {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "cook"})


@fault
def endless_stream(server: Server) -> None:
    def write(events: Events) -> Iterator[bytes]:
        yield from frames(events[:-1])
        filling = b"data: " + json.dumps({"type": "RAW", "event": "x" * 1_000_000}).encode() + b"\n\n"
        while True:
            yield filling

    server.write = write


@habit
def comments_and_fields(server: Server) -> None:
    server.write = lambda events: (
        b": hello\n\nevent: message\nid: 7\nretry: 1000\n" + frame + b":\n\n" for frame in frames(events)
    )


@habit
def data_on_several_lines(server: Server) -> None:
    server.write = lambda events: (
        b"data:" + b"\ndata:".join(json.dumps(event, indent=1).encode().split(b"\n")) + b"\n\n" for event in events
    )


@habit
def flushed_gzip(server: Server) -> None:
    server.headers |= {"content-encoding": "gzip"}

    def write(events: Events) -> Iterator[bytes]:
        packer = zlib.compressobj(wbits=31)
        for frame in frames(events):
            yield packer.compress(frame) + packer.flush(zlib.Z_SYNC_FLUSH)
        yield packer.flush()

    server.write = write


@habit
def split_anywhere(server: Server) -> None:
    def write(events: Events) -> Iterator[bytes]:
        body = b"".join(frames(events))
        return (body[at : at + 7] for at in range(0, len(body), 7))

    server.write = write


@habit
def answers_at_once(server: Server) -> None:
    server.write = lambda events: iter([b"".join(frames(events))])


@habit
def no_version(server: Server) -> None:
    server.change = lambda events, request: [
        {name: value for name, value in event.items() if name != "protocolVersion"} for event in events
    ]


@habit
def chunks(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"k-{request['runId']}", "delta": "Hm"}
        return _with("RUN_STARTED", chunk, {"type": "TEXT_MESSAGE_CHUNK", "delta": "."})(events, request)

    server.change = change


@habit
def replays_earlier_runs(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        earlier = [{"type": "RUN_STARTED", "threadId": request["threadId"], "runId": "earlier"}]
        earlier += [{"type": "RUN_FINISHED", "threadId": request["threadId"], "runId": "earlier"}]
        return [*earlier, *events]

    server.change = change


@habit
def reopens_a_message(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        has_text = _at(events, "TEXT_MESSAGE_END") < len(events)
        return [*events[:-1], *text(f"m-{request['runId']}", "More"), events[-1]] if has_text else events

    server.change = change


@habit
def own_events(server: Server) -> None:
    server.change = _with(
        "RUN_STARTED",
        {"type": "CUSTOM", "name": "acme.mood", "value": None},
        {"type": "RAW", "event": {"x": None}},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "PLAN", "content": {"steps": []}},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
    )


@habit
def snapshots_messages(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        return [events[0], {"type": "MESSAGES_SNAPSHOT", "messages": request["messages"]}, *events[1:]]

    server.change = change


@habit
def keeps_only_its_own_state(server: Server) -> None:
    server.change = _put("STATE_SNAPSHOT", snapshot={"mood": "fine"})


@habit
def newer_server(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        news = {"type": "NEWS", "of": "1.7"}
        return [events[0] | {"protocolVersion": "1.7", "mood": "fine"}, news, *events[1:]]

    server.change = change


@habit
def state_of_a_fixed_shape(server: Server) -> None:
    server.refuse = lambda request: 422 if "agui_doctor" in request.get("state", {}) else None


@habit
def a_tool_of_that_name(server: Server) -> None:
    def change(events: Events, request: Request) -> Events:
        name = f"own-{request['runId']}"
        result = {"type": "TOOL_CALL_RESULT", "messageId": f"r-{name}", "toolCallId": name, "content": "9 degrees"}
        return [events[0], *call(name), result, events[-1]]

    server.change = change
    # As frameworks do that cannot tell two tools of one name apart.
    server.refuse = lambda request: 422 if any(each["name"] == "get_weather" for each in request["tools"]) else None


@habit
def tools_are_named_with_letters_only(server: Server) -> None:
    server.refuse = lambda request: 422 if not all(each["name"].isalpha() for each in request["tools"]) else None
