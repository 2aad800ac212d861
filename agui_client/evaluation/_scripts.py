"""Scripts in action: scripted tools as functions, and policies as the handlers `approve=` and `answer=`.

Each conversation makes its own, so that it begins at the first result and the first decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.context import BoundCall
from agui_client._core.tools.function import FunctionTool
from agui_client._core.tools.interrupts import Cancel, Resolve
from agui_client._core.tools.toolset import Toolset, chooses_tools, tool_list
from agui_client.errors import ToolError
from agui_client.evaluation._scenarios import REST

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, RunAgentInput

    from agui_client._core.tools.approval import ApprovalRequest, Approver
    from agui_client._core.tools.interrupts import Answer, Answerer
    from agui_client._core.tools.toolset import ToolSource
    from agui_client.evaluation._scenarios import AnswerPolicy, ApprovePolicy, ScriptedTool

T = TypeVar("T")
_ANY_ARGUMENTS = {"type": "object"}


def scripted_tools(own: ToolSource, scripts: Sequence[FunctionTool[..., Any] | ScriptedTool]) -> ToolSource:
    """Return the tools of an agent, with those of a scenario in the place of its own of the same names.

    Args:
        own: The agent's tools.
        scripts: The scenario's tools.
    """
    made = [each if isinstance(each, FunctionTool) else _scripted(each) for each in scripts]
    names = {each.name for each in made}

    def merged(listed: object) -> list[Any]:
        """Put the scenario's tools before those that they do not replace."""
        return [*made, *(each for each in tool_list(listed) if getattr(each, "name", None) not in names)]

    if not made:
        return own
    if chooses_tools(own):
        choose: Callable[[RunAgentInput], object] = own  # type: ignore[assignment]
        return lambda input: merged(choose(input))
    return merged([own] if isinstance(own, Toolset) else own)


def _scripted(script: ScriptedTool) -> FunctionTool[..., Any]:
    following = _InOrder(script["results"])

    async def call(**arguments: Any) -> Any:
        """Return the next result."""
        result = following.next()
        if is_object(result) and list(result) == ["error"]:
            raise ToolError(str(result["error"]))
        return result

    kind: type[FunctionTool[..., Any]] = _UncheckedTool if script.get("unchecked") else FunctionTool
    return kind(
        call,
        name=script["name"],
        parameters=script.get("parameters", _ANY_ARGUMENTS),
        description=script.get("description", ""),
        approval=script.get("approval", "never"),
    )


class _UncheckedTool(FunctionTool[..., Any]):
    """A tool that gives its recorded result, whatever the arguments: their check has its result there, too."""

    def bind(self, arguments: str | Mapping[str, Any], tool_call_id: str = "") -> BoundCall:
        """Take the arguments if they fit, and none if they do not."""
        try:
            return super().bind(arguments, tool_call_id)
        except ToolError:
            return BoundCall(tool_call_id, self.name, {}, {})


class _InOrder:
    """Values in their order; the last one stands for all further times.

    Args:
        values: The values, at least one.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values, self._taken = values, 0

    def next(self) -> Any:
        """Return the next value."""
        value = self._values[min(self._taken, len(self._values) - 1)]
        self._taken += 1
        return value


class _Decisions:
    """The decisions of a policy.

    Args:
        policy: A decision for everything, or decisions by name.
    """

    def __init__(self, policy: Any) -> None:
        by_name: Mapping[str, Any] = policy if is_object(policy) else {REST: policy}
        self._by_name = {name: _InOrder(each if is_array(each) else [each]) for name, each in by_name.items()}

    def about(self, names: Sequence[str], message: str = "") -> Any:
        """Return the decision about something; None if the policy has none.

        Args:
            names: Its names, the most exact first.
            message: The question, words of which may stand for a name; "*" is none of them.
        """
        found = [each for each in names if each in self._by_name]
        found += [each for each in self._by_name if each != REST and each.casefold() in message.casefold()]
        name = next(iter(found), REST)
        return self._by_name[name].next() if name in self._by_name else None


def approver_of(policy: ApprovePolicy | None) -> Approver | None:
    """Return the handler that approves by a policy; None without one."""
    if policy is None or not isinstance(policy, str | Mapping):
        return policy
    decisions = _Decisions(policy)

    async def approve(request: ApprovalRequest) -> Approve | Deny:
        """Decide about a tool call; nothing that is not named is approved."""
        given = _answer(decisions.about([request.name]))
        return given if isinstance(given, Approve | Deny) else Deny()

    return approve


def answerer_of(
    policy: AnswerPolicy | None, tool_of: Callable[[Interrupt], str | None] = lambda interrupt: None
) -> Answerer | None:
    """Return the handler that answers interrupts by a policy; None without one.

    Args:
        tool_of: Returns the name of the tool that an interrupt is about; None if it is about none.
    """
    if policy is None or not isinstance(policy, str | Mapping):
        return policy
    decisions = _Decisions(policy)

    async def answer(interrupt: Interrupt) -> Answer | None:
        """Answer a question."""
        names = [interrupt.id, *filter(None, [tool_of(interrupt)]), interrupt.reason]
        return _answer(decisions.about(names, interrupt.message or ""))

    return answer


def _answer(decision: Any) -> Answer | None:
    match decision:
        case "allow":
            return Approve()
        case "deny":
            return Deny()
        case "cancel":
            return Cancel()
        case {"deny": reason}:
            return Deny(reason)
        case {"edit": arguments}:
            return Approve(arguments)
        case {"value": value}:
            return Resolve(value)
        case _:
            return None
