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
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

from agui_client._core.ground.secrets import is_secret_schema
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.tools.approval import NOBODY_TO_ASK, Approve, Deny
from agui_client._core.tools.interrupts import Answer, Cancel, Resolve, cover, is_expired
from agui_client._core.tools.people import AtScreen
from agui_client._core.verbs.async_run import SYNC_CALLER
from agui_client._rendering.escaping import json_text, sentence
from agui_client._rendering.form_controls import Field, QuestionButton, form_field, rows_of
from agui_client._rendering.forms import AnswerForm, FormError, decision_form, read_arguments
from agui_client._rendering.story import as_json
from agui_client.errors import CannotWaitError, InterruptsNotCoveredError
from agui_client.notebook._cell_widget import has_widgets
from agui_client.notebook._elements import Code, Details, Line, Tree
from agui_client.notebook._question_panel import Panel

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

    from agui_client._core.tools.approval import ApprovalRequest
    from agui_client.notebook._elements import Element, Tone

__all__ = ["NotebookAnswerer", "NotebookApprover"]

AnswerT = TypeVar("AnswerT")

_EXPIRED = "It has expired, and cannot be answered."
_APPROVE, _ALWAYS = QuestionButton("Approve", "good"), QuestionButton("Always in this thread", "good")
_DENY = QuestionButton("Deny", "bad", is_refusal=True)
_ANSWER, _GO_ON = QuestionButton("Answer", "good"), QuestionButton("Go on without", is_refusal=True)
_PAST: Mapping[str, tuple[str, Tone]] = {
    _APPROVE.name: ("Approved", "good"),
    _ALWAYS.name: ("Always approved", "good"),
    _DENY.name: ("Denied", "bad"),
    _ANSWER.name: ("Answered", "good"),
    _GO_ON.name: ("Left without an answer", "dim"),
}
"""The word and the colour of each button in the line that is left."""
_LONGEST_CHANGE = 80


class NotebookApprover(AtScreen):
    """Asks the user of a notebook to approve tool calls, whose arguments may be edited; a denial may have a reason.

    Args:
        widgets: Whether to use widgets instead of `input()`; if left out, widgets are used where clicks reach a waiting
            cell. True for a run that no cell waits for, such as `asyncio.create_task(agent.run_agent(...))`.
    """

    def __init__(self, *, widgets: bool | None = None) -> None:
        self._uses_widgets = _clicks_arrive() if widgets is None else widgets

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
        text = json_text(request.arguments)
        arguments = Field("arguments", "Arguments (JSON)", text, control="area", rows=rows_of(text))
        reason = Field("reason", "Why not, if you deny it", enters=_DENY.name)
        async with Panel(question, [arguments, reason], [_APPROVE, _ALWAYS, _DENY]) as panel:
            while True:
                choice, values = await panel.pressed()
                decision = _read_decision(request, panel, choice, values)
                if decision is not None:
                    panel.end_with(_decided(request, decision))
                    return decision


def _read_decision(
    request: ApprovalRequest, panel: Panel, choice: str, values: Mapping[str, str]
) -> Approve | Deny | None:
    """Read the decision of a pressed button; return None if the arguments do not fit, which the panel then says."""
    if choice == _DENY.name:
        return Deny(values["reason"].strip() or Deny().reason)
    try:
        edited = read_arguments(values["arguments"], request.tool.parameters)
    except ValueError as error:
        panel.say("The call does not fit its tool yet.", {"arguments": str(error)})
        return None
    is_edited = not is_same_json(edited, request.arguments)
    return Approve(edited if is_edited else None, always=choice == _ALWAYS.name)


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
        self._uses_widgets = _clicks_arrive() if widgets is None else widgets

    async def __call__(self, interrupt: Interrupt) -> Answer | None:
        """Ask for the answer to one interrupt.

        Args:
            interrupt: The interrupt.

        Returns:
            The answer; None leaves it to the caller.

        Raises:
            CannotWaitError: The call is blocked by a sync verb, so that no click could arrive.
        """
        details = f"\n{json_text(interrupt.metadata)}" if interrupt.metadata else ""
        question = f"{sentence(interrupt.message or interrupt.reason)}{details}"
        if is_expired(interrupt):
            question, form, choices = f"{question}\n{_EXPIRED}", None, list[QuestionButton]()
        elif (decision := decision_form(interrupt)) is not None:
            form, choices = None, [_APPROVE, *([_ALWAYS] if decision.can_last else ()), _DENY]
        else:
            form, choices = AnswerForm(interrupt.response_schema or {"type": "string"}), [_ANSWER]
        if not self._uses_widgets:
            return _typed(question, lambda: _typed_answer(interrupt, form, choices))
        _check_clicks_arrive()
        fields = [form_field(each) for each in (form.fields if form is not None else ())]
        async with Panel(question, fields, [*choices, _GO_ON]) as panel:
            while True:
                choice, values = await panel.pressed()
                try:
                    answer = _pressed_answer(choice, form, values)
                    cover([interrupt], {interrupt.id: answer})
                    panel.end_with(_answered(question, choice, form, values))
                    return answer
                except FormError as error:
                    panel.say(_said(error), error.problems)
                except InterruptsNotCoveredError as error:
                    panel.say(str(error))


