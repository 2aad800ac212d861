"""What an agent remembers: its conversation, as an application looks at it and edits it between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client._pipeline.reduce import Change
from agui_client.conversation import Conversation, ConversationSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ag_ui.core import Interrupt, Message, ToolCall
    from reactivex import Observable

    from agui_client.messages import MessageLike


class Memory:
    """The conversation of an agent; every agent has these members.

    Args:
        conversation: The conversation.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self._conversation.thread_id

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list; the messages in it never change afterwards."""
        return self._conversation.reducer.messages

    @property
    def state(self) -> Any:
        """The state both sides write; treat it as read-only, and use `set_state`."""
        return self._conversation.reducer.state

    @property
    def pending_interrupts(self) -> list[Interrupt]:
        """What the last run waits for; the next run must answer all of it with `resume=`."""
        return list(self._conversation.pending_interrupts)

    @property
    def pending_tool_calls(self) -> list[ToolCall]:
        """The tool calls of the last run that wait for the application; answer them with `tool_results=`."""
        return self._conversation.pending_tool_calls

    @property
    def incomplete_ids(self) -> list[str]:
        """The messages and tool calls that runs began and did not complete, because they were cut off or stopped."""
        return list(self._conversation.incomplete_ids)

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._conversation.is_running

    def add_message(self, message: MessageLike) -> None:
        """Append a message."""
        self.add_messages([message])

    def add_messages(self, messages: Iterable[MessageLike]) -> None:
        """Append messages."""
        self._conversation.add_messages(messages)

    def set_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace the conversation's messages."""
        self._conversation.set_messages(messages)

    def set_state(self, state: Any) -> None:
        """Replace the state by a copy of any JSON value."""
        self._conversation.set_state(state)

    def abandon_interrupts(self) -> None:
        """Let the next run go on without answers: it cancels every pending interrupt."""
        self._conversation.abandon_interrupts()

    def snapshot(self) -> ConversationSnapshot:
        """The conversation as a pydantic document that survives JSON; see `restore`."""
        return self._conversation.snapshot()

    def restore(self, document: ConversationSnapshot) -> None:
        """Go on with a conversation that was saved with `snapshot()`, in this process or another.

        Args:
            document: The saved conversation.

        Raises:
            RunInProgressError: A run is going on.
        """
        self._conversation.restore(document)

    def observe_messages(self) -> Observable[list[Message]]:
        """The messages as a hot RxPY observable: what they are now, then every change, across runs."""
        from agui_client._surfaces.observable import observe_changes

        return observe_changes(self._conversation.listen, Change.MESSAGES, lambda: self.messages)

    def observe_state(self) -> Observable[Any]:
        """The state as a hot RxPY observable: what it is now, then every change, across runs."""
        from agui_client._surfaces.observable import observe_changes

        return observe_changes(self._conversation.listen, Change.STATE, lambda: self.state)
