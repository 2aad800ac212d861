"""LangChain's human-in-the-loop middleware: its interrupts want decisions of its own words (INT-7).

An interrupt with `action_requests` is answered by one decision for each of them, one with the type `tool_approval` by a
decision alone. There is no answer that abandons such an interrupt: to cancel is to reject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agui_client._protocol.schema import is_array, is_object
from agui_client._tools.approval import DENIED, Approve, Deny

if TYPE_CHECKING:
    from ag_ui.core import Interrupt


@dataclass(frozen=True, slots=True)
class Review:
    """The actions that an interrupt asks about."""

    actions: list[Mapping[str, Any]]
    """Each with the name and the arguments of a tool call."""
    allowed: Mapping[str, list[Any]]
    """The kinds of decisions, by the name of the tool; all of them for a tool that is not listed."""
    is_single: bool
    """Whether the answer is the decision itself, instead of a list of them."""

    def answer(self, decision: Approve | Deny) -> Any:
        """Write a decision about all actions in LangChain's words.

        Raises:
            ValueError: The decision is not allowed, or edits several actions at once.
        """
        decisions = [self._decision(action, decision) for action in self.actions]
        return decisions[0] if self.is_single else {"decisions": decisions}

    def _decision(self, action: Mapping[str, Any], decision: Approve | Deny) -> dict[str, Any]:
        name = action.get("name")
        if isinstance(decision, Deny):
            written: dict[str, Any] = {"type": "reject"}
            if decision.reason != DENIED:
                written["message"] = decision.reason
        elif decision.arguments is None:
            written = {"type": "approve"}
        elif len(self.actions) == 1:
            written = {"type": "edit", "edited_action": {"name": name, "args": dict(decision.arguments)}}
        else:
            raise ValueError("is about several actions, so arguments for one of them cannot be given like this")
        allowed = self.allowed.get(str(name))
        if allowed is not None and written["type"] not in allowed:
            raise ValueError(f"cannot be to {written['type']}: only {', '.join(map(str, allowed))} is allowed")
        return written


def review(interrupt: Interrupt) -> Review | None:
    """Read an interrupt of LangChain's human-in-the-loop middleware; None for any other interrupt."""
    native = (interrupt.metadata or {}).get("langgraph")
    raw = native.get("raw") if is_object(native) else None
    if not is_object(raw):
        return None
    if raw.get("type") == "tool_approval" and "args" in raw:
        return Review([raw], {}, is_single=True)
    requests, configs = raw.get("action_requests"), raw.get("review_configs")
    if not is_array(requests) or not requests or not all(map(is_object, requests)):
        return None
    allowed = {
        str(config.get("action_name")): config["allowed_decisions"]
        for config in (configs if is_array(configs) else ())
        if is_object(config) and is_array(config.get("allowed_decisions"))
    }
    return Review(list(requests), allowed, is_single=False)
