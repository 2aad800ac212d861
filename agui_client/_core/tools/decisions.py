"""Decisions about interrupts, Approve and Deny, written in the words that the agent reads (INT-7).

These are the words of the interrupt's `responseSchema`, or those of LangChain's human-in-the-loop middleware: its
interrupts with `action_requests` are answered by one decision for each of them, and those with the type `tool_approval`
by a decision alone. Callers of a team answer these in AG-UI's words, as the agents of its members may be of anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.custom_interrupts import described
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.approval import DENIED, Approve, Deny
from agui_client._core.tools.json_schema import schema_problems
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, ResumeEntry

# The first of each is what AG-UI's page on interrupts recommends and servers such as pydantic-ai's read; it has no
# word for a reason. The others are in use too: Microsoft's agent framework also takes "accepted".
APPROVED = ("approved", "accepted")
EDITED = ("editedArgs", "edited_args")
REASON = ("reason", "message")
ALWAYS = ("always",)
"""Nothing outside this package: served agents that store the thread offer it."""

_VERDICTS = {"approve": True, "edit": True, "reject": False}
"""The decisions in LangChain's words."""
_BY_HAND = "write the payload yourself: Resolve(...)"


def refusal(interrupt_id: str, problem: str) -> InterruptsNotCoveredError:
    """Return the error about an answer that cannot be sent."""
    return InterruptsNotCoveredError(f"the answer to {interrupt_id!r} {problem}")


def decision_payload(interrupt: Interrupt, decision: Approve | Deny) -> Any:
    """Write a decision as the payload of a resume entry.

    Returns:
        An object such as `{"approved": True, "editedArgs": {...}}`, or a boolean where the schema wants one. Of the
        ways to write it the fullest that fits the schema, so that a reason is left out where it has no place; the
        arguments of an approval never are.

    Raises:
        InterruptsNotCoveredError: The schema names its properties, and has none for this decision; or it names none for
            edited arguments, so that nothing says that the agent reads them.
    """
    if (payload := reviewed(interrupt, decision)) is not None:
        if isinstance(decision, Approve) and decision.always:
            raise refusal(interrupt.id, f"can only be about these actions, and not about later ones; {_BY_HAND}")
        return payload
    forms, schema = _decision_forms(interrupt, decision), interrupt.response_schema
    if schema is None:
        # The page's default for a free-standing yes or no is a boolean. The last form is it, if one is enough.
        return forms[-1] if interrupt.reason == "confirmation" else forms[0]
    return next((form for form in forms if not schema_problems(schema, form)), forms[0])


def decision_in(entry: ResumeEntry) -> Approve | Deny:
    """Read the decision in an answer; only the literal `{"approved": true}` approves.

    Raises:
        UsageError: The edited arguments are not an object.
    """
    given: dict[str, Any] = entry.payload if is_object(entry.payload) else {}
    if entry.status == "resolved" and given.get("approved") is True:
        return Approve(given.get("editedArgs"), always=given.get("always") is True)
    reason = given.get("reason")
    return Deny(reason) if isinstance(reason, str) and reason else Deny()


def for_any_caller(interrupt: Interrupt) -> Interrupt:
    """Return an interrupt with a message and a schema, if it is one of LangChain's without: `in_agents_words` reads it.

    Its own words fit the schema, too: several actions can be decided about in these alone.
    """
    if interrupt.response_schema is not None or (review := _review(interrupt)) is None:
        return interrupt
    raw, actions = review
    properties = decision_schemas({"type": "object"} if len(actions) == 1 else None)
    ways = [{"required": ["approved"]}, {"required": ["type" if actions[0] is raw else "decisions"]}]
    schema = {"type": "object", "properties": properties, "anyOf": ways}
    return interrupt.model_copy(update={"message": interrupt.message or described(raw), "response_schema": schema})


