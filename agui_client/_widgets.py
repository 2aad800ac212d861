"""A question below a notebook's cell, made of ipywidgets: what was asked, what can be filled in, and buttons.

What an agent wrote is shown in fields, where no markup is read (SEC-8).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._answers.form import name_of
from agui_client._pipeline.threads import LoopThread
from agui_client._tools.sight import exact, sentence

if TYPE_CHECKING:
    from agui_client._answers.form import FormField


class Panel:
    """A question, while the block lasts; afterwards it stays on the page and takes nothing more.

    Args:
        asked: What is asked.
        inputs: What can be filled in.
        choices: What the buttons say.
    """

    def __init__(self, asked: str, inputs: Sequence[Any], choices: Sequence[str]) -> None:
        self._buttons = [widget("Button", description=choice) for choice in choices]
        self._inputs = [*inputs, *self._buttons]
        self._problem = area("", is_shown=True)
        self._problem.layout.display = "none"
        self._box = widget(
            "VBox", [area(sentence(asked), is_shown=True), *inputs, widget("HBox", self._buttons), self._problem]
        )

    async def __aenter__(self) -> Panel:
        import_module("IPython.display").display(self._box)
        return self

    async def __aexit__(self, *raised: object) -> None:
        for each in self._inputs:
            each.disabled = True

    async def pressed(self) -> str:
        """Wait for a button; returns what it says."""
        # A click may come in a thread of the kernel's.
        loop, over, chosen = LoopThread(), anyio.Event(), list[str]()

        def press(button: Any) -> None:
            """Take the answer of the pressed button."""
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
        """Say why the answer will not do."""
        self._problem.value, self._problem.layout.display = sentence(problem), None


def field_input(field: FormField) -> Any:
    """Where a field is filled in; what the agent says about it is a hint."""
    hint = sentence(f"{field.label} {field.description}")
    if field.choices:
        names = [name_of(choice) for choice in field.choices]
        options = [("", ""), *((exact(name), name) for name in names)]
        return widget("Select", options=options, value="", tooltip=hint, rows=len(options))
    return widget("Textarea" if field.kind == "json" else "Text", placeholder=hint, layout={"width": "100%"})


def area(text: str, *, is_shown: bool) -> Any:
    """A field with several lines, to be read only if it shows something."""
    rows = min(text.count("\n") + 1 + len(text) // 100, 20)
    return widget("Textarea", value=text, disabled=is_shown, rows=rows, layout={"width": "100%"})


def widget(kind: str, *args: Any, **fields: Any) -> Any:
    """A widget of ipywidgets, which is loaded when the first is made."""
    return getattr(import_module("ipywidgets"), kind)(*args, **fields)
