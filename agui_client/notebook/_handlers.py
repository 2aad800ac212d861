"""Approval and answers in a notebook: `approve=NotebookApprover()`, `answer=NotebookAnswerer()` (extra `notebook`).

Questions are buttons and fields below the cell, and runs are awaited: `await agent.run_agent(...)`. Since ipykernel 7.4
a click reaches a cell that is still waiting. Before that, and without anywidget, questions use `input()`, which blocks
the event loop meanwhile. Where nobody can type, a call is denied and an interrupt stays pending.

To change

- how an approval looks in a notebook: `NotebookApprover` here has its text, fields and buttons, `_decided` the line
  that is left of it; `notebook/question.js` draws the form, with the colours of `FORM_STYLE` in `_rendering/style.py`
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

from agui_client._core.protocol.patch import is_same_json
from agui_client._core.tools.approval import NOBODY_TO_ASK, Approve, Deny
from agui_client._core.tools.interrupts import Answer, Cancel, Resolve, cover, is_expired
from agui_client._core.tools.people import AtScreen
from agui_client._core.verbs.async_run import SYNC_CALLER
from agui_client._rendering.call_fields import CallFields
from agui_client._rendering.escaping import json_text, sentence
from agui_client._rendering.form_controls import Field
from agui_client._rendering.form_dialog import FormDialog, LeftError
from agui_client._rendering.forms import AnswerForm, FormError, said
from agui_client._rendering.interrupt_questions import ALWAYS, ANSWER, APPROVE, CONTINUE, DENY, InterruptQuestion
from agui_client._rendering.story import as_json
from agui_client.errors import CannotWaitError, InterruptsNotCoveredError
from agui_client.notebook._cell_widget import has_widgets, in_marimo
from agui_client.notebook._elements import Code, Details, Line, Tree
from agui_client.notebook._question_panel import Panel

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

    from agui_client._core.tools.approval import ApprovalRequest
    from agui_client.notebook._elements import Element, Tone

__all__ = ["NotebookAnswerer", "NotebookApprover"]

AnswerT = TypeVar("AnswerT")

_PAST: Mapping[str, tuple[str, Tone]] = {
    APPROVE.name: ("Approved", "good"),
    ALWAYS.name: ("Always approved", "good"),
    DENY.name: ("Denied", "bad"),
    ANSWER.name: ("Answered", "good"),
    CONTINUE.name: ("Left without an answer", "dim"),
}
"""The word and the colour of each button in the line that is left."""
_LONGEST_CHANGE = 80
_MARIMO = (
    "marimo passes no click on while a cell runs; type the answer in the line below, or give the agent "
    "people=People(fallback='leave') without approve= and answer=, and decide in a later cell"
)


class NotebookApprover(AtScreen):
    """Asks the user of a notebook to approve tool calls, whose arguments may be edited; a denial may have a reason.

    Args:
        widgets: Whether to use widgets instead of `input()`; if left out, widgets are used where clicks reach a waiting
            cell. True for a run that no cell waits for, such as `asyncio.create_task(agent.run_agent(...))`.
    """

    def __init__(self, *, widgets: bool | None = None) -> None:
        self._uses_widgets = not in_marimo() and _clicks_arrive() if widgets is None else widgets

    async def __call__(self, request: ApprovalRequest) -> Approve | Deny:
        """Ask for approval of one call.

        Args:
            request: The call.

        Returns:
            The decision.

        Raises:
            CannotWaitError: The call is blocked by a sync verb, so that no click could arrive.
        """
        question = f"{request.message}\nThe agent wants to call {request.name}. {request.tool.description}".lstrip()
        if not self._uses_widgets:
            return _typed(f"{sentence(question)}\n{json_text(request.arguments)}", _typed_decision) or NOBODY_TO_ASK
        _check_clicks_arrive()
        call = await anyio.to_thread.run_sync(_call_fields, request)
        reason = asdict(Field("reason", "Why not, if you deny it", enters=DENY.name))
        drawn = {**call.drawn, "fields": [*call.drawn["fields"], reason]}
        async with Panel(question, drawn, [APPROVE, DENY, ALWAYS]) as panel:
            while True:
                choice, values = await panel.pressed()
                try:
                    decision = _decision(call, choice, values)
                except FormError as error:
                    panel.say(said(error), error.problems)
                else:
                    panel.end_with(_decided(request, decision))
                    return decision


def _call_fields(request: ApprovalRequest) -> CallFields:
    """Make the fields of a call; in a thread, as the first schema loads what checks it."""
    return CallFields(request.tool.parameters or {}, request.arguments)


def _decision(call: CallFields, choice: str, values: Mapping[str, str]) -> Approve | Deny:
    """Return the decision of a pressed button.

    Raises:
        FormError: The arguments do not fit.
    """
    if choice == DENY.name:
        return Deny(values["reason"].strip() or Deny().reason)
    return Approve(call.changed(values), always=choice == ALWAYS.name)


def _decided(request: ApprovalRequest, decision: Approve | Deny) -> Element:
    """Describe a decision in a line, with the call below it."""
    tone: Tone
    if isinstance(decision, Deny):
        reason = "" if decision.reason == Deny().reason else f": {decision.reason}"
        line, tone = f"Denied by you {_clock()} · {request.name}{reason}", "bad"
    else:
        edits = "" if decision.arguments is None else f", {_changes(request.arguments, decision.arguments)}"
        approved = "Always approved" if decision.always else "Approved"
        line, tone = f"{approved} by you {_clock()} · {request.name}{edits}", "good"
    return Details(line, [Line(request.tool.description), Tree(dict(request.arguments))], tone)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Write the arguments that a person changed, such as `count 4 → 2`."""
    changes = list[str]()
    for name in [*before, *(each for each in after if each not in before)]:
        old, new = (as_json(each[name]) if name in each else "nothing" for each in (before, after))
        if name not in before or name not in after or not is_same_json(before[name], after[name]):
            changes.append(f"{name} {_beginning(old)} → {_beginning(new)}")
    return ", ".join(changes)


