"""A checkpoint: the conversation as it would be if the program ended now, and the function that saves one.

It shares messages and state with the conversation, so that it costs little on long threads. `saving` makes checkpoints,
and says when.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.snapshot import ConversationSnapshot, document_of
from agui_client._core.ground.field_docs import Record

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, ToolMessage


@dataclass(frozen=True, slots=True)
class Checkpoint(Record):
    """A conversation as it would be if the program ended now."""

    members: Mapping[str, Any]
    """The members of its `ConversationSnapshot`; messages and state are shared, and to be read only."""
    results: Sequence[ToolMessage] = ()
    """Results of tools that the application executed, which are not among the messages yet."""
    run_id: str | None = None
    """The id of the run that is sent or in progress; None between runs. If the program ends now, the end
    of that run is unknown."""
    resume: Sequence[ResumeEntry] = ()
    """The answers to interrupts that the run carries, as long as it is unknown whether the agent got them."""
    call_id: str | None = None
    """The id of the first run of the call that is in progress; None if the call is about to end, or there is none. A
    program that takes the call up finds its place by it."""
    position: int = 0
    """The number of events that the call's log had where the call continues from this; 0 without a log."""
    is_at_end: bool = False
    """Whether the call is about to end; otherwise it may next send a run, call a function or ask a person."""

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a document that can be restored, with the results in it."""
        document = document_of(self.members)
        if not self.results:
            return document
        conversation = Conversation(document.thread_id)
        conversation.restore(document)
        conversation.add_results(self.results, are_own=True)
        return conversation.snapshot()


Save: TypeAlias = Callable[[Checkpoint], Awaitable[None]]
"""Saves a conversation; the call waits for it, and fails if it fails."""
