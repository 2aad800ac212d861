"""Judging: what each run of a probe shows, whatever the probe asked for.

The client's own verdicts come first: the error that a run ended with, and its warnings, each with the rule. The bytes
and times that the tap noted show the rest.

To change

- a rule that the doctor looks for: any run shows it: `symptoms` here; a conversation has to be led for it: a probe in
  `doctor/_probes.py`. Its severity and remedy: `_core/protocol/rules.py`. A fault in `tests/doctor/spoiled_server.py`
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.plain_json import object_in
from agui_client._core.protocol.warnings import without_positions
from agui_client.doctor._evidence import frame_text
from agui_client.errors import (
    AGUIError,
    ConnectError,
    HTTPStatusError,
    IncompleteRunError,
    InvalidEventError,
    ProtocolError,
    RunFailedError,
    StreamTimeoutError,
    StreamTooLargeError,
    TransportError,
    UnexpectedContentTypeError,
)

if TYPE_CHECKING:
    from agui_client._core.protocol.rules import Severity
    from agui_client._core.protocol.warnings import ProtocolWarning
    from agui_client._core.run.result import RunResult
    from agui_client.doctor._exchanges import ProbeExchange

_OURS = frozenset({"INPUT-3", "SEC-3", "TOOL-10", "TOOL-11", "VER-8", "STATE-4", "more"})
"""Warnings about what this side did."""
_OF_VALUES = ("LIFE-12", "PROC-7", "PROC-8", "PROC-17")
"""Rules that a server breaks in many places by one fault of its own."""
_REACTIONS = {"dropped": "; clients drop it", "stripped": "; clients strip it"}
_FEW = 5
"""The number of frames from which on the times of a response say something."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A call of a probe, with everything that it showed."""

    exchanges: Sequence[ProbeExchange]
    """The requests that were posted, with their responses."""
    result: RunResult | None = None
    """The result, also of a call that failed; None if it never began."""
    error: AGUIError | None = None
    """The exception that the call failed with; None if it did not fail."""
    was_left: bool = False
    """Whether the probe left the run before its end."""

    @property
    def last(self) -> ProbeExchange | None:
        """The last exchange."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def is_refused(self) -> bool:
        """Whether the server did not serve the run, rather than serve it wrongly."""
        match self.error:
            case HTTPStatusError() | UnexpectedContentTypeError() | RunFailedError() | StreamTimeoutError():
                return True
            case IncompleteRunError() | TransportError():
                return not (self.last and self.last.frames)
            case _:
                return False

    @property
    def reason(self) -> str:
        """The reason for which the server did not serve the run."""
        return "" if self.error is None else sentence_of(self.error)


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault that a call showed, not yet a finding."""

    rule: str
    """The id of the rule."""
    problem: str
    """The fault, in a sentence."""
    is_fatal: bool = False
    """Whether the client rejected the run for it."""
    exchange: ProbeExchange | None = None
    """The exchange that shows it."""
    event: int | None = None
    """The position of the event that shows it."""
    detail: str | None = None
    """The part of the response that shows it, instead of events."""
    severity: Severity | None = None
    """The severity, if it is not that of the rule."""
    count: int = 1
    """The number of times that the call showed it."""
    place: str = ""
    """The type of the event, and the path in it; empty for another fault than a value."""
    kind: str = ""
    """The kind of the fault: of several symptoms of one rule and kind, the first is shown."""


def sentence_of(error: Exception) -> str:
    """Write an error as a sentence for those who wrote the server."""
    match error:
        case HTTPStatusError():
            location = "" if error.location is None else f" and points to {error.location}"
            return f"the server responded with {error.status_code}{location}"
        case UnexpectedContentTypeError():
            return f"the server responded with {error.content_type or 'no content type'} instead of text/event-stream"
        case RunFailedError():
            return f"the run ended with RUN_ERROR: {error}"
        case _:
            return error.problem if isinstance(error, AGUIError) else str(error)


