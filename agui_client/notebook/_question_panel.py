"""A question below a notebook's cell: its text, its fields, and buttons, in one widget.

The page sends the values of all fields with the button, because ipykernel 7 does not report that it handled a change
while a cell waits, and pages of the same notebook show different values. Once the question is over, static content
takes its place, which a saved notebook keeps. The agent's text is shown without its markup (SEC-8).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio

from agui_client._rendering.escaping import sentence
from agui_client._rendering.style import FORM_STYLE, STYLE
from agui_client.notebook._cell_widget import CellWidget, show
from agui_client.notebook._elements import Code, Element, Line, bundle
from agui_client.notebook._presses import Presses

if TYPE_CHECKING:
    from types import TracebackType

    from agui_client._rendering.form_controls import QuestionButton

SECONDS_TO_APPEAR = 10.0
"""Seconds until a page that shows no question is noticed; one that is opened later shows it all the same."""
_MISSING = (
    "No page shows the buttons of this question yet. If you look at this cell and see none, the package anywidget is "
    "missing where Jupyter runs, which may be another environment than the kernel's: install it there "
    "(pip install anywidget), and reload the page; or give widgets=False to the approver or answerer, and type answers."
)
_UNCONNECTED = (
    "If there is no form for this question below, it is not connected to a running cell any more: run the cell again, "
    "or await agent.run_agent(), which asks an open question again."
)
_NOTHING = {"text/html": "", "text/plain": ""}


class Panel:
    """A question that can be answered while the block lasts; static content takes its place afterwards.

    Args:
        question: The text of the question.
        drawn: The fields, and the templates of those that are drawn again, as `Drawing` and `CallFields` make them.
        choices: The buttons.
    """

    def __init__(self, question: str, drawn: Mapping[str, Any], choices: Sequence[QuestionButton]) -> None:
        self._asked_id = f"agui-asked-{uuid4().hex}"
        self._shown = {
            "asked_id": self._asked_id,
            "style": STYLE + FORM_STYLE,
            "question": sentence(question),
            **drawn,
            "choices": [asdict(each) for each in choices],
        }
        self._question = question
        self._ending: Sequence[Element] = [Line("No longer asked"), Line(question)]
        self._is_shown = False

    async def __aenter__(self) -> Panel:
        self._presses = Presses()
        # In an output of its own: a notebook that is opened later shows it, where the form cannot be drawn any more.
        self._asked = show(bundle([Code(self._question), Line(_UNCONNECTED)], element_id=self._asked_id))
        self._widget = CellWidget("question", self._shown, _NOTHING, self._presses.receive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._widget.send({"ended": self._ending[0].plain()})
        self._widget.replace(_NOTHING)
        self._asked.update(bundle(self._ending), raw=True)
        self._presses.close()

    async def pressed(self) -> tuple[str, Mapping[str, str]]:
        """Wait until a button is pressed, for the last time if the kernel was busy meanwhile.

        Returns:
            Its label, and the values that stand in the fields of the page on which it was pressed, by name.
        """
        message: Mapping[str, Any] = {}
        while "pressed" not in message:
            try:
                with anyio.fail_after(math.inf if self._is_shown else SECONDS_TO_APPEAR):
                    message = await self._presses.next(self._widget)
            except TimeoutError:
                # Without anywidget the page shows an error, or nothing, and the kernel hears of neither.
                sys.stdout.write(f"{_MISSING}\n")
            self._is_shown = True
        return str(message["pressed"]), {str(name): str(value) for name, value in message["values"].items()}

    def say(self, problem: str, problems: Mapping[str, str] | None = None) -> None:
        """Show the reason why the answer was rejected.

        Args:
            problem: What is wrong with the answer as a whole.
            problems: What is wrong with each field, by the names of fields.
        """
        shown = {name: sentence(text) for name, text in (problems or {}).items()}
        rejected = {"problem": sentence(problem), "problems": shown}
        self._widget.update(**rejected)
        self._widget.send(rejected)

    def end_with(self, *ending: Element) -> None:
        """Set what stands in the place of the question when the block is over."""
        self._ending = ending
