"""Surfaces of agents at a prompt: what is on them, `/set FIELD VALUE`, `/press BUTTON`, and `/fill`, which asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agui_client._rendering.escaping import exact, sentence
from agui_client._rendering.form_readers import entries_of, read_choice
from agui_client._rendering.surface_text import (
    chosen_of,
    label_of,
    loose_lines,
    options_of,
    shown_text,
    titled_lines,
)
from agui_client.a2ui._catalog import INPUTS
from agui_client.errors import UsageError
from agui_client.terminal._watching import show_surfaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.result import RunResult
    from agui_client.a2ui import Action, Drawn, Surface, Surfaces
    from agui_client.terminal._plain_view import PlainView
    from agui_client.terminal._questions import Keyboard

    Say = Callable[[str], object]

_FLAGS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_MOST_LISTED = 20


class Seen(NamedTuple):
    """The surfaces of an agent as far as a person has seen them."""

    revisions: Mapping[str, int] = {}
    """The number of operations that each surface was made of."""
    lines: Sequence[str] = ()
    """The lines about what belongs to no surface."""


def seen(surfaces: Surfaces) -> Seen:
    """Return what a later look compares surfaces with, for `changed_text`."""
    return Seen({surface_id: each.revision for surface_id, each in surfaces.items()}, loose_lines(surfaces))


def changed_text(surfaces: Surfaces, before: Seen) -> str:
    """Write the surfaces that were made or changed since, with the words of fields and buttons, and what else came.

    Args:
        before: What `seen` returned.
    """
    changed = [each for surface_id, each in surfaces.items() if before.revisions.get(surface_id) != each.revision]
    lines = [line for each in changed for line in (*titled_lines(each), *_usage(each))]
    return "\n".join([*lines, *(each for each in loose_lines(surfaces) if each not in before.lines)])


def show_with_hint(result: RunResult, view: PlainView) -> None:
    """Write the surfaces of a run that has ended, and how a person comes to their fields and buttons.

    Args:
        result: The result of the run.
        view: The view of the run.
    """
    show_surfaces(result, view)
    if any(map(_usage, result.changed_surfaces)):
        view.note("`agui chat` lets you fill in forms of the agent, and press their buttons")


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


def fillable(agent: AbstractAgent, surface_id: str) -> Surface:
    """Return the surface that a person fills in: the one with an id, or the latest with a field or a button.

    Args:
        agent: The agent with the surfaces.
        surface_id: The id; empty for the latest.

    Raises:
        UsageError: There is none.
    """
    found = [each for each in agent.surfaces.values() if surface_id in ("", each.id)]
    usable = [each for each in found if [*_fields(each), *_buttons(each)]]
    if not usable:
        which = f"there is no surface {surface_id!r}" if surface_id else "the agent has sent no surface"
        raise UsageError(f"{which} with fields or buttons; /surfaces shows what there is")
    return usable[-1]


def fill(surface: Surface, keyboard: Keyboard, say: Say) -> Action | None:
    """Ask for the fields of a surface one by one, and which of its buttons to press.

    Args:
        surface: The surface; what is typed is entered into it at once.
        keyboard: Reads lines.
        say: Shows a line.

    Returns:
        The action of the button; None if none was pressed.
    """
    asked = [(each.id, each.at) for each in _fields(surface)]
    while True:
        for place in asked:
            # What was entered before may have removed it.
            if node := next((each for each in _fields(surface) if (each.id, each.at) == place), None):
                _ask(surface, node, keyboard, say)
        if not (buttons := [*_buttons(surface)]):
            return None
        labels = [shown_text(label_of(each)) for each in buttons]
        _list(labels, say)
        if not (typed := keyboard.read("Press (empty: none): ").strip()):
            return None
        try:
            number: int = _chosen(typed, range(len(buttons)), labels)
            chosen = buttons[number]
            return surface.press(chosen.id, at=chosen.at)
        except UsageError as error:
            say(str(error))
        # What is wrong is asked for again, and then the button.
        asked = [(each.id, each.at) for each in _fields(surface) if each.failed]


def _ask(surface: Surface, node: Drawn, keyboard: Keyboard, say: Say) -> None:
    """Ask for one field, until it takes what is typed."""
    _list([label for _, label in options_of(node)], say)
    is_hidden = node.values.get("variant") == "obscured"
    there = "" if is_hidden else _typed(node)
    if exact(there) != there:
        # A line would show characters that reverse or hide others as another text.
        say(f"value: {exact(there)}")
        there = ""
    begins, label = there, sentence(label_of(node) + (f" ({node.at})" if node.at != "/" else ""))
    while (typed := keyboard.read(f"{label}: ", default=begins, is_hidden=is_hidden)) != there:
        try:
            surface.set(node.id, _value(node, typed.strip()), at=node.at)
        except UsageError as error:
            say(str(error))
            begins = "" if is_hidden else typed
        else:
            return


def _list(titles: Sequence[str], say: Say) -> None:
    for number, title in enumerate(titles[:_MOST_LISTED], 1):
        say(f"{number}  {title}")
    if more := len(titles[_MOST_LISTED:]):
        say(f"and {more} more")


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
    fields, buttons = ([_word(each) for each in found(surface)] for found in (_fields, _buttons))
    said = [f"/set {'|'.join(fields[:_MOST_LISTED])} VALUE"] if fields else []
    said += [f"/press {'|'.join(buttons[:_MOST_LISTED])}"] if buttons else []
    return [" · ".join(said)] if said else []


def _fields(surface: Surface) -> Iterator[Drawn]:
    """Iterate over the components that a person enters something into."""
    return (each for each in surface.tree.walk() if each.component in INPUTS and "value" in each.paths)


def _buttons(surface: Surface) -> Iterator[Drawn]:
    """Iterate over the components that tell the agent when they are pressed."""
    return (each for each in surface.tree.walk() if each.action is not None and "event" in each.action)


def _word(node: Drawn) -> str:
    return exact(node.id if node.at == "/" else f"{node.id}@{node.at}")


def _typed(node: Drawn) -> str:
    """Return what a person would type for the value that a field has."""
    value = node.values.get("value", "")
    if node.component == "CheckBox":
        return "yes" if value is True else "no"
    if node.component == "ChoicePicker":
        labels = dict(options_of(node))
        return ", ".join(labels.get(each, each) for each in chosen_of(node))
    return shown_text(value)


def _value(node: Drawn, text: str) -> Any:
    """Return the value that a text means for a field.

    Raises:
        UsageError: A choice has no such option.
    """
    match node.component:
        case "CheckBox":
            return _FLAGS.get(text.lower(), text)
        case "ChoicePicker":
            options = options_of(node)
            values, labels = [value for value, _ in options], [label for _, label in options]
            is_one = text in (*values, *labels) or node.values.get("variant") != "multipleSelection"
            entries = [text] if is_one and text else entries_of(text)
            return [_chosen(each, values, labels) for each in entries]
        case _:
            return text


def _chosen(typed: str, choices: Sequence[Any], titles: Sequence[str]) -> Any:
    """Return the choice that a text names by its value, its title or its number.

    Raises:
        UsageError: It names none, or could name several.
    """
    try:
        return read_choice(typed, choices, titles)
    except ValueError as error:
        raise UsageError(str(error)) from error
