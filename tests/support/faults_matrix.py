"""Every fault of the test kit, and what a run of an `HttpAgent` must come to when it meets it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from agui_client import (
    AGUIError,
    ConnectError,
    DecodeError,
    EventOrderError,
    FirstEventTimeoutError,
    HTTPStatusError,
    IdleTimeoutError,
    IncompleteRunError,
    RunFailedError,
    RunTimeoutError,
    Timeouts,
    UnexpectedContentTypeError,
)
from agui_client.testing import Reply, events_of, faults, sse, text, turn
from support.verbs import VERBS

BODY = sse(turn(text("One two three.")))
"""Run "run-1" of thread "thread-1": asked with other ids, a run warns of them (LIFE-12)."""
MIDDLE = 4
"""Events of `BODY` before the fault: the run, the message, and two words of three."""
WHOLE = "One two three."
HALF = "One two "
NOTHING = ""

Spoil: TypeAlias = Callable[[bytes, int], Reply]
"""From a healthy body and a number of events to the reply; a fault without a place leaves the number alone."""


@dataclass(frozen=True)
class FaultCase:
    """One fault, and what must come of it when it happens in the middle of `BODY`."""

    name: str
    spoil: Spoil
    error: type[AGUIError] | None
    """What the run raises; None when it succeeds."""
    message: str = ""
    """A pattern that the error's text holds."""
    text: str = WHOLE
    """What was said before the fault: the text of the partial, or of the result."""
    has_place: bool = False
    """Whether it happens after the given number of events; otherwise always in the same way."""
    status: int | None = 200
    """The HTTP status that arrives; None when no response does."""
    is_silent: bool = False
    """Whether the server says no more and waits: it must see the client go."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of the agent."""

    def reply(self, body: bytes = BODY, events: int = MIDDLE) -> Reply:
        """The spoiled reply."""
        return self.spoil(body, events)

    @property
    def is_accepted(self) -> bool:
        """Whether a stream comes back at all."""
        return self.text != NOTHING


