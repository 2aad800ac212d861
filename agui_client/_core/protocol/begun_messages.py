"""The messages with which a thread begins, as long as no event is about one of them.

A stored thread is restored for each of its turns, and a turn is nearly always about what is new in it: so its messages
have no slots (`thread_state`) at first, and each table here is made at the first look into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ag_ui import core
from ag_ui.core import Message, ToolCall, ToolMessage

_WITHOUT_CALLS = {
    *(core.ActivityMessage, core.DeveloperMessage, core.ReasoningMessage, core.SystemMessage, core.UserMessage)
}
"""The types of the messages that neither make tool calls nor answer them."""


class BegunMessages:
    """The messages with which a thread begins, to be read as they are.

    Args:
        messages: The messages, in the order of the thread.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages: Sequence[Message] = messages
        """The messages, in the order of the thread."""

    @cached_property
    def by_id(self) -> dict[str, Message]:
        """The messages by their ids; of several with one id, the first."""
        return {each.id: each for each in reversed(self.messages)}

    @cached_property
    def results(self) -> dict[str, ToolMessage]:
        """The results of calls, by the calls' ids; of several, the first."""
        return {each.tool_call_id: each for each in reversed(self._about_calls) if each.role == "tool"}

    @cached_property
    def _callers(self) -> list[tuple[Message, list[ToolCall]]]:
        return [(each, each.tool_calls) for each in self._about_calls if each.role == "assistant" and each.tool_calls]

    @cached_property
    def _about_calls(self) -> list[Message]:
        # By type, as a look at a member of thousands of messages takes four times as long.
        return [each for each in self.messages if type(each) not in _WITHOUT_CALLS]

    @cached_property
    def calls(self) -> dict[str, tuple[Message, ToolCall]]:
        """The calls by their ids, with their messages."""
        return {call.id: (message, call) for message, calls in self._callers for call in calls}

    @cached_property
    def has_namesakes(self) -> bool:
        """Whether several calls have one id: then their order says which one is found, and which are answered."""
        return len(self.calls) < sum(len(calls) for _, calls in self._callers)

    @property
    def is_answered(self) -> bool:
        """Whether each call has a result."""
        return self.calls.keys() <= self.results.keys()

    def is_about(self, message: Message) -> bool:
        """Return whether another message has the id of one of these, or a call that these know."""
        if message.id in self.by_id:
            return True
        if message.role == "tool":
            return message.tool_call_id in self.results or message.tool_call_id in self.calls
        calls = (message.tool_calls or ()) if message.role == "assistant" else ()
        return any(each.id in self.calls or each.id in self.results for each in calls)
