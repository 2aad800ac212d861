"""Approval and answers in a notebook: `approve=NotebookApprover()`, `answer=NotebookAnswerer()` (extra `notebook`).

Questions are buttons and fields below the cell, and runs are awaited: `await agent.run_agent(...)`. Since ipykernel 7.4
a click reaches a cell that is still waiting. Before that, and without ipywidgets, questions use `input()`, which blocks
the event loop meanwhile. Where nobody can type, a call is denied and an interrupt stays pending.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

from agui_client._interrupts.answers import Answer, Cancel, Resolve, cover, is_expired
from agui_client._protocol.patch import is_same_json
from agui_client._run.async_run import SYNC_CALLER
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.people import AtScreen
from agui_client._widgets.escaping import json_text, sentence
from agui_client._widgets.forms import AnswerForm, decision_form, read_arguments
from agui_client._widgets.panel import Panel, area, field_input, labelled, widget
from agui_client.errors import CannotWaitError, InterruptsNotCoveredError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ag_ui.core import Interrupt

    from agui_client._tools.approval import ApprovalRequest

__all__ = ["NotebookAnswerer", "NotebookApprover"]

AnswerT = TypeVar("AnswerT")

_NOBODY = "There was nobody to ask, so this tool call was not carried out."
_ALWAYS = "Always in this thread"
_EXPIRED = "It has expired, and cannot be answered."


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
            return _typed(f"{sentence(question)}\n{json_text(request.arguments)}", _typed_decision) or Deny(_NOBODY)
        arguments = area(json_text(request.arguments), is_shown=False, **labelled("Arguments (JSON)"))
        reason = widget("Text", **labelled("Why not, if you deny it"))
        _check_clicks_arrive()
        async with Panel(question, [arguments, reason], ["Approve", _ALWAYS, "Deny"]) as panel:
            while (choice := await panel.pressed()) != "Deny":
                try:
                    edited = read_arguments(arguments.value, request.tool.parameters)
                    is_edited = not is_same_json(edited, request.arguments)
                    return Approve(edited if is_edited else None, always=choice == _ALWAYS)
                except ValueError as error:
                    panel.say(str(error))
        return Deny(reason.value.strip() or Deny().reason)


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
            question, form, choices = f"{question}\n{_EXPIRED}", None, list[str]()
        elif (decision := decision_form(interrupt)) is not None:
            form, choices = None, ["Approve", *([_ALWAYS] if decision.can_last else ()), "Deny"]
        else:
            form, choices = AnswerForm(interrupt.response_schema or {"type": "string"}), ["Answer"]
        if not self._uses_widgets:
            return _typed(question, lambda: _typed_answer(interrupt, form, choices))
        inputs = {field.name: field_input(field) for field in (form.fields if form is not None else ())}
        _check_clicks_arrive()
        async with Panel(question, list(inputs.values()), [*choices, "Go on without"]) as panel:
            while True:
                try:
                    answer = _pressed_answer(await panel.pressed(), form, inputs)
                    cover([interrupt], {interrupt.id: answer})
                    return answer
                except (ValueError, InterruptsNotCoveredError) as error:
                    panel.say(str(error))


def _pressed_answer(choice: str, form: AnswerForm | None, inputs: Mapping[str, Any]) -> Answer:
    if form is not None and choice == "Answer":
        return Resolve(form.payload(form.read({name: each.value for name, each in inputs.items()})))
    decisions: Mapping[str, Answer] = {"Approve": Approve(), _ALWAYS: Approve(always=True), "Deny": Deny()}
    return decisions.get(choice, Cancel())


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


def _typed_answer(interrupt: Interrupt, form: AnswerForm | None, choices: Sequence[str]) -> Answer | None:
    if not choices:
        return Cancel() if _is_yes("Let the agent go on without an answer? [y/N] ") else None
    if form is None:
        answer: Answer = _typed_decision()
    else:
        typed = {field.name: input(f"{sentence(field.label)}: ") for field in form.fields}
        answer = Resolve(form.payload(form.read(typed)))
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
    """Whether there are widgets, in a kernel that delivers clicks while a cell waits."""
    try:
        major, minor = map(int, version("ipykernel").split(".")[:2])
        return bool(version("ipywidgets")) and (major, minor) >= (7, 4)
    except PackageNotFoundError:
        return False
