"""What one call asks: everything that can be refused is refused here, before anything changes or is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import RunAgentInput
from pydantic import ValidationError

from agui_client._tools.approval import Approve
from agui_client._tools.function import FunctionTool
from agui_client._tools.offer import definition, offered
from agui_client.errors import ToolError, UsageError
from agui_client.messages import prompt_messages, tool_messages

if TYPE_CHECKING:
    from ag_ui.core import Message, ResumeEntry, Tool, ToolCall

    from agui_client._pipeline.reduce import Reducer
    from agui_client._pipeline.warnings import WarningLog
    from agui_client._tools.offer import ToolLike, ToolSource
    from agui_client.conversation import Conversation
    from agui_client.messages import Prompt
    from agui_client.options import RunOptions


class Asking:
    """A call, checked against the conversation.

    Args:
        conversation: What was said before.
        prompt: What is asked.
        options: The call's keywords.
        tools: The agent's tools, if the call names none.

    Raises:
        UsageError: It cannot be asked.
        InterruptsNotCoveredError: The answers do not cover the pending interrupts.
    """

    def __init__(self, conversation: Conversation, prompt: Prompt, options: RunOptions, tools: ToolSource) -> None:
        self._tools = options.get("tools", tools)
        self.offered: Mapping[str, ToolLike] = {}
        """The tools of the latest run, by name."""
        results = options.get("tool_results", {})
        entries = conversation.answers(options.get("resume"))
        self.unanswered = conversation.check_results(results)
        """The pending calls that stay without an answer."""
        approvals = {key: value for key, value in results.items() if isinstance(value, Approve)}
        given = {key: value for key, value in results.items() if key not in approvals}
        self.results = tool_messages(given)
        """Answers to tool calls."""
        carried_out = conversation.carried_out_unheard(results)
        for tool_call_id in carried_out:
            if results[tool_call_id] != Approve():
                raise UsageError(
                    f"tool_results answers {tool_call_id!r}, a call that was carried out; nothing was sent"
                )
        self._renewed = conversation.unstarted_results(results.keys() - carried_out)
        self.prompts = [each for each in prompt_messages(prompt) if not conversation.is_repeated(each)]
        """What is said, apart from what was said just now to a run that never started."""
        self.input = self._first_input(conversation, options, entries)
        """What the first run asks."""
        self.approved = {
            key: (self._call(conversation, key, approval), approval)
            for key, approval in approvals.items()
            if key not in carried_out
        }
        """The calls to carry out before the first run, with their approvals."""
        self.postponed = self.unanswered if results else []
        """The pending calls that stay pending, since others were answered and these were not."""
        for tool_call_id, value in results.items():
            self._refuse_verdict(conversation, tool_call_id, value)

    @property
    def added(self) -> list[Message]:
        """What the call says: answers to tool calls, then the prompt."""
        return [*self.results, *self.prompts]

    def take_in(self, conversation: Conversation) -> None:
        """Let it be said."""
        if self._renewed:
            conversation.take_back(self._renewed)
        conversation.postponed_ids = self.postponed
        conversation.add_results(self.results)
        conversation.add_messages(self.prompts)
        self.input = self.input.model_copy(update={"messages": conversation.reducer.messages})

    def following(self, reducer: Reducer) -> Callable[[RunAgentInput, Sequence[ResumeEntry]], RunAgentInput]:
        """What makes the input of the next run out of the one before."""

        def ask(before: RunAgentInput, entries: Sequence[ResumeEntry]) -> RunAgentInput:
            """Make the next input."""
            changes: dict[str, Any] = {
                "run_id": str(uuid4()),
                "tools": None,
                "messages": reducer.messages,
                "state": reducer.state,
                "resume": list(entries) or None,
            }
            return self._with_tools(before.model_copy(update=changes))

        return ask

    def warn(self, warnings: WarningLog) -> None:
        """Say what is left without an answer (TOOL-10)."""
        if self.unanswered:
            names = ", ".join(map(repr, self.unanswered))
            without = f"the conversation goes on without results of tool calls {names}; see tool_results="
            warnings.add("TOOL-10", without)

    def _first_input(
        self, conversation: Conversation, options: RunOptions, entries: Sequence[ResumeEntry]
    ) -> RunAgentInput:
        renewed = {message.id for message in self._renewed}
        held = [message for message in conversation.reducer.messages if message.id not in renewed]
        return self._with_tools(_composed(conversation, options, [*held, *self.added], entries))

    def _with_tools(self, asked: RunAgentInput) -> RunAgentInput:
        self.offered = offered(self._tools, asked)
        return asked.model_copy(update={"tools": _definitions(self.offered)})

    def _refuse_verdict(self, conversation: Conversation, tool_call_id: str, value: object) -> None:
        """A yes or no to a call that wants approval would reach the agent as its result, and nothing would run."""
        call = conversation.reducer.tool_call(tool_call_id)
        tool = self.offered.get(call.function.name) if call else None
        is_verdict = value is None or isinstance(value, bool)
        if is_verdict and isinstance(tool, FunctionTool) and tool.approval != "never":
            raise UsageError(
                f"tool_results answers {tool_call_id!r}, a call of {tool.name!r} that wants approval, with {value!r}; "
                "say Approve() or Deny(), or give the tool's result as text"
            )

    def _call(self, conversation: Conversation, tool_call_id: str, approval: Approve) -> ToolCall:
        """A call that was approved, if it can be carried out here."""
        refusal = f"tool_results approves {tool_call_id!r}, "
        if tool_call_id in conversation.executed_call_ids:
            raise UsageError(f"{refusal}whose function was called before; give its result instead")
        if tool_call_id in conversation.incomplete_ids and approval.arguments is None:
            raise UsageError(f"{refusal}whose arguments never ended; give them: Approve(arguments={{...}})")
        call = conversation.reducer.tool_call(tool_call_id)
        assert call is not None
        tool = self.offered.get(call.function.name)
        if not isinstance(tool, FunctionTool):
            raise UsageError(
                f"{refusal}but there is no function for {call.function.name!r} in tools=; give its result instead"
            )
        if approval.arguments is not None:
            try:
                tool.bind_arguments(approval.arguments)
            except ToolError as error:
                raise UsageError(f"{refusal}with arguments that do not do: {error}; nothing was sent") from error
        return call


def replay_input(conversation: Conversation, options: RunOptions, tools: ToolSource) -> RunAgentInput:
    """What is sent to have a thread told again: all that is held of it, and no question.

    Args:
        conversation: The thread.
        options: The call's keywords.
        tools: The agent's tools.

    Raises:
        UsageError: It cannot be asked.
    """
    asked = _composed(conversation, options, conversation.reducer.messages, ())
    return asked.model_copy(update={"tools": _definitions(offered(tools, asked))})


def _composed(
    conversation: Conversation, options: RunOptions, messages: list[Message], entries: Sequence[ResumeEntry]
) -> RunAgentInput:
    try:
        return RunAgentInput(
            thread_id=conversation.thread_id,
            run_id=options.get("run_id") or str(uuid4()),
            messages=messages,
            state=conversation.reducer.state,
            context=list(options.get("context", ())) or None,
            forwarded_props=options.get("forwarded_props"),
            resume=list(entries) or None,
        )
    except ValidationError as error:
        refused = "; ".join(f"{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UsageError(f"the run cannot be asked for: {refused}") from None


def _definitions(tools: Mapping[str, ToolLike]) -> list[Tool] | None:
    return [definition(tool) for tool in tools.values()] or None
