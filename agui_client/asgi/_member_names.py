"""Members of an input that have their names of Python, `thread_id` for `threadId` (SET-17).

Callers that dump the official model without its aliases send these, and the official model takes both. The class of
`ag_ui.core` could validate by either name, but would not say which it found; a warning has to.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from agui_client._core.protocol.schema import (
    ListSchema,
    ObjectSchema,
    Shape,
    TextOrItems,
    Variants,
    is_array,
    is_object,
)


def rename_members(shape: Shape, value: Any, renamed: dict[str, str]) -> None:
    """Give the members of described objects their wire names, at every depth; open objects stay as they are.

    A member that is there under both names keeps its wire name, and the other one is unknown material.

    Args:
        shape: The shape that the value should have.
        value: The JSON value, which is changed in place; one of another shape is left for validation to refuse.
        renamed: Gets the wire name of each member that was renamed, by the one that it had.
    """
    match shape:
        case ObjectSchema() if is_object(value):
            _rename(shape, value, renamed)
        case Variants(discriminator=discriminator, members=members) if is_object(value):
            tag = value.get(discriminator)
            if isinstance(tag, str) and (member := members.get(tag)) is not None:
                _rename(member, value, renamed)
        case ListSchema(item=item) | TextOrItems(items=ListSchema(item=item)) if is_array(value):
            for each in value:
                rename_members(item, each, renamed)
        case _:
            pass


def _rename(structure: ObjectSchema, value: dict[str, Any], renamed: dict[str, str]) -> None:
    wire_names, nested = _names(structure)
    for name in wire_names.keys() & value.keys():
        wire_name = wire_names[name]
        if wire_name not in value:
            value[wire_name] = value.pop(name)
            renamed[name] = wire_name
    for wire_name in nested.keys() & value.keys():
        rename_members(nested[wire_name], value[wire_name], renamed)


@cache
def _names(structure: ObjectSchema) -> tuple[dict[str, str], dict[str, Shape]]:
    """Return the wire names that differ from those of Python, by these; and the shapes of members with members."""
    slots = structure.slots.items()
    wire_names = {slot.name: wire_name for wire_name, slot in slots if slot.name != wire_name}
    parts = ObjectSchema | Variants | ListSchema | TextOrItems
    return wire_names, {wire_name: slot.shape for wire_name, slot in slots if isinstance(slot.shape, parts)}