def decision_schemas(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schemas of the members of a decision about a tool call.

    Args:
        parameters: The schema of the tool's arguments; None if they cannot be edited.
    """
    edited = {} if parameters is None else {"editedArgs": {"description": "Arguments to use instead.", **parameters}}
    return {
        "approved": {"type": "boolean", "description": "Whether the tool may run."},
        **edited,
        "reason": {"type": "string", "description": "The reason of a refusal, for the agent."},
    }


def in_agents_words(interrupt: Interrupt, entry: ResumeEntry) -> ResumeEntry:
    """Return an answer with its decision in the words of LangChain, if its interrupt is one of LangChain's.

    Raises:
        InterruptsNotCoveredError: The decision is not allowed, or edits several actions at once.
        UsageError: The edited arguments are not an object.
    """
    is_decision = is_object(entry.payload) and "approved" in entry.payload
    if entry.status == "resolved" and not is_decision:
        return entry
    payload = reviewed(interrupt, decision_in(entry))
    return entry if payload is None else entry.model_copy(update={"status": "resolved", "payload": payload})


def shown_decision(entry: ResumeEntry) -> Approve | Deny | None:
    """Return the decision that an answer is for those who look at it, in any of these words; None if it is none."""
    given = entry.payload
    if is_object(given) and is_array(decisions := given.get("decisions")):
        given = decisions[0] if len(decisions) == 1 else None
    if isinstance(given, bool):
        return Approve() if given else Deny()
    if entry.status == "cancelled" or not is_object(given):
        return None
    verdict = next((given[word] for word in APPROVED if word in given), _VERDICTS.get(str(given.get("type"))))
    if not isinstance(verdict, bool):
        return None
    action = given.get("edited_action")
    edited = action.get("args") if is_object(action) else next((given[word] for word in EDITED if word in given), None)
    return Deny() if not verdict else Approve(edited if is_object(edited) else None)


def _decision_forms(interrupt: Interrupt, decision: Approve | Deny) -> list[Any]:
    """List the ways to write a decision, the fullest first."""
    properties = (interrupt.response_schema or {}).get("properties")
    named: Mapping[str, Any] = properties if is_object(properties) else {}
    approved, edited, reason = (
        next((word for word in words if word in named), None) for words in (APPROVED, EDITED, REASON)
    )
    if named and approved is None:
        raise _no_place(interrupt, "a decision", APPROVED)
    approved = approved or APPROVED[0]
    if isinstance(decision, Deny):
        brief, explained = {approved: False}, {approved: False, reason or REASON[0]: decision.reason}
        # Without a reason of the caller's the agent's own words serve, unless the schema requires one.
        return [brief, explained, False] if decision.reason == DENIED else [explained, brief, False]
    if decision.always and ALWAYS[0] not in named:
        raise _no_place(interrupt, "an approval of later calls", ALWAYS)
    later = {ALWAYS[0]: True} if decision.always else {}
    if decision.arguments is None:
        return [{approved: True, **later}, *(() if later else (True,))]
    # Servers that do not read edits carry out the call as it was: so the schema has to say that they are read.
    if edited is None:
        raise _no_place(interrupt, "edited arguments", EDITED)
    return [{approved: True, edited: dict(decision.arguments), **later}]


def _no_place(interrupt: Interrupt, what: str, spellings: Sequence[str]) -> InterruptsNotCoveredError:
    why = f"has no place for {what}: the responseSchema names no {' or '.join(spellings)}"
    return refusal(interrupt.id, f"{why}; {_BY_HAND}")


def reviewed(interrupt: Interrupt, decision: Approve | Deny) -> dict[str, Any] | None:
    """Write a decision about all actions of an interrupt in LangChain's words; None for any other interrupt.

    There is no answer that abandons such an interrupt: to cancel is to reject.

    Raises:
        InterruptsNotCoveredError: The decision is not allowed, or edits several actions at once.
    """
    if (review := _review(interrupt)) is None:
        return None
    raw, actions = review
    decisions = [_in_langchains_words(decision, each) for each in actions]
    if actions[0] is raw:
        return decisions[0]
    configs = raw.get("review_configs")
    names, kind = {str(each.get("name")) for each in actions}, decisions[0]["type"]
    if kind == "edit" and len(actions) > 1:
        problem = "is about several actions, so arguments for one of them cannot be given like this"
        raise refusal(interrupt.id, f"{problem}; {_BY_HAND}")
    for config in configs if is_array(configs) else ():
        is_asked = is_object(config) and str(config.get("action_name")) in names
        kinds = config.get("allowed_decisions") if is_asked else None
        if is_array(kinds) and kind not in kinds:
            only = ", ".join(map(str, kinds))
            raise refusal(interrupt.id, f"cannot be to {kind}: only {only} is allowed; {_BY_HAND}")
    return {"decisions": decisions}


def _review(interrupt: Interrupt) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return what LangChain asks and the actions that it asks about; None for any other interrupt."""
    native = (interrupt.metadata or {}).get("langgraph")
    raw = native.get("raw") if is_object(native) else None
    if not is_object(raw):
        return None
    if raw.get("type") == "tool_approval" and "args" in raw:
        return raw, [raw]
    actions: Any = raw.get("action_requests")
    return (raw, actions) if is_array(actions) and actions and all(map(is_object, actions)) else None


def _in_langchains_words(decision: Approve | Deny, action: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(decision, Deny):
        return {"type": "reject"} if decision.reason == DENIED else {"type": "reject", "message": decision.reason}
    if decision.arguments is None:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": action.get("name"), "args": dict(decision.arguments)}}
