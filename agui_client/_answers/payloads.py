"""What is sent for an answer: decisions in the words of the interrupt's `responseSchema`, models as JSON (INT-7).

Whether an answer fits the schema is for `judging.py` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import to_json

from agui_client._answers.judging import schema_errors
from agui_client._pipeline.plain import members_as_json
from agui_client._pipeline.refusal import Refusal, summary
from agui_client._pipeline.schema import is_array, is_object
from agui_client._tools.approval import DENIED, Approve, Deny
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, ResumeEntry

# The first of each is what AG-UI's page on interrupts recommends and servers such as pydantic-ai's read; it has no
# word for a reason. The others are in use too: Microsoft's agent framework also takes "accepted".
APPROVED = ("approved", "accepted")
EDITED = ("editedArgs", "edited_args")
REASON = ("reason", "message")


def decision_payload(interrupt: Interrupt, decision: Approve | Deny) -> Any:
    """The payload that tells an agent of a decision.

    Args:
        interrupt: What was asked.
        decision: What a person decided.

    Returns:
        An object such as `{"approved": True, "editedArgs": {...}}`, or a boolean where that is what was asked for. Of
        the ways to say it the fullest that fits the schema, so that a reason is left out where it has no place; the
        arguments of an approval never are.

    Raises:
        InterruptsNotCoveredError: The schema names its properties, and has none for this decision.
    """
    forms = _forms(interrupt, decision)
    schema = interrupt.response_schema
    if schema is None:
        # The page's default for a free-standing yes or no is a boolean. The last form is it, if one is enough.
        return forms[-1] if interrupt.reason == "confirmation" else forms[0]
    return next((form for form in forms if not schema_errors(schema, form)), forms[0])


def json_payload(interrupt_id: str, payload: Any) -> Any:
    """A pydantic model or dataclass as JSON, by alias; anything else as it is.

    A None that is the field's default stands for a member that is absent: that is how an optional field of a model is
    left out.

    Args:
        interrupt_id: The interrupt it answers.
        payload: The answer.

    Returns:
        The payload to send.

    Raises:
        InterruptsNotCoveredError: The model cannot be written as JSON.
    """
    if isinstance(payload, type) or not (isinstance(payload, BaseModel) or is_dataclass(payload)):
        return payload
    try:
        dump = TypeAdapter[Any](type(payload)).dump_python
        full = dump(payload, mode="json", by_alias=True)
        return _without_absent(full, dump(payload, mode="json", by_alias=True, exclude_defaults=True))
    except (PydanticUserError, PydanticUndefinedAnnotation, ValueError, RecursionError) as error:
        kind = type(payload).__name__
        raise InterruptsNotCoveredError(
            f"nothing was sent: the answer to {interrupt_id!r} is a {kind} that JSON cannot hold: {error}"
        ) from error


def json_entry(entry: ResumeEntry) -> ResumeEntry:
    """An answer with the JSON that its payload stands for, so that this is what is held against a schema.

    Args:
        entry: The answer; its payload and metadata are the application's.

    Raises:
        InterruptsNotCoveredError: JSON cannot hold it.
    """
    refusals: list[Refusal] = []
    plain = members_as_json(entry, refusals)
    sent = entry.model_copy(update={"payload": plain.get("payload")})
    if refusals or not _is_writable(sent):
        why = summary(refusals) or "it is nested too deeply"
        raise InterruptsNotCoveredError(
            f"nothing was sent: the answer to {entry.interrupt_id!r} cannot be sent as JSON: {why}"
        )
    return sent


def _is_writable(entry: ResumeEntry) -> bool:
    """Whether it can be written where it is going to stand in a run input: pydantic writes 255 levels."""
    try:
        to_json({"resume": [entry]})
    except ValueError:
        return False
    return True


def _forms(interrupt: Interrupt, decision: Approve | Deny) -> list[Any]:
    """The ways to say a decision, the fullest first."""
    approved = _key(interrupt, APPROVED, "a decision")
    if isinstance(decision, Deny):
        brief = {approved: False}
        explained = {approved: False, _named(interrupt, REASON) or REASON[0]: decision.reason}
        # Without a reason of the caller's the agent's own words serve, unless it insists on being given one.
        return [brief, explained, False] if decision.reason == DENIED else [explained, brief, False]
    if decision.arguments is None:
        return [{approved: True}, True]
    return [{approved: True, _key(interrupt, EDITED, "edited arguments"): dict(decision.arguments)}]


def _key(interrupt: Interrupt, spellings: Sequence[str], what: str) -> str:
    if (key := _named(interrupt, spellings)) is not None:
        return key
    raise InterruptsNotCoveredError(
        f"nothing was sent: interrupt {interrupt.id!r} has no place for {what}: its responseSchema names no "
        f"{' or '.join(spellings)}; write the payload yourself: Resolve(...)"
    )


def _named(interrupt: Interrupt, spellings: Sequence[str]) -> str | None:
    """The spelling that the schema names; the first if it names no properties at all."""
    properties = (interrupt.response_schema or {}).get("properties")
    if not is_object(properties) or not properties:
        return spellings[0]
    return next((spelling for spelling in spellings if spelling in properties), None)


def _without_absent(full: Any, given: Any) -> Any:
    """A dumped model without those nulls that are also missing from its dump without defaults."""
    if is_object(full) and is_object(given):
        present = {key: value for key, value in full.items() if value is not None or key in given}
        return {key: _without_absent(value, given.get(key)) for key, value in present.items()}
    if is_array(full) and is_array(given):
        return [_without_absent(*pair) for pair in zip(full, given, strict=True)]
    return full
