"""The question of an interrupt for a page, and the answer that was pressed there (INT-7, TOOL-8).

A call that waits for approval is shown with its arguments in the fields of the tool's schema, so that the person sees
and changes values, and no JSON; only what was changed is sent as changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.decisions import EDITED
from agui_client._core.tools.interrupts import Answer, Cancel, Resolve, is_expired
from agui_client._rendering.escaping import json_text, sentence
from agui_client._rendering.form_controls import Field, QuestionButton, form_field
from agui_client._rendering.forms import AnswerForm, FormError, decision_form

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

EXPIRED = "It has expired, and cannot be answered."
APPROVE, ALWAYS = QuestionButton("Approve", "good"), QuestionButton("Always in this thread")
DENY = QuestionButton("Deny", "bad", is_refusal=True)
ANSWER, GO_ON = QuestionButton("Answer", "good"), QuestionButton("Go on without", is_refusal=True)
_REASON = "reason"
"""The name of the field for a reason; those of arguments are JSON pointers."""


class InterruptQuestion:
    """The question of an interrupt: its text, its fields and its buttons.

    Args:
        interrupt: The interrupt.
        arguments: The arguments of the call that it is about, as the agent wrote them; None if it is about none.
    """

    def __init__(self, interrupt: Interrupt, arguments: str | None = None) -> None:
        details = f"\n{json_text(interrupt.metadata)}" if interrupt.metadata else ""
        self.text: str = f"{sentence(interrupt.message or interrupt.reason)}{details}"
        """The text of the question."""
        self.fields: Sequence[Field] = ()
        """The fields."""
        self.buttons: Sequence[QuestionButton] = [GO_ON]
        """The buttons."""
        self._form: AnswerForm | None = None
        self._arguments: dict[str, Any] | None = None
        if is_expired(interrupt):
            self.text += f"\n{EXPIRED}"
        elif (decision := decision_form(interrupt)) is None:
            self._form = AnswerForm(interrupt.response_schema or {"type": "string"})
            self.fields = [form_field(each) for each in self._form.fields]
            self.buttons = [ANSWER, GO_ON]
        else:
            self.fields = self._argument_fields(interrupt, arguments) if decision.can_edit else []
            if decision.can_explain:
                self.fields = [*self.fields, Field(_REASON, "Why not, if you deny it", enters=DENY.name)]
            self.buttons = [APPROVE, *([ALWAYS] if decision.can_last else ()), DENY]

    def _argument_fields(self, interrupt: Interrupt, arguments: str | None) -> list[Field]:
        """Return fields with the arguments of a call; none for a call whose arguments are no object."""
        properties = (interrupt.response_schema or {}).get("properties", {})
        schema = next((properties[word] for word in EDITED if word in properties), None)
        values = _object(arguments)
        if values is None or not is_object(schema):
            return []
        self._arguments = values
        self._form = AnswerForm({**schema, "default": values})
        return [form_field(each) for each in self._form.fields]

    def answer(self, pressed: str, values: Mapping[str, str]) -> Answer:
        """Return the answer that a button stands for, with what stands in the fields.

        Args:
            pressed: The name of the button.
            values: The texts in the fields, by their names.

        Raises:
            FormError: What stands in the fields is no answer.
        """
        if pressed == DENY.name:
            return Deny(values.get(_REASON, "").strip() or Deny().reason)
        if pressed in (APPROVE.name, ALWAYS.name):
            return Approve(self._edited(values), always=pressed == ALWAYS.name)
        if pressed == ANSWER.name and self._form is not None:
            return Resolve(self._form.read(values))
        return Cancel()

    def _edited(self, values: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the arguments that were changed; None if they are as the agent wrote them."""
        if self._form is None or self._arguments is None:
            return None
        # An empty text and a left out one look the same in a field, and nobody has changed either.
        if all(values.get(each.name, "") == each.value for each in _leaves(self.fields)):
            return None
        typed: dict[str, Any] = self._form.read(values)
        # A member that no field stands for is the agent's as it was.
        edited = {**{name: each for name, each in self._arguments.items() if name not in self._named}, **typed}
        return None if is_same_json(edited, self._arguments) else edited

    @property
    def _named(self) -> set[str]:
        """The names of the arguments that have a field."""
        assert self._form is not None
        return {each.path[0] for each in self._form.fields if each.path}


def said(error: FormError) -> str:
    """Say what the fields do not: how many of them have a problem, and what is wrong with the whole answer."""
    count = len(error.problems.keys() - {""})
    fields = f"{count} fields need another look." if count > 1 else "One field needs another look." if count else ""
    return " ".join(filter(None, [fields, error.problems.get("", "")]))


def _leaves(fields: Sequence[Field]) -> list[Field]:
    """Return the fields, and in place of a group those in it."""
    return [leaf for each in fields for leaf in (_leaves(each.fields) if each.control == "group" else [each])]


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value: Any = from_json(text or "{}")
    except ValueError:
        return None
    return value if is_object(value) else None
