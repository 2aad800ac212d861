"""Comparison of two recordings: where their texts, tools, states and outcomes part first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_core import to_jsonable_python

from agui_client.inspector._summary import summary_of
from agui_client.recording._matching import differences

if TYPE_CHECKING:
    from agui_client.inspector._summary import RequestSummary
    from agui_client.recording._reading import Recording

Aspect: TypeAlias = Literal["request", "text", "tools", "state", "outcome"]
_ASPECTS: tuple[Aspect, ...] = ("request", "text", "tools", "state", "outcome")
"""The aspects, in the order in which they are compared."""


@dataclass(frozen=True)
class Difference:
    """The first place where two recordings differ in one respect."""

    aspect: Aspect
    """The respect."""
    request: int
    """The number of the request, from 1."""
    what: str
    """The difference in a sentence; the first recording is called recorded."""


@dataclass(frozen=True)
class Comparison:
    """Two recordings, side by side."""

    differences: list[Difference]
    """The first difference in each respect; empty if there is none."""


def compare(one: Recording, other: Recording) -> Comparison:
    """Compare the responses of two recordings, request by request in their order.

    Args:
        one: The first recording.
        other: The second.
    """
    found: dict[Aspect, Difference] = {}
    requests = zip_longest(summary_of(one).requests, summary_of(other).requests)
    for number, pair in enumerate(requests, 1):
        facts = [None if request is None else _facts(request) for request in pair]
        for aspect in _ASPECTS:
            sentence = _difference(aspect, *(None if each is None else each[aspect] for each in facts))
            if sentence is not None:
                found.setdefault(aspect, Difference(aspect, number, sentence))
    return Comparison([found[aspect] for aspect in _ASPECTS if aspect in found])


def _difference(aspect: Aspect, before: Any, now: Any) -> str | None:
    if before is None or now is None:
        return "only one of the recordings has this request"
    return next(differences(before, now, _NAMES.get(aspect, str)), None)


def _place_in(noun: str, path: str) -> str:
    """Return the name of a place in a list that is made here: no reader has seen it, so a pointer says nothing."""
    if not path:
        return path
    number, *members = path[1:].split("/")
    item = f"{noun} {int(number) + 1}"
    return f"{'/'.join(members)} of {item}" if members else item


_NAMES: dict[Aspect, Callable[[str], str]] = {
    "text": partial(_place_in, "message"),
    "tools": partial(_place_in, "call"),
}


def _facts(request: RequestSummary) -> dict[Aspect, Any]:
    """Return the aspects of a response."""
    new = [each for each in request.messages if each.id not in request.known_ids and each.role == "assistant"]
    return {
        "request": request.asked,
        "text": [each.content for each in new if each.content],
        "tools": [
            {"name": each.name, "arguments": each.arguments, "result": each.result, "decision": each.decided}
            for each in request.calls
        ],
        "state": request.state,
        "outcome": [request.ending, request.result, to_jsonable_python(request.interrupts, by_alias=True)],
    }