def _inside(body: bytes, events: int) -> int:
    """A place inside the event that follows so many."""
    found = events_of(body)
    return sum(map(len, found[:events])) + (len(found[events]) // 2 if events < len(found) else 0)


_CUT_OFF = "was cut off"
_BROKE = "connection .* broke"
_CUT_AND_BROKE = f"{_CUT_OFF}.*{_BROKE}"
_SILENCE = Timeouts(first_event=10, idle=0.05)
"""What came before a silence came in one piece."""

_HEALTHY = [
    FaultCase("healthy", lambda body, _: faults.healthy(body), None),
    FaultCase("trickle", lambda body, _: faults.trickle(body, seconds=0.001, size=5), None),
    FaultCase("split into bytes", lambda body, _: faults.split(body, size=1), None),
    FaultCase("burst of 3 MB", lambda body, _: faults.burst(body, size=3_000_000), None),
    FaultCase("CRLF", lambda body, _: faults.crlf(body), None),
    FaultCase("CR", lambda body, _: faults.cr(body), None),
    FaultCase("gzip", lambda body, _: faults.gzipped(body), None),
    FaultCase("deflate", lambda body, _: faults.gzipped(body, encoding="deflate"), None),
    FaultCase("trailing page", lambda body, _: faults.trailing_garbage(body), None),
    FaultCase("second response", lambda body, _: faults.second_response(body), None, is_silent=True),
]
"""Unusual, and no reason to fail."""


def _unusable(name: str, spoil: Spoil, error: type[AGUIError], message: str, status: int | None) -> FaultCase:
    return FaultCase(name, spoil, error, message, NOTHING, status=status)


_BEFORE = [
    _unusable("hung up unanswered", lambda _, __: faults.unanswered(), ConnectError, _BROKE, None),
    _unusable("reset unanswered", lambda _, __: faults.unanswered(end="reset"), ConnectError, _BROKE, None),
    FaultCase(
        "kept waiting unanswered",
        lambda _, __: faults.unanswered(end="stall"),
        FirstEventTimeoutError,
        "no event arrived within 0.1 s",
        NOTHING,
        status=None,
        is_silent=True,
        options={"timeout": Timeouts(first_event=0.1)},
    ),
    _unusable("oversized headers", lambda body, _: faults.oversized_headers(body), ConnectError, _BROKE, None),
    _unusable("HTML page", lambda _, __: faults.html_page(), UnexpectedContentTypeError, "text/html.*Sign in", 200),
    _unusable("HTML page of a 502", lambda _, __: faults.html_page(status=502), HTTPStatusError, "502 Bad.*Sign", 502),
    _unusable("401", lambda _, __: faults.status(401), HTTPStatusError, "401 Unauthorized.*refused", 401),
    _unusable("429", lambda _, __: faults.status(429, retry_after=1), HTTPStatusError, "429 Too Many.*refused", 429),
    _unusable("500", lambda _, __: faults.status(500), HTTPStatusError, "500 Internal.*refused", 500),
    _unusable("503", lambda _, __: faults.status(503, retry_after=1), HTTPStatusError, "503 Service.*refused", 503),
    _unusable(
        "redirect",
        lambda _, __: faults.redirect("http://127.0.0.1:9/x"),
        HTTPStatusError,
        "307 .*points to http://127.0.0.1:9/x, another origin",
        307,
    ),
    _unusable(
        "redirect as GET",
        lambda _, __: faults.redirect("/x", status=302),
        HTTPStatusError,
        "302 Found and points to .*/x, but the POST would become a GET",
        302,
    ),
]
"""Nothing usable arrives."""


def _placed(name: str, spoil: Spoil, error: type[AGUIError], message: str, **more: Any) -> FaultCase:
    return FaultCase(name, spoil, error, message, HALF, has_place=True, **more)


_MIDWAY = [
    _placed("cut", lambda body, n: faults.cut(body, events=n), IncompleteRunError, _CUT_AND_BROKE),
    _placed("cut in a frame", lambda body, n: faults.cut(body, size=_inside(body, n)), IncompleteRunError, _CUT_OFF),
    _placed("ended", lambda body, n: faults.ended(body, events=n), IncompleteRunError, _CUT_OFF),
    _placed(
        "ended in a frame",
        lambda body, n: faults.ended(body, size=_inside(body, n)),
        IncompleteRunError,
        "cut inside a frame",
    ),
    _placed("reset", lambda body, n: faults.reset(body, events=n), IncompleteRunError, _CUT_AND_BROKE),
    _placed(
        "reset in a frame", lambda body, n: faults.reset(body, size=_inside(body, n)), IncompleteRunError, _CUT_OFF
    ),
    _placed("broken chunk", lambda body, n: faults.broken_chunk(body, events=n), IncompleteRunError, _CUT_AND_BROKE),
    _placed(
        "broken chunk in a frame",
        lambda body, n: faults.broken_chunk(body, size=_inside(body, n)),
        IncompleteRunError,
        _CUT_OFF,
    ),
    _placed("gzip ended", lambda body, n: faults.gzipped(body, events=n), IncompleteRunError, _CUT_OFF),
    _placed(
        "gzip broken", lambda body, n: faults.gzipped(body, events=n, broken=True), DecodeError, "unpacked.*invalid"
    ),
    _placed(
        "deflate broken",
        lambda body, n: faults.gzipped(body, encoding="deflate", events=n, broken=True),
        DecodeError,
        "cannot be unpacked.*invalid",
    ),
    _placed(
        "silence",
        lambda body, n: faults.stall(body, events=n),
        IdleTimeoutError,
        "silent for 0.05 s",
        is_silent=True,
        options={"timeout": _SILENCE},
    ),
    _placed(
        "silence in a frame",
        lambda body, n: faults.stall(body, size=_inside(body, n)),
        IdleTimeoutError,
        "silent for 0.05 s",
        is_silent=True,
        options={"timeout": _SILENCE},
    ),
    _placed(
        "silence after keep-alives",
        lambda body, n: faults.stall(body, events=n, comments=3, seconds=0.02),
        IdleTimeoutError,
        "silent for 0.1 s",
        is_silent=True,
        options={"timeout": Timeouts(first_event=10, idle=0.1)},
    ),
    _placed(
        "nothing but keep-alives",
        lambda body, n: faults.stall(body, events=n, comments=10_000, seconds=0.02),
        RunTimeoutError,
        "longer than 0.3 s",
        is_silent=True,
        options={"timeout": Timeouts(idle=60, total=0.3)},
    ),
]
"""The stream breaks off, and what was said before is kept."""

_AFTER = [
    FaultCase(
        "late error", lambda body, _: faults.late_error(body, code="E7"), RunFailedError, r"after all \(code E7\)"
    ),
    FaultCase("two terminals", lambda body, _: faults.double_terminal(body), EventOrderError, "already finished"),
    FaultCase(
        "trailing bytes that are no text",
        lambda body, _: faults.trailing_garbage(body, garbage=b"\xfe\xff\n\n"),
        DecodeError,
        "not UTF-8",
    ),
    FaultCase(
        "trailing data that is no event",
        lambda body, _: faults.trailing_garbage(body, garbage=b"data: [DONE]\n\n"),
        DecodeError,
        "not JSON",
    ),
]
"""All was said, and then something else."""

FAULT_CASES = [*_HEALTHY, *_BEFORE, *_MIDWAY, *_AFTER]

CHOSEN = ("healthy", "hung up unanswered", "503", "cut", "gzip broken", "silence", "late error")
"""One fault of each kind."""


EVERY_VERB = "AGUI_CLIENT_EVERY_VERB" in os.environ
"""Whether each fault meets every verb, for a soak: in a normal run it meets one, as all verbs run one engine."""


def every_fault_by_turns(
    argument: str = "verb", ways: Mapping[str, object] = VERBS, cases: Collection[FaultCase] = FAULT_CASES
) -> pytest.MarkDecorator:
    """Run a test once with each fault, in one of several ways, which take turns in the list of faults.

    Each way then meets faults of several kinds. A fault always meets the same verb, so tests can share what came of it;
    the id of a test names both, and repeats a failure. If `EVERY_VERB` is set, every way meets every fault.

    Args:
        argument: The name of the test's argument for the way; the fault's is "case".
        ways: The ways by name; all verbs by default. A verb that is not among them leaves its turn to one of them.
        cases: The faults; all of them by default.
    """
    return pytest.mark.parametrize(
        (argument, "case"),
        [
            pytest.param(ways[name], case, id=f"{name}-{case.name}")
            for number, case in enumerate(FAULT_CASES)
            if case in cases
            for name in (ways if EVERY_VERB else [_whose_turn(number, ways)])
        ],
    )


def _whose_turn(number: int, ways: Collection[str]) -> str:
    verb = list(VERBS)[number % len(VERBS)]
    return verb if verb in ways else list(ways)[number % len(ways)]
