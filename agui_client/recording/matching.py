"""Matching of requests with recorded ones: two are the same if they ask the same; differences become sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ag_ui.core import RunAgentInput

from agui_client._protocol.patch import is_same_json
from agui_client._protocol.problems import pointer
from agui_client._protocol.schema import is_array, is_object
from agui_client.errors import UsageError

Match: TypeAlias = Callable[[RunAgentInput, RunAgentInput], bool]
"""Takes a recorded input and the one that is asked now; returns whether the recorded answer will do."""

_IDS = ("threadId", "runId", "parentRunId", "protocolVersion")
_MOST = 20
_SHOWN = 60


class UnrecordedRequestError(UsageError):
    """A recording has no answer to what was asked; the note on the exception lists all differences."""


def question(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return what an input asks: without the ids that a caller chooses anew each time.

    Args:
        recorded: The JSON of an input.
    """
    asked = {name: value for name, value in recorded.items() if name not in _IDS and value not in (None, [])}
    messages = asked.get("messages")
    # A message is known by its place. A file may have anything in it, which is then like nothing that is asked.
    asked["messages"] = [
        {**message, "id": str(place)} if is_object(message) else message
        for place, message in enumerate(messages if is_array(messages) else [])
    ]
    return asked


def differences(recorded: Any, asked: Any, path: str = "") -> Iterator[str]:
    """Yield the differences between two JSON values, a sentence each."""
    if is_object(recorded) and is_object(asked):
        for name in [*recorded, *(name for name in asked if name not in recorded)]:
            where = pointer(path, name)
            if name not in asked:
                yield f"{where} was recorded, and is missing now"
            elif name not in recorded:
                yield f"{where} is new: {_short(asked[name])}"
            else:
                yield from differences(recorded[name], asked[name], where)
    elif is_array(recorded) and is_array(asked):
        for index, (before, now) in enumerate(zip(recorded, asked, strict=False)):
            yield from differences(before, now, f"{path}/{index}")
        if len(recorded) != len(asked):
            extra = (asked if len(asked) > len(recorded) else recorded)[min(len(recorded), len(asked))]
            counts = f"{len(asked)} items instead of {len(recorded)}"
            yield f"{path or 'the list'} has {counts}; the first one more is {_short(extra)}"
    elif not is_same_json(recorded, asked):
        yield f"{path} is {_short(asked, recorded)}, recorded was {_short(recorded, asked)}"


def no_answer(name: str, asked: dict[str, Any], candidates: Sequence[dict[str, Any]]) -> UnrecordedRequestError:
    """Return the error for a request without an answer.

    Args:
        name: The name of the recording.
        asked: The question.
        candidates: The recorded ones.
    """
    if not candidates:
        return UnrecordedRequestError(f"the recording {name} has no answer to any request of this kind")
    found = [list(differences(candidate, asked)) for candidate in candidates]
    lengths = [abs(len(candidate["messages"]) - len(asked["messages"])) for candidate in candidates]
    nearest = min(range(len(found)), key=lambda place: (lengths[place], len(found[place])))
    lines = found[nearest]
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    which = f"; the nearest of its {len(candidates)} requests is number {nearest + 1}" if len(candidates) > 1 else ""
    error = UnrecordedRequestError(
        f"the recording {name} has no answer to this request: {lines[0]}{more}; record it anew, or give match="
    )
    listed = lines[:_MOST] + ([f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else [])
    error.add_note("\n  ".join([f"What was asked differs from {name}{which}:", *listed]))
    return error


def _short(value: Any, other: Any = None) -> str:
    """Return a value for a person: of a long text the part around the first character that differs."""
    if not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}…"
    start = 0
    if isinstance(other, str):
        same = next((at for at, pair in enumerate(zip(value, other, strict=False)) if pair[0] != pair[1]), None)
        start = max(0, (min(len(value), len(other)) if same is None else same) - _SHOWN // 2)
    end = start + 2 * _SHOWN
    return f"{'…' if start else ''}{json.dumps(value[start:end], ensure_ascii=False)}{'…' if end < len(value) else ''}"
