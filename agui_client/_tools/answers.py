"""What is sent for an answer: decisions in the words of the interrupt's `responseSchema`, models as JSON (INT-7).

The agent wrote the schema, so judging by it fetches nothing, and a schema that cannot be judged by refuses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import PydanticSerializationError

from agui_client._pipeline.schema import is_array, is_object
from agui_client._tools.approval import DENIED, Approve, Deny
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

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
        InterruptsNotCoveredError: The model holds what JSON cannot.
    """
    if isinstance(payload, type) or not (isinstance(payload, BaseModel) or is_dataclass(payload)):
        return payload
    try:
        dump = TypeAdapter[Any](type(payload)).dump_python
        full = dump(payload, mode="json", by_alias=True)
        return _without_absent(full, dump(payload, mode="json", by_alias=True, exclude_defaults=True))
    except (PydanticUserError, PydanticUndefinedAnnotation, PydanticSerializationError) as error:
        kind = type(payload).__name__
        raise InterruptsNotCoveredError(
            f"nothing was sent: the answer to {interrupt_id!r} is a {kind} that JSON cannot hold: {error}"
        ) from error


def schema_errors(schema: dict[str, Any], payload: Any) -> list[str]:
    """What an answer's schema has against it.

    Args:
        schema: The interrupt's `responseSchema`.
        payload: The answer as JSON.

    Returns:
        One sentence per problem; none for a schema that is none, or that points elsewhere.
    """
    # Loaded when an interrupt carries a schema: few do, and the import is not small.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    try:
        validator_class = validator_for({"$schema": schema.get("$schema", "")}, default=Draft202012Validator)
        validator_class.check_schema(schema)
        # The agent must not make this machine fetch anything: the registry is empty.
        found = list(validator_class(schema, registry=Registry()).iter_errors(payload))
    except Exception:
        # Besides the library's own errors: endless references (RecursionError), an `$id` that is no URI or no string.
        return []
    return [f"does not fit its responseSchema at {error.json_path}: {error.message}" for error in found]


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
