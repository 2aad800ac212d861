"""A question below a notebook's cell, made of ipywidgets: its text, its fields, and buttons.

The agent's text is shown in fields, where no markup is interpreted (SEC-8).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._concurrency import LoopThread
from agui_client._widgets.escaping import exact, sentence
from agui_client._widgets.forms import name_of

if TYPE_CHECKING:
    from agui_client._widgets.forms import FormField


class Panel:
    """A question that can be answered while the block lasts; afterwards it stays on the page, disabled.

    Args:
        question: The text of the question.
        inputs: The widgets to fill in.
        choices: The labels of the buttons.
    """

    def __init__(self, question: str, inputs: Sequence[Any], choices: Sequence[str]) -> None:
        self._buttons = [widget("Button", description=choice) for choice in choices]
        self._inputs = [*inputs, *self._buttons]
        self._problem = area("", is_shown=True)
        self._problem.layout.display = "none"
        self._box = widget(
            "VBox", [area(sentence(question), is_shown=True), *inputs, widget("HBox", self._buttons), self._problem]
        )

    async def __aenter__(self) -> Panel:
        import_module("IPython.display").display(self._box)
        return self

    async def __aexit__(self, *raised: object) -> None:
        for each in self._inputs:
            each.disabled = True

    async def pressed(self) -> str:
        """Wait until a button is pressed; return its label."""
        # A click may come in a thread of the kernel's.
        loop, over, chosen = LoopThread(), anyio.Event(), list[str]()

        def press(button: Any) -> None:
            """Store the label of the pressed button."""
            chosen.append(button.description)
            loop.call(over.set)

        for button in self._buttons:
            button.on_click(press)
        try:
            await over.wait()
        finally:
            for button in self._buttons:
                button.on_click(press, remove=True)
        return chosen[0]

    def say(self, problem: str) -> None:
        """Show the reason why the answer was rejected."""
        self._problem.value, self._problem.layout.display = sentence(problem), None


def field_input(field: FormField) -> Any:
    """Make the widget in which a field is filled in, with the agent's description as a hint."""
    hint = sentence(f"{field.label} {field.description}")
    if field.choices:
        names = [name_of(choice) for choice in field.choices]
        options = [("", ""), *((exact(name), name) for name in names)]
        return widget("Select", options=options, value="", tooltip=hint, rows=len(options))
    if field.kind == "boolean":
        return widget("Select", options=["", "yes", "no"], value="", tooltip=hint, rows=3)
    return widget("Textarea" if field.kind == "json" else "Text", placeholder=hint, layout={"width": "100%"})


def area(text: str, *, is_shown: bool) -> Any:
    """Make a text field with several lines; one that only shows something is disabled."""
    rows = min(text.count("\n") + 1 + len(text) // 100, 20)
    return widget("Textarea", value=text, disabled=is_shown, rows=rows, layout={"width": "100%"})


def widget(kind: str, *args: Any, **fields: Any) -> Any:
    """Make a widget; ipywidgets is loaded with the first one."""
    return getattr(import_module("ipywidgets"), kind)(*args, **fields)
