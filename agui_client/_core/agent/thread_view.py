"""The thread of an agent as its program sees it: messages, state, what waits for answers, and how it is saved.

`ThreadView` reads the agent's `Conversation` and changes it between runs. What a verb sends of it, and what becomes of
the reply, is the run's; how the parts are merged and kept is the conversation's (`_core/conversation`).
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never

from agui_client._core.conversation.pending import open_questions, pending_tool_calls, unknown_tool_calls
from agui_client._core.conversation.rewinding import rewind
from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.ground.display import Displayed
from agui_client._core.protocol.prompts import MessageLike
from agui_client._core.run.scope import StateT, typed
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from ag_ui.core import Interrupt, Message, ToolCall

    from agui_client._core.agent.state_edits import StateEdit
    from agui_client._core.agent.state_model import StateModel
    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.state_merging import ConflictPolicy
    from agui_client._core.run.checkpoint import Checkpoint, Save
    from agui_client._core.run.continuing import StoredBeginning, StoredCall, ThreadLog
    from agui_client.a2ui import Surfaces


class ThreadView(Displayed, ABC, Generic[StateT]):
    """The messages and the state of an agent's thread, and what waits in it; see `AbstractAgent`."""

    is_team: ClassVar[bool] = False
    """Whether the agent leads members, and keeps notes about them in the state."""

    _conversation: Conversation
    _state_model: StateModel[StateT] | None
    _on_conflict: ConflictPolicy
    _save: Save | None
    _log: ThreadLog | None

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self._conversation.thread_id

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; neither the list nor the messages in it ever change, see `add_messages`."""
        return self._conversation.messages_to_show()

    @messages.setter
    def messages(self, messages: Never) -> Never:
        """Refuse an assignment, which would not say whether messages are replaced or added."""
        raise UsageError(
            "agent.messages is a copy: agent.set_messages([...]) replaces them, add_messages([...]) adds some"
        )

    @property
    def state(self) -> Any:
        """The state that both sides write, any JSON value; treat it as read-only, and assign another to change it."""
        return self._conversation.state_to_show()

    @state.setter
    def state(self, state: object) -> None:
        """Replace the state."""
        self.set_state(state)

    @property
    def typed_state(self) -> StateT:
        """The state as an object of `state_model`: a copy, made at each access; see `edit_state` to change it.

        Raises:
            ParseError: The state does not fit.
            UsageError: The agent has no `state_model`.
        """
        return typed(self._conversation.state, self._read_state)

    def edit_state(self) -> StateEdit[StateT]:
        """Return a block that edits the state: `with agent.edit_state() as trip: trip.budget = 900`.

        The block gets a copy: of `state_model`, or JSON without one. What is changed in it is merged with what the
        agent changes in the meantime, and goes out with the next run. An exception in the block discards the changes.
        During a run, edit where its events are iterated, or in a tool.

        Returns:
            The block.

        Raises:
            ParseError: At the beginning of the block: the state does not fit the model.
            UsageError: At its end: the edited state does not fit, or has no JSON form.
            StateConflictError: At its end, with `on_conflict="raise"`: the agent has changed the same place. If it does
                so later in a run, it ends that run.
        """
        from agui_client._core.agent.state_edits import StateEdit

        return StateEdit(self._conversation, self._state_model, self._on_conflict)

    @property
    def surfaces(self) -> Surfaces:
        """The user interfaces that the agent sent as A2UI, by their ids, with what a person entered.

        They are live, the same objects at each look; what a person entered is part of `snapshot()`.
        """
        from agui_client.a2ui._live import surfaces_of

        return surfaces_of(self._conversation)

    @property
    def pending_interrupts(self) -> list[Interrupt]:
        """The interrupts of the last run, and questions of tools; the next run must answer all with `resume=`.

        If a run that answered the agent's interrupts has failed, they are pending again: the next run may answer them
        once more, and need not: a team of this process keeps the answers, and continues with them.
        """
        asked = [question.interrupt for question in open_questions(self._conversation)]
        return [*self._conversation.open_interrupts, *asked]

    @property
    def approved_tools(self) -> set[str]:
        """The names of the tools that `Approve(always=True)` approved for this thread; discard one to be asked again.

        The set belongs to the conversation, and is saved with it.
        """
        return self._conversation.approved_tools

    @property
    def pending_tool_calls(self) -> list[ToolCall]:
        """The tool calls that the last run left to the application; give their results with `tool_results=`."""
        asking = {question.interrupt.tool_call_id for question in open_questions(self._conversation)}
        return [call for call in pending_tool_calls(self._conversation) if call.id not in asking]

    @property
    def unknown_tool_calls(self) -> list[ToolCall]:
        """The tool calls whose functions took too long, were stopped in the middle, or were killed with their program.

        They may have had their effect or not, and are never called again. Give their results with `tool_results=`, or
        continue: then the agent gets a placeholder, the message that the result is unknown (at a time-out it has that
        already), and the call stays here until you give its result.
        """
        return unknown_tool_calls(self._conversation)

    @property
    def incomplete_ids(self) -> list[str]:
        """The messages and tool calls that runs began and did not complete, because they were cut off or stopped."""
        calls = [each.tool_call_id for each in self._conversation.ledger.unsettled if not each.is_whole]
        return [*self._conversation.incomplete_ids, *calls]

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
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

    def rewind(self, message_id: str | None = None, *, before: str | None = None) -> list[Message]:
        """Take the conversation back to one of its messages, to edit what came after it or to send it again.

            agent.rewind(question.id)                            # regenerate
            await agent.run_agent()

            agent.rewind(before=question.id)                     # edit; a message that keeps its id is known as an edit
            await agent.run_agent(question.model_copy(update={"content": "..."}))

        The state stays as it is; a server that stores the thread sends the one that belongs to that message with the
        next run (`agent_app(..., on_divergence="rewind")`). Questions that the agent has asked since are withdrawn.

        Args:
            message_id: The id of the message that becomes the last one; the results of its calls stay, too.
            before: The id of the first message that goes, in place of `message_id`.

        Returns:
            The messages that were taken away.

        Raises:
            UsageError: There is no such message, the place is between a call and its result, or not one id is given.
            RunInProgressError: A run is in progress.
        """
        return rewind(self._conversation, message_id, before)

    def set_state(self, state: Any) -> None:
        """Replace the state by a copy of any JSON value; pydantic models and dataclasses in it are dumped by alias.

        Raises:
            UsageError: It has no JSON form.
        """
        self._conversation.set_state(state)

    def save_with(self, save: Save | None, *, log: ThreadLog | None = None) -> Self:
        """Have the conversation saved whenever something must not be lost; clones of the agent are not saved.

        The function is awaited before a run is sent and when it has ended, before a function is called and after it
        answered, and, while events arrive, about once a second. If it fails, so does the call, and nothing is sent or
        executed after it. `agui_client.store` saves threads in a database.

        Args:
            save: A coroutine function that takes a `Checkpoint`; None ends it.
            log: The log of a stored thread, for the agent to be served; None without one.

        Returns:
            The agent itself.
        """
        self._save, self._log = save, log
        self._conversation.past = None if log is None else log.past
        return self

    @property
    def is_saved(self) -> bool:
        """Whether a function saves the conversation."""
        return self._save is not None

    @property
    def is_stored(self) -> bool:
        """Whether the conversation is that of a stored thread, which is open."""
        return self._conversation.past is not None

    async def stored_call(self, call_id: str) -> StoredCall | None:
        """Return a call of this agent's stored thread, which may have been cut; None if nothing of it was saved.

        Args:
            call_id: The id of the call's first run.
        """
        return None if self._log is None else await self._log.find_call(call_id)

    @property
    def thread_log(self) -> ThreadLog | None:
        """The log of this agent's stored thread; None if no thread is stored."""
        return self._log

    async def stored_beginning(self, message_id: str | None) -> StoredBeginning | None:
        """Return this agent's stored thread up to one of its messages; None if no thread is stored.

        Args:
            message_id: The id of the last message; None for the thread before its first message.
        """
        return None if self._log is None else await self._log.find_beginning(message_id)

    def checkpoint(self) -> Checkpoint:
        """Return what the function of `save_with` would get now, also in the middle of a run; the state is a copy."""
        from agui_client._core.run.checkpoint import Checkpoint

        call = self._conversation.turns.current
        now: Checkpoint = Checkpoint(self._conversation.members()) if call is None else call.checkpoint()
        # Functions of `save_with` read it at once; a caller of this may keep it while patches change the state.
        return replace(now, members={**now.members, "state": copy.deepcopy(now.members["state"])})

    def abandon_interrupts(self) -> None:
        """Let the next run continue without answers: it cancels every pending interrupt."""
        self._conversation.is_abandoned = True

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a pydantic document that survives JSON; see `restore`."""
        return self._conversation.snapshot()

    def restore(self, document: ConversationSnapshot) -> None:
        """Continue with a conversation that was saved with `snapshot()`, in this process or another.

        Args:
            document: The saved conversation.

        Raises:
            RunInProgressError: A run is in progress.
        """
        self._conversation.restore(document)

    @property
    def _read_state(self) -> Callable[[Any], StateT] | None:
        return None if self._state_model is None else self._state_model.read
