"""Surfaces of agents at a prompt: what is on them, `/set FIELD VALUE`, and `/press BUTTON`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client._rendering.escaping import exact
from agui_client._rendering.surface_text import surface_lines
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client.a2ui import Action, Drawn, Surface, Surfaces

_FLAGS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def revisions(surfaces: Surfaces) -> dict[str, int]:
    """Return what a later look compares surfaces with, for `changed_text`."""
    return {surface_id: each.revision for surface_id, each in surfaces.items()}


def changed_text(surfaces: Surfaces, before: Mapping[str, int]) -> str:
    """Write the surfaces that were made or changed since, with the words of the fields and buttons.

    Args:
        surfaces: The surfaces.
        before: What `revisions` returned.
    """
    changed = [each for surface_id, each in surfaces.items() if before.get(surface_id) != each.revision]
    lines = [line for each in changed for line in (f"── {exact(each.id)}", *surface_lines(each), *_usage(each))]
    return "\n".join(lines)


def enter(agent: AbstractAgent, rest: str) -> None:
    """Enter a value: `FIELD VALUE`.

    Args:
        agent: The agent with the surface.
        rest: The id of the field, with the path of its item after an @ in a list; and the value.

    Raises:
        UsageError: There is no such field, or it does not take the value.
    """
    word, _, value = rest.partition(" ")
    surface, component_id, at = _place(agent, word, "/set FIELD VALUE")
    surface.set(component_id, _value(surface.find(component_id, at=at), value.strip()), at=at)


def press(agent: AbstractAgent, rest: str) -> Action:
    """Press a button, and return its action.

    Args:
        agent: The agent with the surface.
        rest: The id of the button, with the path of its item after an @ in a list.

    Raises:
        UsageError: There is no such button, or it cannot be pressed.
    """
    surface, component_id, at = _place(agent, rest, "/press BUTTON")
    return surface.press(component_id, at=at)


def _place(agent: AbstractAgent, word: str, usage: str) -> tuple[Surface, str, str | None]:
    """Find a component by its id on the latest surface that has it."""
    component_id, _, at = word.partition("@")
    if not component_id:
        raise UsageError(f"write {usage}")
    for surface in reversed([*agent.surfaces.values()]):
        if any(each.id == component_id for each in surface.tree.walk()):
            return surface, component_id, at or None
    raise UsageError(f"no surface of the agent has {component_id!r}: /surfaces shows them")


def _usage(surface: Surface) -> list[str]:
    fields = [_word(each) for each in surface.tree.walk() if "value" in each.paths]
    buttons = [_word(each) for each in surface.tree.walk() if each.action is not None and "event" in each.action]
    said = [f"/set {'|'.join(fields[:20])} VALUE"] if fields else []
    said += [f"/press {'|'.join(buttons[:20])}"] if buttons else []
    return [" · ".join(said)] if said else []


def _word(node: Drawn) -> str:
    return exact(node.id if node.at == "/" else f"{node.id}@{node.at}")


def _value(node: Drawn, text: str) -> Any:
    match node.component:
        case "CheckBox":
            return _FLAGS.get(text.lower(), text)
        case "ChoicePicker":
            return [each.strip() for each in text.split(",") if each.strip()]
        case _:
            return text
