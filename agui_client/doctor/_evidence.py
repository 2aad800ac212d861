"""Evidence: the bytes that show a finding, without secrets, shortened, harmless on any screen (SEC-7 … SEC-9)."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from agui_client._core.ground.secrets import address_of, hidden_json, hidden_text
from agui_client._core.protocol.schema import is_object
from agui_client._rendering.escaping import exact_line
from agui_client.doctor._diagnosis import Evidence

if TYPE_CHECKING:
    from agui_client.doctor._exchanges import Frame, ProbeExchange

_LONGEST_LINE = 300
_LONGEST_BODY = 700
_MOST_LINES = 6
_SHOWN_HEADERS = ("content-type", "content-encoding", "content-length", "location", "retry-after")


def shown(text: str, secrets: Collection[str], limit: int = _LONGEST_LINE) -> str:
    """Return a text that a server wrote as one line: secrets removed, cut, and controls escaped.

    Args:
        secrets: Texts that must not be shown.
        limit: The most characters.
    """
    # Before anything is cut, which might leave a part of a secret; the client's own errors quote what they have cut.
    return exact_line(hidden_text(text, secrets), limit)


def evidence(
    address: str,
    exchange: ProbeExchange | None,
    secrets: Collection[str],
    *,
    event: int | None = None,
    detail: str | None = None,
) -> Evidence:
    """Make the evidence of a finding.

    Args:
        address: The address, without secrets.
        exchange: The exchange that shows it; None if no request was sent.
        secrets: Texts that must not be shown.
        event: The position of the event that shows it; None for the last events.
        detail: The part of the response to show instead of events.
    """
    if exchange is None:
        return Evidence(sent="", received="")
    sent = f"POST {address}\n{shown(_request_text(exchange.sent), secrets, _LONGEST_BODY)}"
    head = f"{exchange.status} {exchange.http_version}" if exchange.status else "no response"
    headers = ((name, exchange.headers.get(name)) for name in _SHOWN_HEADERS)
    lines = [head, *(f"{name}: {address_of(value)}" for name, value in headers if value is not None)]
    received = [shown(line, secrets) for line in lines]
    if detail is None and exchange.frames:
        received += [shown(line, secrets) for line in _frame_lines(exchange, event)]
    else:
        # Before it is split: a value may stand on the line below its name.
        text = exchange.content.decode("utf-8", "backslashreplace") if detail is None else detail
        received += [exact_line(line, _LONGEST_LINE) for line in hidden_text(text, secrets).splitlines()[:_MOST_LINES]]
    return Evidence(sent=sent, received="\n".join(received))


def _frame_lines(exchange: ProbeExchange, event: int | None) -> list[str]:
    """Write the frame of an event with the one before it, or the last two."""
    last = len(exchange.frames) - 1
    at = last if event is None or event > last else event
    lines = [f"event {index}: data: {frame_text(exchange.frames[index])}" for index in range(max(0, at - 1), at + 1)]
    if event is None or event <= last:
        return lines
    _, end, rest = bytes(exchange.content).rpartition(b"\n\n")
    is_new = end and rest and (not exchange.frames or not rest.endswith(exchange.frames[-1].data.encode()))
    then = repr(rest) if is_new else "the end of the stream"
    return [*lines, f"then: {then}"]


def frame_text(frame: Frame) -> str:
    """Return the data of a frame without secrets; the JSON is written anew only where something is left out of it."""
    hidden = hidden_json(frame.event)
    if not frame.event or hidden == frame.event:
        return frame.data
    return json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))


def _request_text(body: bytes) -> str:
    """Return the body of a request, with the empty members left out that every input has."""
    try:
        document: object = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "backslashreplace")
    if not is_object(document):
        return body.decode()
    kept = {name: value for name, value in document.items() if value not in ([], {})}
    return json.dumps(hidden_json(kept), ensure_ascii=False, separators=(",", ":"))
