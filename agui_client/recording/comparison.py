"""Comparison of two recordings: where their texts, tools, states and outcomes part first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ag_ui.core import AssistantMessage

from agui_client._protocol.decode import Decoder
from agui_client._protocol.pipeline import Pipeline
from agui_client._protocol.reduce import Reducer
from agui_client._protocol.warnings import WarningLog
from agui_client.errors import ProtocolError
from agui_client.recording.matching import differences, question

if TYPE_CHECKING:
    from agui_client.recording.reading import Exchange, Recording

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
    """Compare the answers of two recordings, request by request in their order.

    Args:
        one: The first recording.
        other: The second.
    """
    found: dict[Aspect, Difference] = {}
    for number, (before, now) in enumerate(zip_longest(one.exchanges, other.exchanges), 1):
        facts = [None if exchange is None else _facts(exchange) for exchange in (before, now)]
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


def _facts(exchange: Exchange) -> dict[Aspect, Any]:
    """Return what an answer comes to, by aspects."""
    asked = exchange.input
    log = WarningLog()
    reducer = Reducer(asked.messages, asked.state, warnings=log)
    pipeline, decode = Pipeline(reducer, log, null_fields="drop"), Decoder(log).feed
    failure = None if exchange.end is None or exchange.end.error is None else exchange.end.error.type
    try:
        for line in exchange.events:
            for _ in pipeline.feed(decode(json.dumps(line.event))):
                pass
    except ProtocolError as error:
        failure = f"{type(error).__name__} {error.rule}"
    known = {message.id for message in asked.messages}
    new = [message for message in reducer.messages if message.id not in known]
    outcome = pipeline.outcome
    ending = outcome.outcome if outcome.error is None else outcome.error.message
    return {
        "request": question(exchange.request.input),
        "text": [message.content for message in new if message.role == "assistant" and message.content],
        "tools": _tools(exchange, [message for message in new if isinstance(message, AssistantMessage)], reducer),
        "state": reducer.state,
        "outcome": failure
        or (ending if isinstance(ending, str | None) else ending.model_dump(mode="json", by_alias=True)),
    }


def _tools(exchange: Exchange, messages: Sequence[AssistantMessage], reducer: Reducer) -> list[Any]:
    """Return the calls that an answer made, with their results: the agent's own, or those of tools executed here."""
    results = {each.tool_call_id: each.content for each in reducer.messages if each.role == "tool"}
    results |= {each.tool_call_id: each.result for each in exchange.tools if each.result is not None}
    calls = [call for message in messages for call in message.tool_calls or ()]
    return [
        {"name": call.function.name, "arguments": call.function.arguments, "result": results.get(call.id)}
        for call in calls
    ]
