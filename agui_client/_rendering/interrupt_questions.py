"""The question of an interrupt for a page, and the answer that was pressed there (INT-7, TOOL-8).

A call that waits for approval is shown with its arguments in the fields of the tool's schema, so that the person sees
and changes values, and no JSON; only what was changed is sent as changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.decisions import EDITED
from agui_client._core.tools.interrupts import Answer, Cancel, Resolve, is_expired
from agui_client._rendering.call_fields import CallFields
from agui_client._rendering.escaping import json_text, sentence
from agui_client._rendering.form_controls import Drawing, Field, QuestionButton
from agui_client._rendering.forms import AnswerForm, decision_form

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

APPROVE, ALWAYS = QuestionButton("Approve", "good"), QuestionButton("Always in this thread", "quiet")
DENY = QuestionButton("Deny", "bad", is_refusal=True)
ANSWER, CONTINUE = QuestionButton("Answer", "good"), QuestionButton("Continue without", is_refusal=True)
_REASON = "reason"
"""The name of the field for a reason; those of arguments are JSON pointers."""


class InterruptQuestion:
    """The question of an interrupt: its text, its fields and its buttons.

    Args:
        arguments: The arguments of the call that it is about, as the agent wrote them; None if they are not known, and
            so cannot be edited.
    """

    def __init__(self, interrupt: Interrupt, arguments: str | None = None) -> None:
        details = f"\n{json_text(interrupt.metadata)}" if interrupt.metadata else ""
        self.text: str = f"{sentence(interrupt.message or interrupt.reason)}{details}"
        """The text of the question."""
        self.drawn: dict[str, Any] = {"fields": [], "templates": {}}
        """The fields, as the page draws them."""
        self.buttons: Sequence[QuestionButton] = [CONTINUE]
        """The buttons."""
        self.form: AnswerForm | None = None
        """The form of the answer; None for a decision, and for a question that has expired."""
        self._call: CallFields | None = None
        if is_expired(interrupt):
            self.text += "\nIt has expired, and cannot be answered."
        elif (decision := decision_form(interrupt)) is None:
            self.form = AnswerForm(interrupt.response_schema or {"type": "string"})
            self.drawn = Drawing(self.form).as_json()
            self.buttons = [ANSWER, CONTINUE]
        else:
            if decision.can_edit and (call := _call_fields(interrupt, arguments)) is not None:
                self._call = call
                self.drawn = {**call.drawn}
            if decision.can_explain:
                reason = Field(_REASON, "Why not, if you deny it", enters=DENY.name)
                self.drawn["fields"] = [*self.drawn["fields"], asdict(reason)]
            self.buttons = [APPROVE, DENY, *([ALWAYS] if decision.can_last else ())]

    def answer(self, pressed: str, values: Mapping[str, str]) -> Answer:
        """Return the answer that a button stands for, with what stands in the fields.

        Args:
            pressed: The name of the button.
            values: The texts in the fields, by their names.

        Raises:
            FormError: What stands in the fields is not an answer.
        """
        if pressed == DENY.name:
            return Deny(values.get(_REASON, "").strip() or Deny().reason)
        if pressed in (APPROVE.name, ALWAYS.name):
            changed = None if self._call is None else self._call.changed(values)
            return Approve(changed, always=pressed == ALWAYS.name)
        if pressed == ANSWER.name and self.form is not None:
            return Resolve(self.form.read(values))
        return Cancel()


def _call_fields(interrupt: Interrupt, arguments: str | None) -> CallFields | None:
    """Make the fields of the arguments of a call; None for a call whose arguments are not an object."""
    properties = (interrupt.response_schema or {}).get("properties", {})
    schema = next((properties[word] for word in EDITED if word in properties), None)
    values = _object(arguments)
    return CallFields(schema, values) if values is not None and is_object(schema) else None


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value: Any = from_json("null" if text is None else text or "{}")
    except ValueError:
        return None
    return value if is_object(value) else None
