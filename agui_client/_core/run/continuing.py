"""A call that goes on where another one was cut, as its process ended: in another process, from a checkpoint of it.

A checkpoint of the time before a run sends that run again. One of the time between two runs has calls of tools: those
that were not begun are executed under the usual rules, those that were begun are unknown unless their tool is
idempotent (TOOL-10, SEC-3), and then the next run is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ag_ui.core import ResumeEntry
from pydantic import BaseModel

from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.conversation.snapshot import ConversationSnapshot, document_of
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.placeholders import UNKNOWN_RESULT
from agui_client._core.run.run_request import RequestSource, RunRequest, composed_input, result_messages
from agui_client._core.tools.approval import Approve
from agui_client._core.tools.context import BoundCall
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from datetime import datetime

    from ag_ui.core import Message, RunAgentInput, ToolCall

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.log import PastRuns
    from agui_client._core.run.ending import Checkpoint
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import CallTools, OfferedTool


READS_ONLY: ContextVar[bool] = ContextVar("READS_ONLY", default=False)
"""Whether a stored thread that is opened in this context is only read, also while another block has its lease."""


class Continuation(BaseModel, RequestSource):
    """The place where a cut call goes on; also the prompt of the call that does so."""

    document: ConversationSnapshot
    """The conversation, which the agent has to be restored from."""
    resume: list[ResumeEntry] = []
    """The answers to interrupts that the run of the checkpoint carried."""
    is_between_runs: bool
    """Whether tools were at work, rather than a run was about to be sent."""
    position: int = 0
    """The number of events that the log of the call had at the place."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Continuation:
        """Return the place of a checkpoint."""
        about: dict[str, Any] = {"position": checkpoint.position, "is_between_runs": checkpoint.run_id is None}
        return cls(document=checkpoint.snapshot(), resume=list(checkpoint.resume), **about)

    @classmethod
    def behind(cls, input: RunAgentInput, *, begun: Collection[str], waiting: Collection[str]) -> Continuation:
        """Return the place behind a run whose tools were at work.

        Args:
            input: An input with the conversation as it was then.
            begun: The ids of the calls whose functions were called.
            waiting: The ids of the other calls that functions of this application answer.
        """
        statuses = dict.fromkeys(waiting, CallStatus.WAITING) | dict.fromkeys(begun, CallStatus.EXECUTING)
        own: dict[str, Any] = {"answered_by": AnsweredBy.APPLICATION}
        records = [
            ToolCallRecord(tool_call_id=call.id, message_id=each.id, status=statuses[call.id], shown=call, **own)
            for each, call in tool_calls_in(input.messages)
            if call.id in statuses
        ]
        state: Any = {} if input.state is None else input.state
        members: dict[str, Any] = {"messages": input.messages, "state": state, "tool_calls": records}
        return cls(document=document_of({"thread_id": input.thread_id, **members}), is_between_runs=True)

    async def request(self, conversation: Conversation, options: RunOptions) -> RunRequest:
        """Return the request of the call.

        Args:
            conversation: The restored conversation.
            options: The keywords of the call.
        """
        return ContinuedRequest(conversation, self, options)


class StoredCall(NamedTuple):
    """A call as the log of its thread has it."""

    beginning: tuple[Sequence[Message], Any]
    """The messages and the state with which the call began."""
    place: Continuation
    """The place where it goes on."""


class StoredBeginning(NamedTuple):
    """A stored thread up to one of its messages."""

    document: ConversationSnapshot
    """The conversation up to there, with the state that was saved with it."""
    saved_at: datetime
    """When the whole thread was saved last, in UTC."""


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
    """The log of a stored thread, as far as an agent that goes on with the thread asks it."""

    past: PastRuns
    """The runs that the log knows."""
    find_call: Callable[[str], Awaitable[StoredCall | None]]
    """Finds a call by the id of its first run; returns None if nothing of it was saved."""
    find_beginning: Callable[[str | None], Awaitable[StoredBeginning]]
    """Returns the thread up to the message of an id; up to its first message if that is None."""
    carry: Callable[[Carried], bool] = lambda _: False
    """Has the next write to the thread carry out an operation of its database in the same transaction, both or neither;
    returns False if the thread is in no database that can do so."""


class ContinuedRequest(RunRequest):
    """A call that adds nothing to its conversation but results of calls that have none.

    Args:
        conversation: The restored conversation.
        continuation: The place where the call goes on.
        options: The keywords of the call.
    """

    def __init__(self, conversation: Conversation, continuation: Continuation, options: RunOptions) -> None:
        self._conversation, self._is_between_runs = conversation, continuation.is_between_runs
        # Answers that people gave before the process ended are in the thread, and go with the next run.
        kept = conversation.kept_answers if self._is_between_runs else ()
        self.input = composed_input(conversation, options, [*conversation.messages], [*continuation.resume, *kept])

    @property
    def undecided(self) -> Sequence[ToolCall]:
        """The tool calls that wait for approval."""
        asked = {each.interrupt.tool_call_id for each in self._conversation.questions}
        waiting = self._conversation.waiting_calls if self.is_held_up else {}
        return [call for key, call in waiting.items() if key not in asked]

    @property
    def is_held_up(self) -> bool:
        """Whether a call of the run before waits for a person, or for the caller."""
        is_waiting = self._conversation.waiting_calls or self._conversation.pending_interrupts
        return self._is_between_runs and bool(is_waiting)

    def check_tools(self, tools: CallTools) -> Mapping[str, Approve | None]:
        """Find out what becomes of the calls of the run before.

        Args:
            tools: The tools of the first run.

        Returns:
            The calls to execute before it.
        """
        if not self._is_between_runs:
            return {}
        records = [each for each in self._conversation.open_records if each.is_of_application]
        begun = [each for each in records if each.is_begun]
        again = [each.tool_call_id for each in begun if self._may_repeat(each, tools.offered)]
        unknown = {each.tool_call_id: ToolError(UNKNOWN_RESULT) for each in begun if each.tool_call_id not in again}
        self.results = result_messages(unknown)
        left = [each.tool_call_id for each in records if each.is_waiting]
        return dict.fromkeys([*again, *left])

    def _may_repeat(self, record: ToolCallRecord, offered: Mapping[str, OfferedTool]) -> bool:
        """Return whether a call that was begun is made again."""
        call = self._conversation.tool_call(record.tool_call_id)
        tool = offered.get(call.function.name) if call is not None else None
        if call is None or tool is None or tool.toolset is None:
            return False
        bound = BoundCall(call.id, call.function.name, {})
        # A call that was approved may have been begun with other arguments, which are not known here.
        return tool.toolset.is_idempotent(bound) and tool.toolset.approval(bound) == "never"

    def undo(self) -> None:
        """Undo nothing: the messages of the call are stored."""
