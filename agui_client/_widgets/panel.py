"""A question below a notebook's cell, made of ipywidgets: its text, its fields, and buttons.

When a button is pressed, the fields are read from the page. ipywidgets sends the changes of a field one at a time, the
next when the kernel has reported that it handled the last. While a cell waits, ipykernel 7 reports nothing, so that the
kernel knows only the first change; and a click overtakes changes that still wait on the page. The agent's text is shown
without its markup (SEC-8).
"""

from __future__ import annotations

import html
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio

from agui_client._concurrency import LoopThread
from agui_client._widgets.escaping import exact, sentence
from agui_client._widgets.forms import name_of

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

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
        self._inputs = inputs
        self._problem = area("", is_shown=True)
        self._problem.layout.display = "none"
        self._box = widget(
            "VBox", [area(sentence(question), is_shown=True), *inputs, widget("HBox", self._buttons), self._problem]
        )

    async def __aenter__(self) -> Panel:
        import_module("IPython.display").display(self._box)
        return self

    async def __aexit__(self, *raised: object) -> None:
        _set_disabled([*self._inputs, *self._buttons], True)

    async def pressed(self) -> str:
        """Wait until a button is pressed; return its label.

        Afterwards the values of the inputs are those that stand on the page, and they stay so until the next call.
        """
        _set_disabled(self._inputs, False)
        with _messages(self._buttons) as clicks:
            button, click = await clicks.receive()
            # A button also sends the changes of its traits.
            while click["content"]["data"]["method"] != "custom":
                button, click = await clicks.receive()
        _set_disabled(self._inputs, True)
        await _read(self._inputs, click["header"]["session"])
        return str(button.description)

    def say(self, problem: str) -> None:
        """Show the reason why the answer was rejected."""
        self._problem.value, self._problem.layout.display = sentence(problem), None


async def _read(inputs: Sequence[Any], session: str) -> None:
    """Set the values of inputs to what stands on a page.

    Args:
        inputs: The inputs.
        session: The session of the page, as a notebook may be open on several, which show different values.
    """
    # The page carries out a link at once. The copy is a new widget, whose first change never waits on the page: a
    # layout, the smallest widget. It begins with what stands in no field, because the page sends only what differs.
    copies = {widget("Layout", width=uuid4().hex): each for each in inputs}
    links = list[Any]()
    try:
        with _messages([*copies]) as changes:
            for copy, each in copies.items():
                links.append(widget("jsdlink", (each, _shown(each)), (copy, "width")))
            unread = {*copies}
            while unread:
                copy, change = await changes.receive()
                if copy in unread and change["header"]["session"] == session:
                    setattr(copies[copy], _shown(copies[copy]), change["content"]["data"]["state"]["width"])
                    unread.remove(copy)
    finally:
        for each in (*links, *copies):
            each.close()


def _shown(each: Any) -> str:
    """Return the name of the trait in which the page keeps what stands in a field."""
    return "index" if "index" in each.keys else "value"


@contextmanager
def _messages(widgets: Sequence[Any]) -> Generator[MemoryObjectReceiveStream[tuple[Any, Mapping[str, Any]]]]:
    """Receive the messages that the page sends to widgets, each with its widget, while the block lasts."""
    # A message may come in a thread of the kernel's.
    loop = LoopThread()
    incoming, received = anyio.create_memory_object_stream[tuple[Any, Mapping[str, Any]]](math.inf)

    def receive(receiver: Any, message: Mapping[str, Any]) -> None:
        """Pass a message on to the block."""
        loop.call(partial(incoming.send_nowait, (receiver, message)))

    for each in widgets:
        each.comm.on_msg(partial(receive, each))
    with incoming, received:
        try:
            yield received
        finally:
            for each in widgets:
                each.comm.on_msg(None)


def _set_disabled(widgets: Sequence[Any], is_disabled: bool) -> None:
    for each in widgets:
        each.disabled = is_disabled


def field_input(field: FormField) -> Any:
    """Make the widget in which a field is filled in: with a label that stays, and the schema's default."""
    label = labelled(f"{field.label}: {field.description}" if field.description else field.label)
    default = field.default
    if field.choices:
        return _select([name_of(choice) for choice in field.choices], default, label)
    if field.kind == "boolean":
        return _select(["yes", "no"], default, label)
    # A default that a field cannot show as it is would be sent unseen.
    text = default if exact(default) == default else ""
    if field.kind == "json" or "\n" in text:
        return area(text, is_shown=False, **label)
    return widget("Text", value=text, **label)


def _select(names: Sequence[str], default: str, label: dict[str, Any]) -> Any:
    """Make a list of choices, the first of which is no choice."""
    options = [("", ""), *((exact(name), name) for name in names)]
    select = widget("Select", options=options, value=default if default in names else "", rows=len(options), **label)
    select.layout.height = f"{40 + 17 * len(options)}px"  # a list below its label ignores its number of rows
    return select


def labelled(text: str) -> dict[str, Any]:
    """Make the keywords of a widget whose label stays in sight.

    Args:
        text: The label; the page shows it whole when the pointer is on it.
    """
    # Notebooks draw TeX in labels, with its links, but not in code; no property of the page makes this look like code.
    shown = html.escape(sentence(text))
    style = "all: inherit; display: block; width: auto; text-align: left"
    return {
        "description": f'<code title="{shown}" style="{style}">{shown}</code>',
        "description_allow_html": True,
        "style": {"description_width": "auto"},
        "layout": {"width": "100%", "flex_flow": "column", "align_items": "stretch"},
    }


def area(text: str, *, is_shown: bool, **fields: Any) -> Any:
    """Make a text field with several lines; one that only shows something is disabled."""
    rows = min(text.count("\n") + 1 + len(text) // 100, 20)
    return widget("Textarea", value=text, disabled=is_shown, rows=rows, **{"layout": {"width": "100%"}} | fields)


def widget(kind: str, *args: Any, **fields: Any) -> Any:
    """Make a widget; ipywidgets is loaded with the first one."""
    return getattr(import_module("ipywidgets"), kind)(*args, **fields)
