"""A call that continues where another one was cut, as its process ended: in another process, from a checkpoint of it.

A checkpoint of the time before a run sends that run again. One of the time between two runs has calls of tools: those
that were not begun are executed under the usual rules, those that were begun are unknown unless their tool is
idempotent (TOOL-10, SEC-3), and then the next run is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ag_ui.core import ResumeEntry
from pydantic import BaseModel

from agui_client._core.conversation.snapshot import ConversationSnapshot, document_of
from agui_client._core.protocol.placeholders import UNKNOWN_RESULT
from agui_client._core.run.next_step import Able, Forget, next_step
from agui_client._core.run.turn_input import FirstRun, RequestSource, TurnInput, composed_input, result_messages
from agui_client._core.tools.context import BoundCall
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from datetime import datetime

    from ag_ui.core import Message, RunAgentInput

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.conversation.log import RunHistory
    from agui_client._core.run.checkpoint import Checkpoint
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import CallTools


READS_ONLY: ContextVar[bool] = ContextVar("READS_ONLY", default=False)
"""Whether a stored thread that is opened in this context is only read, also while another block has its lease."""


class Continuation(BaseModel, RequestSource):
    """The place where a cut call continues; also the prompt of the call that does so."""

    document: ConversationSnapshot
    """The conversation, which the agent has to be restored from."""
    resume: list[ResumeEntry] = []
    """The answers to interrupts that the run of the checkpoint carried."""
    is_between_runs: bool
    """Whether tools were at work, rather than a run was about to be sent."""
    position: int = 0
    """The number of events that the log of the call had at the place."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Continuation:
        """Return the place of a checkpoint."""
        about: dict[str, Any] = {"position": checkpoint.position, "is_between_runs": checkpoint.run_id is None}
        return cls(document=checkpoint.snapshot(), resume=list(checkpoint.resume), **about)

    @classmethod
    def behind(cls, input: RunAgentInput, left: Mapping[str, Any]) -> Continuation:
        """Return the place behind a run that left tools and people something to do.

        Args:
            input: An input with the conversation as it was then.
            left: What waits and was answered, as further members of the conversation's document.
        """
        state: Any = {} if input.state is None else input.state
        members: dict[str, Any] = {"messages": input.messages, "state": state, **left}
        return cls(document=document_of({"thread_id": input.thread_id, **members}), is_between_runs=True)

    async def request(self, conversation: Conversation, options: RunOptions) -> TurnInput:
        """Return the request of the call.

        Args:
            conversation: The restored conversation.
            options: The keywords of the call.
        """
        return ContinuedRequest(conversation, self, options)


class StoredCall(NamedTuple):
    """A turn as the log of its thread has it."""

    beginning: tuple[Sequence[Message], Any]
    """The messages and the state with which the call began."""
    place: Continuation
    """The place where it continues."""


class StoredBeginning(NamedTuple):
    """A stored thread up to one of its messages."""

    document: ConversationSnapshot
    """The conversation up to there, with the state that was saved with it."""
    saved_at: datetime
    """When the whole thread was saved last, in UTC."""


class StoredBranch(NamedTuple):
    """A stored thread as it was before it went back to an earlier message."""

    messages: Sequence[Message]
    """All of its messages."""
    find_beginning: Callable[[str], Awaitable[StoredBeginning]]
    """Returns this thread up to the message of an id, which is not a result, without what was asked in it."""


class Carried(NamedTuple):
    """An operation that is carried out in the transaction of a write to a thread of the same database."""

    database: object
    """The database."""
    work: Callable[[Any], object]
    """Carries it out on a connection; raises an exception to undo both."""
    done: Callable[[], object]
    """Called when both are committed, in another thread."""
    undone: Callable[[], object]
    """Called when both are undone because of an exception of the operation, in another thread."""


class ThreadLog(NamedTuple):
    """The log of a stored thread, as far as an agent that continues with the thread asks it."""

    past: RunHistory
    """The runs that the log knows."""
    find_call: Callable[[str], Awaitable[StoredCall | None]]
    """Finds a call by the id of its first run; returns None if nothing of it was saved."""
    find_beginning: Callable[[str | None], Awaitable[StoredBeginning]]
    """Returns the thread up to the message of an id; up to its first message if that is None."""
    find_branches: Callable[[], Awaitable[Sequence[StoredBranch]]]
    """Returns what the thread was each time that it went back, and has not come back to; the latest first."""
    carry: Callable[[Carried], bool] = lambda _: False
    """Has the next write to the thread carry out an operation of its database in the same transaction, both or neither;
    returns False if the thread is in no database that can do so."""


class ContinuedRequest(TurnInput):
    """A call that adds nothing to its conversation but results of calls that have none.

    Args:
        conversation: The restored conversation.
        continuation: The place where the call continues.
        options: The keywords of the call.
    """

    def __init__(self, conversation: Conversation, continuation: Continuation, options: RunOptions) -> None:
        self._conversation = conversation
        self.first_run = FirstRun.REOPENED if continuation.is_between_runs else FirstRun.REPEATED
        # Between runs the answers are in the conversation; of a run that was sent, it is unknown whether they arrived.
        entries = conversation.kept_answers if continuation.is_between_runs else continuation.resume
        self.input = composed_input(conversation, options, [*conversation.messages], entries)

    @property
    def aside(self) -> Collection[str]:
        """Nothing: the call continues with all that waits."""
        return ()

    def check_tools(self, tools: CallTools) -> None:
        """Give the calls that the cut process had begun, and whose effect is unknown, a result that says so.

        Here, and not in the loop: it comes with the call, so that callers and teams have it before anything is begun.

        Args:
            tools: The tools of the first run.
        """
        if self.first_run is FirstRun.REOPENED:
            able = Able(tools.offered, may_repeat=partial(self.may_repeat, tools))
            step = next_step(self._conversation, able)
            unknown = step.calls if isinstance(step, Forget) else ()
            self.results = result_messages({each.id: ToolError(UNKNOWN_RESULT) for each in unknown})

    def may_repeat(self, tools: CallTools, record: ToolCallRecord) -> bool:
        """Return whether a call that was begun is made again.

        Args:
            tools: The tools of the first run.
            record: The record of the call.
        """
        call = self._conversation.tool_call(record.tool_call_id)
        tool = tools.offered.get(call.function.name) if call is not None else None
        if call is None or tool is None or tool.toolset is None:
            return False
        bound = BoundCall(call.id, call.function.name, {})
        # A call that was approved may have been begun with other arguments, which are not known here.
        return tool.toolset.is_idempotent(bound) and tool.toolset.approval(bound) == "never"

    def undo(self) -> None:
        """Undo nothing: the messages of the call are stored."""