def symptoms(seen: Seen) -> Iterator[Symptom]:
    """Yield the faults that a call showed.

    Args:
        seen: The call.
    """
    joined = _of_joined(seen.last)
    if joined is not None:
        yield joined
    # Of events that no blank line ends, no client reads the end of the run: that is not another fault.
    elif seen.error is not None and (symptom := _of_error(seen.error, seen)) is not None:
        yield symptom
    warnings = seen.result.warnings if seen.result else []
    # A producer that says that it is newer may send what this client does not know.
    is_newer = any(each.rule == "VER-2" and each.fix is not None for each in warnings)
    ours = _OURS | {"PROC-7", "PROC-8", "PROC-9"} if is_newer else _OURS
    for warning in warnings:
        if warning.rule not in ours and not (warning.rule == "VER-2" and warning.fix is not None):
            yield _of_warning(warning, seen)
    for exchange in seen.exchanges:
        is_cut = seen.was_left or (exchange is seen.last and isinstance(seen.error, IncompleteRunError))
        yield from _of_bytes(exchange, is_cut=is_cut or exchange.is_cut)
        yield from _of_events(exchange)


def is_found(seen: Seen) -> bool:
    """Return whether the error of a call is a symptom by itself, whatever the call asked for."""
    return seen.error is not None and _of_error(seen.error, seen) is not None


def is_burst(exchange: ProbeExchange, slow: float) -> bool | None:
    """Return whether all events of a response came at once, after a wait; None if its times say nothing.

    Args:
        exchange: The response.
        slow: The seconds that a response must take to say something.
    """
    if len(exchange.frames) < _FEW or exchange.is_cut:
        return None
    first, last = exchange.frames[0].seconds, exchange.frames[-1].seconds
    if last - first > max(0.1 * slow, 0.02 * last):
        return False
    return True if first >= slow else None


def _of_error(error: AGUIError, seen: Seen) -> Symptom | None:
    """Return the fault that a call failed with; None if it is for the probe to judge."""
    match error:
        case StreamTooLargeError():
            return Symptom("DOC-8", sentence_of(error), True, seen.last)
        case ProtocolError():
            frames, event = seen.last.frames if seen.last else [], error.event_index
            event_type = "" if event is None or event >= len(frames) else frames[event].event.get("type")
            path = without_positions(error.path) if isinstance(error, InvalidEventError) else ""
            kind = f"{type(error).__name__} {event_type}{path}"
            at = len(frames) if event is None and seen.last else event
            return Symptom(error.rule, sentence_of(error), True, seen.last, at, kind=kind)
        case UnexpectedContentTypeError():
            return Symptom("SSE-3", sentence_of(error), True, seen.last, detail=error.body)
        case HTTPStatusError() if error.status_code < 400:
            text = f"{sentence_of(error)}, instead of serving the run"
            return Symptom("SSE-3", text, True, seen.last, detail=error.body)
        case ConnectError() if seen.last and seen.last.frames:
            return Symptom("TRUNC-1", sentence_of(error), True, seen.last)
        case _:
            return None


def _of_warning(warning: ProtocolWarning, seen: Seen) -> Symptom:
    # What breaks off behind the end of a run cuts nothing.
    rule = "SSE-11" if warning.rule == "TRUNC-1" else warning.rule
    at = warning.event_index
    candidates = [each for each in seen.exchanges if at is None or len(each.frames) > at]
    named = [each for each in candidates if at is not None and each.frames[at].event.get("type") == warning.event_type]
    exchange = next(iter(named or candidates), seen.last)
    path = without_positions(warning.path or "")
    # An unknown member that is a known one in another spelling is missed.
    is_misspelt = rule == "PROC-8" and "_" in path
    return Symptom(
        rule,
        warning.problem + _reaction(warning),
        # These two are tolerated here to see what else there is; other clients reject the run.
        is_fatal=rule in ("PROC-17", "LIFE-12"),
        exchange=exchange,
        event=at,
        count=warning.count,
        place=f"{warning.event_type} {path}".rstrip(),
        kind="misspelt" if is_misspelt else "" if rule in _OF_VALUES else str(warning.event_type),
        severity="warning" if is_misspelt else None,
    )


def _reaction(warning: ProtocolWarning) -> str:
    if warning.rule == "PROC-17":
        return "; clients reject the run"
    return "" if warning.reaction is None else _REACTIONS[warning.reaction]


