"""References in requests: an input names what it has in common with the input of an earlier request, its base.

Of a request with a `base`, the members of the input that `same` names are those of the base's input, and each pair
[first, end] among the messages stands for the base's messages from `first` to before `end`. Each request is the base of
the next one of the same agent and thread, so that a recording grows by what is new. Inputs are compared as they are
written, without secrets: a reader gets what a recording of whole inputs would have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.recording._format import Line, RequestLine

_MOST_BASES = 256
"""The number of threads whose latest inputs are remembered; requests of further ones are written whole."""
_SHORTEST_MEMBER = 100
"""The bytes of JSON from which on a member is referred to; a shorter one is easier to read where it stands."""
_REFERENCE_BYTES = 8
"""The memory that a message takes in each further input that it is a part of."""


class TooManyReferencesError(Exception):
    """The inputs of a recording would take more memory than its reader allows."""


@dataclass(frozen=True)
class _Base:
    """An input to refer to. Digests stand for its values, which would keep every long thread in memory."""

    request: str
    members: dict[str, bytes]
    """The digests of the members that can be referred to, but for the messages."""
    messages: dict[bytes, int]
    """The places of the messages, by their digests."""


class InputReferences:
    """Makes requests refer to the request before them, of the same agent and thread."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str | None, str], _Base] = {}

    def shorten(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return a request without what it has in common with its base, and remember it as the next base.

        Args:
            line: The JSON of a `RequestLine` with its whole input.
        """
        agent, given = line["agent"], line["input"]
        messages = given.get("messages")
        if not is_array(messages) or not all(map(is_object, messages)):
            return line  # no client sends that, and its lists would be taken for references
        # The ids of agents are chosen anew for each clone.
        key = agent.get("name") or agent.get("url"), str(given.get("threadId"))
        base = self._bases.pop(key, None)
        digests = [_digest(_written(message)) for message in messages]
        members = {name: _written(value) for name, value in given.items() if name != "messages"}
        known = {name: _digest(text) for name, text in members.items() if len(text) >= _SHORTEST_MEMBER}
        places = {digest: place for place, digest in enumerate(digests)}
        self._bases[key] = _Base(line["request"], known, places)
        if len(self._bases) > _MOST_BASES:
            del self._bases[next(iter(self._bases))]
        if base is None:
            return line
        same = [name for name, digest in known.items() if base.members.get(name) == digest]
        parts = _parts(messages, [base.messages.get(digest) for digest in digests])
        if not same and parts == messages:
            return line
        shown = {name: value for name, value in given.items() if name not in same}
        head = {name: value for name, value in line.items() if name != "input"}
        return {**head, "base": base.request, "same": same, "input": {**shown, "messages": parts}}

    def clear(self) -> None:
        """Forget all inputs, because what is written next may be in another file."""
        self._bases.clear()


class WholeInputs:
    """Gives requests back what they refer to; the inputs share it.

    Args:
        most_bytes: The most memory that the references may take; None for any.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._left = most_bytes
        self._inputs: dict[str, tuple[dict[str, Any], dict[str, int]]] = {}
        """The inputs by their requests, with the places of their members."""

    def restore(self, line: Line) -> Line:
        """Return a request with its whole input; as it is, with its base, if what it refers to is lost.

        Args:
            line: A line of a recording; others than requests are returned as they are.

        Raises:
            TooManyReferencesError: The references would take too much memory.
        """
        if not isinstance(line, RequestLine):
            return line
        if line.base is not None:
            whole = self._whole(line, self._inputs.get(line.base))
            if whole is None:
                return line
            line = line.model_copy(update={"base": None, "same": [], "input": whole})
        self._inputs[line.request] = line.input, {name: place for place, name in enumerate(line.input)}
        return line

    def _whole(self, line: RequestLine, found: tuple[dict[str, Any], dict[str, int]] | None) -> dict[str, Any] | None:
        """Return the input of a request; None if it does not fit its base."""
        parts = line.input.get("messages")
        base, places = found or ({}, {})
        if found is None or not base.keys() >= set(line.same) or not is_array(parts):
            return None
        before, messages = base.get("messages"), list[Any]()
        for part in parts:
            if not is_array(part):
                messages.append(part)
                continue
            span = _span(part, before)
            if span is None:
                return None
            self._count(len(span))
            messages += span
        members = {**{name: base[name] for name in line.same}, **line.input, "messages": messages}
        # In the order of the base, in which differences are shown; without a walk along a base of many members.
        return {name: members[name] for name in sorted(members, key=lambda name: places.get(name, len(places)))}

    def _count(self, messages: int) -> None:
        # Lists that double with every line would fill any memory.
        if self._left is not None:
            self._left -= _REFERENCE_BYTES * messages
            if self._left < 0:
                raise TooManyReferencesError


def _written(value: Any) -> bytes:
    try:
        return to_json(value)
    except ValueError:
        # A function of the user that redacts may leave half a character.
        return json.dumps(value).encode()


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _parts(messages: list[Any], places: list[int | None]) -> list[Any]:
    """Return messages with references in the place of those that the base has."""
    parts: list[Any] = []
    reference = [-1, -1]
    for message, place in zip(messages, places, strict=True):
        if place is None:
            parts.append(message)
            reference = [-1, -1]
        elif place == reference[1]:
            reference[1] += 1
        else:
            reference = [place, place + 1]
            parts.append(reference)
    return parts


def _span(reference: list[Any], messages: Any) -> list[Any] | None:
    """Return the messages that a reference stands for; None if they are not there."""
    match reference:
        case [int(first), int(end)] if is_array(messages) and 0 <= first < end <= len(messages):
            return messages[first:end]
        case _:
            return None
