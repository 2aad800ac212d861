"""A null for each member of each class of ag_ui.core that an event can hold.

Events with all members are made of the JSON Schema of the official models, and a null is put into each place. A null of
an optional member stands for the whole member, which the protocol forbids (PROC-17): the run fails, and
`null_fields="drop"` leaves the member out. A member without a type holds any JSON, null included. `ON_PURPOSE` has what
the official boundary takes out (VER-12).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ag_ui.core import Event
from pydantic import TypeAdapter

from agui_client import UnrecognizedEvent
from agui_client._core.protocol.compat import Translator
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.schema import is_object
from agui_client._core.protocol.validation import NullFields, Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import ProtocolError

from .judging import Case

Json: TypeAlias = dict[str, Any]

_SCHEMA: Json = TypeAdapter[Any](Event).json_schema(by_alias=True)
_CLASSES: Json = _SCHEMA["$defs"]
_TYPES: dict[str, str] = {kind: place.rpartition("/")[2] for kind, place in _SCHEMA["discriminator"]["mapping"].items()}
"""The classes of events by their types."""
_OPEN = {"one": None, "two": [None, {"three": None}]}
"""A value for a place of any JSON, whose nulls are data."""

_RETIRED = "earlier producers send it, and the official client takes it out (VER-12)"
_ECHO = "RUN_STARTED"
ON_PURPOSE = {f"{kind} {name}.rawEvent": _RETIRED for kind, name in _TYPES.items()} | dict.fromkeys(
    [
        "TOOL_CALL_START ToolCallStartEvent.parentMessageId",
        "TOOL_CALL_CHUNK ToolCallChunkEvent.parentMessageId",
        "RUN_FINISHED RunFinishedEvent.outcome",
        "RUN_FINISHED RunFinishedEvent.result",
        "SUBAGENT_FINISHED SubagentFinishedEvent.result",
        f"{_ECHO} RunAgentInput.state",
        f"{_ECHO} RunAgentInput.forwardedProps",
        f"{_ECHO} ResumeEntry.payload",
        f"{_ECHO} Tool.parameters",
        *(
            f"{kind} {part}.metadata"
            for kind in (_ECHO, "MESSAGES_SNAPSHOT")
            for part in ("ImagePart", "AudioPart", "VideoPart", "DocumentPart")
        ),
    ],
    _RETIRED,
)


@dataclass(frozen=True)
class _Place:
    """A place of a sample where a null may stand."""

    path: tuple[str | int, ...]
    name: str
    """The class and the member."""
    kind: str
    """The kind of member: "optional", "required", or "any" for one that takes any JSON and has to be there."""


@dataclass(frozen=True)
class _Sample:
    """A value that fits a schema, with all members."""

    value: Any
    places: list[_Place] = field(default_factory=list[_Place])

    def below(self, key: str | int) -> list[_Place]:
        """Return its places, as those of a value that has it as a member."""
        return [_Place((key, *each.path), each.name, each.kind) for each in self.places]


def cases() -> Iterator[Case]:
    """Put a null into each place of each event."""
    for kind, name in _TYPES.items():
        seen: set[str] = set()
        for sample in _samples(_CLASSES[name]):
            event = {**sample.value, "type": kind}
            error, _, kept = _read(event, "reject")
            if error is not None or kept != event:
                yield Case(f"{kind} without such a null", f"{error}, {kept}")
            for place in sample.places:
                if (label := f"{kind} {place.name}") not in seen:
                    seen.add(label)
                    yield Case(label, _problem(event, place))


def _problem(event: Json, place: _Place) -> str | None:
    spoiled: Any = json.loads(json.dumps(event))
    owner = spoiled
    for key in place.path[:-1]:
        owner = owner[key]
    owner[place.path[-1]] = None
    error, _, kept = _read(spoiled, "reject")
    if place.kind == "any":
        return error or (None if kept == spoiled else f"became {kept}")
    if error is None:
        return "was not refused"
    error, warnings, kept = _read(spoiled, "drop")
    if place.kind == "required":
        return "was not refused with null_fields='drop'" if error is None else None
    del owner[place.path[-1]]
    if error is not None or kept != spoiled:
        return f"null_fields='drop' did not leave it out: {error or kept}"
    return None if warnings else "null_fields='drop' left it out without a warning"


def _read(event: Json, null_fields: NullFields) -> tuple[str | None, int, Json]:
    """Read one event; return the reason why it is refused, the number of warnings, and the event as it leaves."""
    warnings = WarningLog()
    try:
        decoded = Decoder(warnings).feed(json.dumps(event))
        if isinstance(decoded, UnrecognizedEvent):
            decoded = Translator(warnings).feed(decoded)
        left = Validator(warnings, null_fields=null_fields).feed(decoded)
    except ProtocolError as refused:
        return str(refused), len(warnings.records()), {}
    written = {} if left is None else left.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return None, len(warnings.records()), written


# --- samples


def _samples(schema: Mapping[str, Any]) -> list[_Sample]:
    """Return values with all members that fit a schema: one for each alternative in it."""
    if "$ref" in schema:
        return _samples(_CLASSES[schema["$ref"].rpartition("/")[2]])
    alternatives = [each for each in schema.get("oneOf", schema.get("anyOf", ())) if each.get("type") != "null"]
    if alternatives:
        return [sample for each in alternatives for sample in _samples(each)]
    if "properties" in schema:
        return _objects(schema)
    if schema.get("type") == "array":
        items = _samples(schema["items"])
        places = [place for index, item in enumerate(items) for place in item.below(index)]
        return [_Sample([_numbered(item.value, index) for index, item in enumerate(items)], places)]
    plain: Json = {"string": "/a" if "pattern" in schema else "x", "integer": 1, "boolean": True}
    fixed = schema.get("const", next(iter(schema.get("enum", ())), None))
    return [_Sample(fixed or plain.get(schema.get("type", ""), _OPEN))]


def _objects(schema: Mapping[str, Any]) -> list[_Sample]:
    """Return objects of a class: one with the first alternative of each member, and one for each other alternative."""
    members = {name: _samples(each) for name, each in schema["properties"].items()}
    chosen = [{name: each[0] for name, each in members.items()}]
    chosen += [{**chosen[0], name: other} for name, each in members.items() for other in each[1:]]
    own = [_Place((name,), f"{schema['title']}.{name}", _kind(schema, name)) for name in members]
    return [
        _Sample(
            {name: each.value for name, each in choice.items()},
            own + [place for name, each in choice.items() for place in each.below(name)],
        )
        for choice in chosen
    ]


def _kind(schema: Mapping[str, Any], name: str) -> str:
    member: Json = schema["properties"][name]
    if name not in schema.get("required", ()) and "const" not in member:
        return "optional"
    return "any" if member.keys() <= {"title", "description"} else "required"


def _numbered(value: Any, index: int) -> Any:
    """Return an element of a list under an id of its own."""
    return {**value, "id": f"x{index}"} if is_object(value) and isinstance(value.get("id"), str) else value