def _of_joined(exchange: ProbeExchange | None) -> Symptom | None:
    """Return the fault of a response whose events follow each other without blank lines; None without it."""
    found = None if exchange is None or exchange.status != 200 else _JOINED.search(exchange.content)
    if found is None:
        return None
    shown = bytes(found.group()[:400]).decode("utf-8", "replace")
    problem = "no blank line stands between two events, so that clients read neither"
    return Symptom("SSE-4", problem, True, exchange, detail=shown, kind="joined")


def _of_bytes(exchange: ProbeExchange, *, is_cut: bool) -> Iterator[Symptom]:
    if exchange.status != 200 or not exchange.frames:
        return
    content = exchange.content
    if (at := content.find(b"\r")) >= 0:
        shown = f"data: {frame_text(exchange.frames[0])}\nends with {bytes(content[at : at + 4])!r}"
        yield Symptom("SSE-7", "lines end with CR LF, not with LF", exchange=exchange, detail=shown)
    if exchange.is_whole and not is_cut:
        ended = bytes(content[-400:]).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not re.search(rb"\n\n(:[^\n]*\n*)*$", ended):
            problem = "the stream ends without a blank line behind its last frame"
            shown = f"data: {frame_text(exchange.frames[-1])}\nand the last bytes are {bytes(content[-3:])!r}"
            yield Symptom("SSE-12", problem, exchange=exchange, detail=shown)
    if "content-length" in exchange.headers and len(exchange.frames) >= _FEW:
        problem = "the response has a Content-Length, so it was whole before its first byte was sent"
        yield Symptom("DOC-2", problem, exchange=exchange)


def _of_events(exchange: ProbeExchange) -> Iterator[Symptom]:
    """Yield the first fault of each kind in the events of a response, with the number of them."""
    found: dict[str, Symptom] = {}
    for index, event in enumerate(exchange.events):
        symptom = _of_event(event)
        if symptom is not None:
            first = found.get(symptom.kind) or replace(symptom, exchange=exchange, event=index, count=0)
            found[symptom.kind] = replace(first, count=first.count + 1)
    yield from found.values()
    yield from _of_arguments(exchange)


def _of_arguments(exchange: ProbeExchange) -> Iterator[Symptom]:
    """Yield a fault for tool calls whose arguments are not a JSON object."""
    pieces: dict[str, list[str]] = {}
    last: dict[str, int] = {}
    current = ""
    for index, event in enumerate(exchange.events):
        if event.get("type") in ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK"):
            current = str(event.get("toolCallId") or current)
            pieces.setdefault(current, []).append(str(event.get("delta") or ""))
            last[current] = index
    if exchange.is_cut or not any(event.get("type") == "RUN_FINISHED" for event in exchange.events):
        return
    for name, parts in pieces.items():
        text = "".join(parts)
        if text.strip() and not object_in(text) and text.strip() != "{}":
            problem = f"the arguments of tool call {name!r} are not a JSON object: {text[:80]!r}"
            yield Symptom("TOOL-2", problem, exchange=exchange, event=last[name], severity="warning", kind="arguments")


_JOINED = re.compile(rb"(?m)^data: ?\{[^\n]*\}\r?\n(?:(?:id|event|retry):[^\n]*\n)*data: ?\{[^\n]*")
"""Two data lines, each with an object, and no blank line between them."""


def _of_event(event: Mapping[str, Any]) -> Symptom | None:
    kind, moment = event.get("type"), event.get("timestamp")
    if kind == "RUN_ERROR" and not event.get("code"):
        return Symptom("DOC-4", "RUN_ERROR comes without a code", kind="RUN_ERROR")
    if kind in _TEXT_DELTAS and event.get("delta") == "" and not event.get("metadata"):
        return Symptom("DOC-6", f"{kind} comes with an empty delta", kind=str(kind))
    if type(moment) is int and 0 < moment < _EARLIEST_TIMESTAMP:
        return Symptom("DOC-9", f"the timestamp {moment} means a day in 1970", kind="timestamp")
    return None


_EARLIEST_TIMESTAMP = 10**11
"""The milliseconds of a day in 1973; seconds since the epoch are fewer for a long time."""
_TEXT_DELTAS = ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT")
