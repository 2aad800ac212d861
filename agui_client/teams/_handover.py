"""Handovers between the members of a `HandoffAgent`: the tools that the members are offered for that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ag_ui.core import Tool

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.schema import is_object
from agui_client.errors import UsageError
from agui_client.teams._members import Member, Sees, is_view

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Handover(Record):
    """The way in which a member of a `HandoffAgent` takes over from another."""

    arguments: Any = None
    """The type of what the member that hands over sends to it: a pydantic model, a dataclass, or a JSON Schema of an
    object. It reads the arguments as a message, `[guide]: {"order": 5}`. None for nothing."""
    sees: Sees | None = None
    """The messages that it is shown besides its own, as for a `Member`; as its own `sees` says if left out."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        if self.arguments is None:
            return _NO_ARGUMENTS
        if is_object(self.arguments):
            return self.arguments
        return type_adapter(self.arguments, "Handover.arguments", is_read_now=True).json_schema()


def check_handovers(handovers: Mapping[str, Handover], members: Collection[Member]) -> None:
    """Check the ways in which members take over.

    Raises:
        UsageError: One is none, or is about no member.
    """
    known = [member.name for member in members]
    for name, handover in handovers.items():
        if name not in known:
            raise UsageError(f"handovers={{{name!r}: ...}} names no member of this team; there are: {', '.join(known)}")
        given: Any = handover
        if not isinstance(given, Handover) or not is_view(given.sees):
            raise UsageError(f"handovers={{{name!r}: ...}} takes Handover(arguments=..., sees=...), not {given!r}")
        if given.parameters.get("type") != "object":
            raise UsageError(
                f"handovers={{{name!r}: ...}}: arguments are the fields of an object, not {given.arguments!r}"
            )


def transfer_name(member: Member, taken: Collection[str]) -> str:
    """Return the name of the tool that hands over to a member; a team around this one may have one of that name."""
    name = f"transfer_to_{member.key}"
    while name in taken:
        name += "_here"
    return name


def transfer_tool(name: str, member: Member, handover: Handover) -> Tool:
    """Return the tool that hands over to a member.

    Args:
        name: The name of the tool.
        member: The member that takes over.
        handover: The way in which it does.
    """
    purpose = member.agent.description or f"Talks about what {member.name} knows."
    description = f"Hands the conversation over to {member.name}. {purpose}"
    return Tool(name=name, description=description, parameters=handover.parameters)
