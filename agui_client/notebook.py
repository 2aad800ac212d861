"""People at a notebook, ready-made: `approve=NotebookApprover()`, `answer=NotebookAnswerer()` (extra `notebook`).

Buttons and fields below the cell, while the kernel's loop goes on: runs are awaited, `await agent.run_agent(...)`. From
ipykernel 7.4 on a click reaches a cell that is still waiting. Before that, and without ipywidgets, questions are asked
with `input()`, which stops the loop meanwhile. Where nobody can type, a call is denied and an interrupt left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

from agui_client._answers.form import AnswerForm, decision_form, read_arguments
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.sight import json_text, sentence
from agui_client._widgets import Panel, area, field_input, widget
from agui_client.errors import InterruptsNotCoveredError
from agui_client.interrupts import Answer, Cancel, Resolve, cover, is_expired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ag_ui.core import Interrupt

    from agui_client._tools.approval import ApprovalRequest

__all__ = ["NotebookAnswerer", "NotebookApprover"]

AnswerT = TypeVar("AnswerT")

_NOBODY = "There was nobody to ask, so this tool call was not carried out."
_EXPIRED = "It has expired, and cannot be answered."


class NotebookApprover:
    """Asks whoever sits at the notebook to approve tool calls; the arguments may be changed, a no may have a reason.

    Args:
        widgets: Whether to ask with widgets instead of `input()`; if left out, with widgets where clicks arrive. True
            for a run that no cell waits for, such as `asyncio.create_task(agent.run_agent(...))`.
    """

    def __init__(self, *, widgets: bool | None = None) -> None:
        self._uses_widgets = _clicks_arrive() if widgets is None else widgets

    async def __call__(self, request: ApprovalRequest) -> Approve | Deny:
        """Ask about one call.

        Args:
            request: The call.

        Returns:
            The decision.
        """
        asked = f"The agent wants to call {request.name}. {request.tool.description}"
        if not self._uses_widgets:
            return _typed(f"{sentence(asked)}\n{json_text(request.arguments)}", _typed_decision) or Deny(_NOBODY)
        arguments = area(json_text(request.arguments), is_shown=False)
        reason = widget("Text", placeholder="why not, if you deny it")
        async with Panel(asked, [arguments, reason], ["Approve", "Deny"]) as panel:
            while await panel.pressed() == "Approve":
                try:
                    edited = read_arguments(arguments.value, request.tool.parameters)
                    return Approve(None if edited == request.arguments else edited)
                except ValueError as error:
                    panel.say(str(error))
        return Deny(reason.value.strip() or Deny().reason)


class NotebookAnswerer:
    """Asks whoever sits at the notebook what a run was interrupted for.

    Args:
        widgets: As for `NotebookApprover`.
    """

    def __init__(self, *, widgets: bool | None = None) -> None:
        self._uses_widgets = _clicks_arrive() if widgets is None else widgets

    async def __call__(self, interrupt: Interrupt) -> Answer | None:
        """Ask one question.

        Args:
            interrupt: What the agent asks.

        Returns:
            The answer; None leaves it to the caller.
        """
        details = f"\n{json_text(interrupt.metadata)}" if interrupt.metadata else ""
        asked = f"{sentence(interrupt.message or interrupt.reason)}{details}"
        if is_expired(interrupt, datetime.now(UTC)):
            asked, form, choices = f"{asked}\n{_EXPIRED}", None, list[str]()
        elif decision_form(interrupt) is not None:
            form, choices = None, ["Approve", "Deny"]
        else:
            form, choices = AnswerForm(interrupt.response_schema or {"type": "string"}), ["Answer"]
        if not self._uses_widgets:
            return _typed(asked, lambda: _typed_answer(interrupt, form, choices))
        inputs = {field.name: field_input(field) for field in (form.fields if form is not None else ())}
        async with Panel(asked, list(inputs.values()), [*choices, "Go on without"]) as panel:
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
    decisions: Mapping[str, Answer] = {"Approve": Approve(), "Deny": Deny()}
    return decisions.get(choice, Cancel())


def _typed(asked: str, read: Callable[[], AnswerT]) -> AnswerT | None:
    """Show what is asked, and read what is typed; None if nobody can type, or it will not do."""
    sys.stdout.write(f"{asked}\n")
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


def _clicks_arrive() -> bool:
    """Whether there are widgets, in a kernel that hears them while a cell waits."""
    try:
        major, minor = map(int, version("ipykernel").split(".")[:2])
        return bool(version("ipywidgets")) and (major, minor) >= (7, 4)
    except PackageNotFoundError:
        return False