def _pressed_answer(choice: str, form: AnswerForm | None, values: Mapping[str, str]) -> Answer:
    if form is not None and choice == _ANSWER.name:
        return Resolve(form.read(values))
    decisions: Mapping[str, Answer] = {
        _APPROVE.name: Approve(),
        _ALWAYS.name: Approve(always=True),
        _DENY.name: Deny(),
    }
    return decisions.get(choice, Cancel())


def _answered(question: str, choice: str, form: AnswerForm | None, values: Mapping[str, str]) -> Element:
    """Describe an answer in a line, with the question below it."""
    verb, tone = _PAST[choice]
    given = list[str]()
    if form is not None and choice == _ANSWER.name:
        shown = [(each, values.get(each.name, "")) for each in form.leaves]
        texts = [
            (each.title, "•••" if is_secret_schema(each.schema) else each.shown(typed))
            for each, typed in shown
            if typed
        ]
        given = [f"{title}: {_beginning(text)}" for title, text in texts if text.strip()]
    return Details(" · ".join([f"{verb} by you {_clock()}", *given]), [Code(question)], tone)


def _said(error: FormError) -> str:
    """Say what the fields do not: how many of them have a problem, and what is wrong with the whole answer."""
    count = len(error.problems.keys() - {""})
    fields = f"{count} fields need another look." if count > 1 else "One field needs another look." if count else ""
    return " ".join(filter(None, [fields, error.problems.get("", "")]))


def _beginning(text: str) -> str:
    line = " ".join(text[:_LONGEST_CHANGE].split())
    return line if len(text) < _LONGEST_CHANGE else f"{line}…"


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M")


def _typed(question: str, read: Callable[[], AnswerT]) -> AnswerT | None:
    """Show a question and read the typed answer; return None if nobody can type, or the answer does not fit."""
    sys.stdout.write(f"{question}\n")
    try:
        return read()
    except (EOFError, NotImplementedError):  # of IPython's, StdinNotImplementedError
        why = "there is nobody to ask"
    except (ValueError, InterruptsNotCoveredError) as error:
        why = sentence(str(error))
    sys.stdout.write(f"left without an answer: {why}\n")
    return None


def _typed_decision() -> Approve | Deny:
    if _is_yes("Allow it? [y/N] "):
        return Approve()
    return Deny(input("Why not? ").strip() or Deny().reason)


def _typed_answer(interrupt: Interrupt, form: AnswerForm | None, choices: Sequence[QuestionButton]) -> Answer | None:
    if not choices:
        return Cancel() if _is_yes("Let the agent go on without an answer? [y/N] ") else None
    if form is None:
        answer: Answer = _typed_decision()
    else:
        typed = {field.name: input(f"{sentence(field.label)}: ") for field in form.leaves}
        answer = Resolve(form.read(typed))
    cover([interrupt], {interrupt.id: answer})
    return answer


def _is_yes(question: str) -> bool:
    return input(question).strip().lower() in {"y", "yes"}


def _check_clicks_arrive() -> None:
    """Refuse to ask while the kernel's thread waits for the answer: no click could ever reach it."""
    if SYNC_CALLER.get() is threading.main_thread():
        raise CannotWaitError(
            "a click cannot reach a cell that is blocked by run_agent_sync() or stream_sync(); write "
            "`await agent.run_agent(...)` or `async with agent.stream(...)`, or give widgets=False, which uses "
            "input(); this call waits in agent.pending_tool_calls, or the question in agent.pending_interrupts: go on "
            "with `await agent.run_agent(tool_results={id: Approve()})` or `resume={id: ...}`"
        )


def _clicks_arrive() -> bool:
    """Return whether there are widgets, in a kernel that delivers clicks while a cell waits."""
    try:
        major, minor = map(int, version("ipykernel").split(".")[:2])
        return has_widgets() and (major, minor) >= (7, 4)
    except PackageNotFoundError:
        return False