class NotebookAnswerer(AtScreen):
    """Asks the user of a notebook to answer interrupts.

    Args:
        widgets: As for `NotebookApprover`.
    """

    def __init__(self, *, widgets: bool | None = None) -> None:
        self._uses_widgets = not in_marimo() and _clicks_arrive() if widgets is None else widgets

    async def __call__(self, interrupt: Interrupt) -> Answer | None:
        """Ask for the answer to one interrupt.

        Returns:
            The answer; None leaves it to the caller.

        Raises:
            CannotWaitError: The call is blocked by a sync verb, so that no click could arrive.
        """
        # In a thread, as the first schema loads what checks it.
        question = await anyio.to_thread.run_sync(InterruptQuestion, interrupt)
        if not self._uses_widgets:
            return _typed(question.text, lambda: _typed_answer(interrupt, question.form))
        _check_clicks_arrive()
        # For a decision, too: the cell waits, and only an interrupt of the kernel would end that.
        buttons = [*(each for each in question.buttons if each != CONTINUE), CONTINUE]
        async with Panel(question.text, question.drawn, buttons) as panel:
            while True:
                choice, values = await panel.pressed()
                try:
                    answer = question.answer(choice, values)
                    cover([interrupt], {interrupt.id: answer})
                    panel.end_with(_answered(question, choice, answer, values))
                    return answer
                except FormError as error:
                    panel.say(said(error), error.problems)
                except InterruptsNotCoveredError as error:
                    panel.say(str(error))


def _answered(question: InterruptQuestion, choice: str, answer: Answer, values: Mapping[str, str]) -> Element:
    """Describe an answer in a line, with the question below it."""
    verb, tone = _PAST[choice]
    given = [_beginning(answer.reason)] if isinstance(answer, Deny) and answer != Deny() else []
    if question.form is not None and choice == ANSWER.name:
        given = [f"{title}: {_beginning(text)}" for title, text in question.form.shown(values)]
    return Details(" · ".join([f"{verb} by you {_clock()}", *given]), [Code(question.text)], tone)


def _beginning(text: str) -> str:
    line = " ".join(text[:_LONGEST_CHANGE].split())
    return line if len(text) < _LONGEST_CHANGE else f"{line}…"


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M")


def _typed(question: str, read: Callable[[], AnswerT]) -> AnswerT | None:
    """Show a question and read the typed answer; return None if nobody can type, or the answer does not fit."""
    sys.stdout.write(f"{question}\n{_MARIMO}\n" if in_marimo() else f"{question}\n")
    try:
        return read()
    except (EOFError, NotImplementedError):  # of IPython's, StdinNotImplementedError
        why = "there is nobody to ask"
    except LeftError:
        why = "nothing was typed where something is needed"
    except (ValueError, InterruptsNotCoveredError) as error:
        why = sentence(str(error))
    sys.stdout.write(f"left without an answer: {why}\n")
    return None


def _typed_decision() -> Approve | Deny:
    if _is_yes("Allow it? [y/N] "):
        return Approve()
    return Deny(input("Why not? ").strip() or Deny().reason)


def _typed_answer(interrupt: Interrupt, form: AnswerForm | None) -> Answer | None:
    if is_expired(interrupt):
        return Cancel() if _is_yes("Let the agent continue without an answer? [y/N] ") else None
    if form is None:
        answer: Answer = _typed_decision()
    else:
        answer = Resolve(FormDialog(form, _read_line, print).fill())
    cover([interrupt], {interrupt.id: answer})
    return answer


def _read_line(prompt: str, begins: str) -> str:
    """Read a line that cannot begin with a text: Enter alone takes it."""
    shown = f"{prompt}[{begins}] " if begins else prompt
    return input(shown) or begins


def _is_yes(question: str) -> bool:
    return input(question).strip().lower() in {"y", "yes"}


def _check_clicks_arrive() -> None:
    """Refuse to ask where no click could ever reach the question."""
    if in_marimo():
        raise CannotWaitError(f"widgets=True draws a form that cannot be pressed: {_MARIMO}")
    if SYNC_CALLER.get() is threading.main_thread():
        raise CannotWaitError(
            "a click cannot reach a cell that is blocked by run_agent_sync() or stream_sync(); write "
            "`await agent.run_agent(...)` or `async with agent.stream(...)`, or give widgets=False, which uses "
            "input(); this call waits in agent.pending_tool_calls, or the question in agent.pending_interrupts: "
            "continue with `await agent.run_agent(tool_results={id: Approve()})` or `resume={id: ...}`"
        )


def _clicks_arrive() -> bool:
    """Return whether there are widgets, in a kernel that delivers clicks while a cell waits."""
    try:
        major, minor = map(int, version("ipykernel").split(".")[:2])
        return has_widgets() and (major, minor) >= (7, 4)
    except PackageNotFoundError:
        return False
