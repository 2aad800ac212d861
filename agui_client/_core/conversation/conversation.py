"""A conversation: messages, state and what is pending of one thread, saved and restored as one document."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast
from uuid import uuid4

from ag_ui.core import ActivityMessage, Interrupt, Message, ResumeEntry, ToolCall, ToolMessage

from agui_client._core.conversation.changes import (
    ActivityStored,
    ConversationChange,
    MessagesAdded,
    MessagesReplaced,
    ResultsAdded,
    StateReplaced,
)
from agui_client._core.conversation.ledger import Ledger, LedgerRecords, ToolCallRecord, further
from agui_client._core.conversation.listeners import Listeners
from agui_client._core.conversation.message_list import MessageList
from agui_client._core.conversation.reconciling import reconcile
from agui_client._core.conversation.snapshot import ConversationSnapshot, document_of, open_interrupts
from agui_client._core.conversation.state_json import state_as_json
from agui_client._core.conversation.turns import Turns
from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.patch import copied, is_same_json
from agui_client._core.protocol.placeholders import is_placeholder
from agui_client._core.protocol.prompts import MessageLike, as_messages
from agui_client._core.protocol.reduce import Change, Reducer
from agui_client._core.protocol.schema import is_a
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.conversation.history import History
    from agui_client._core.conversation.log import RunHistory
    from agui_client._core.protocol.replay import ReplayReducer
    from agui_client._core.protocol.warnings import WarningLog


class StateOverlay(Protocol):
    """Edits of the application that the agent does not have yet, shown over the agent's state."""

    def shown(self, theirs: Any) -> Any:
        """Return the agent's state with the edits in it."""

    def sent(self, state: Any) -> None:
        """Continue from the state that a run is sent."""


class Conversation:
    """Messages, state and pending work of one thread.

    Args:
        thread_id: The id of the thread; None makes one.
        messages: The first messages.
        state: The first state, any JSON value.
    """

    def __init__(self, thread_id: str | None = None, messages: Iterable[MessageLike] = (), state: Any = None) -> None:
        self.thread_id: str = thread_id or str(uuid4())
        """The id of the thread."""
        # The messages and the state; during a replay, with the replayed ones among them. Events change them through
        # the handlers that `begin_run` gives away, and everything else through `apply`.
        self._reducer = Reducer(as_messages(messages), {} if state is None else state_as_json(state))
        self.pending_interrupts: list[Interrupt] = []
        """The interrupts that the next run must answer."""
        self.answered_interrupts: list[Interrupt] = []
        self.asking_run_id: str | None = None
        """The interrupts that a run answered which then failed: the next run may answer them again, and need not."""
        self.unreceived: dict[str, None] | None = None
        """The ids of the messages that the application added since it sent the last run that finished; None if the
        agent may lack any of the messages."""
        self._unreceived_before: dict[str, None] | None = None
        self.listeners: Listeners = Listeners()
        """Functions that are called after every change."""
        self.overlay: StateOverlay | None = None
        """Edits that were made during a run; the agent gets them with the next one."""
        self.turns: Turns = Turns()
        """Keeps the calls apart."""
        self.past: RunHistory | None = None
        """The runs that the log of a stored thread knows; None where no log is kept."""
        self.state_base: str | None = None
        """The hash of the state that a server had when the last run ended; None if no server takes one."""
        self.lost_run: object = None
        """The `UnconfirmedRun` of the last call, if its server keeps it and its end did not arrive; None otherwise."""
        self.state_of_result: object = None
        """The state that the result of the last call has."""
        self.ledger: Ledger = Ledger()
        """The records of the tool calls that runs of this side left."""
        self.approved_tools: set[str] = set()
        """The names of the tools whose calls are approved in this thread without a question."""
        self.incomplete_ids: dict[str, None] = {}
        """The ids of the messages that runs began and did not complete."""
        self.kept_answers: list[ResumeEntry] = []
        """The answers to pending interrupts that are sent with those that are still missing."""
        self.is_abandoned: bool = False
        """Whether the next run cancels the pending interrupts because they were abandoned."""
        # The messages and the state that a replay goes back to if it ends early.
        self._local = self._reducer

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self.turns.current is not None

    # --- reading

    @property
    def messages(self) -> list[Message]:
        """The messages so far, as a new list."""
        return self._reducer.messages

    def messages_to_show(self) -> MessageList:
        """Return the messages for the application."""
        return MessageList(self._reducer.look())

    @property
    def state(self) -> Any:
        """The state so far, with the edits that the agent does not know of yet."""
        state = self._reducer.state
        return state if self.overlay is None else self.overlay.shown(state)

    @property
    def agent_state(self) -> Any:
        """The state as the agent knows it, without edits that were made since."""
        return self._reducer.state

    def state_to_show(self) -> Any:
        """Return the state for the application, which may write into it in spite of all advice.

        The result of the last run has the state as that run left it. So the conversation continues with a copy, made at
        the first look after the run.
        """
        state = self.state
        if state is self.state_of_result and not self.is_running:
            self.apply(StateReplaced(state := copied(state)))
        return state

    def message(self, message_id: str) -> Message | None:
        """Return one message as it is now; None when there is none with this id."""
        return self._reducer.message(message_id)

    def text_of(self, message_id: str) -> str:
        """Return the text of one message as it is now; "" when there is none."""
        return self._reducer.text_of(message_id)

    def first_text(self, message_ids: Iterable[str]) -> str:
        """Return the first text that is not empty of messages by their ids; "" when there is none."""
        return self._reducer.first_text(message_ids)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return one tool call with its arguments as far as they have come; None when there is none with this id."""
        return self._reducer.tool_call(tool_call_id)

    def tool_calls(self, tool_call_ids: Iterable[str]) -> list[ToolCall | None]:
        """Return tool calls by their ids, with None for those that are not there."""
        return self._reducer.tool_calls(tool_call_ids)

    def removed_call(self, tool_call_id: str) -> ToolCall | None:
        """Return a tool call that a snapshot of the last run has removed; None when there is none with this id."""
        return self._reducer.removed_call(tool_call_id)

    def place_of_call(self, tool_call_id: str) -> tuple[Message, int] | None:
        """Return the message of the latest call of an id, and its number among those; None when there is none."""
        return self._reducer.place_of_call(tool_call_id)

    def arguments_size(self, tool_call_id: str) -> int:
        """Return the number of characters that have come of a call's arguments; 0 when there is none with this id."""
        return self._reducer.arguments_size(tool_call_id)

    @property
    def answered_call_ids(self) -> Collection[str]:
        """The ids of the tool calls that have a result."""
        return self._reducer.answered_call_ids

    @property
    def open_call_ids(self) -> list[str]:
        """The ids of the tool calls that have no result, in the order of the messages."""
        return self._reducer.open_call_ids

    # --- changing

    def apply(self, change: ConversationChange) -> Change:
        """Change messages, results or state, and with them what depends on them, such as the records of calls.

        This is the only way to change them apart from the events of a run. Listeners are not called: `notify` of theirs
        does that when all is changed that belongs together.

        Returns:
            The parts that changed, for the listeners.
        """
        match change:
            case MessagesReplaced(messages, is_replay):
                self._replace_messages(messages, is_replay=is_replay)
            case MessagesAdded(messages):
                self._reducer.add_messages(messages)
                self._note_unreceived(messages)
            case ResultsAdded(results, are_own):
                self._insert_results(results, are_own=are_own)
            case ActivityStored(activity):
                self._reducer.store_activity(activity)
            case StateReplaced(state, keeps_edits):
                self.overlay = self.overlay if keeps_edits else None
                self._reducer.set_state(state)
                return Change.STATE
        return Change.MESSAGES

    def _replace_messages(self, messages: Iterable[Message], *, is_replay: bool) -> None:
        self._reducer.set_messages(messages)
        if not is_replay:
            self.unreceived = None
        reconcile(self, is_cut=not is_replay)

    def _insert_results(self, results: Sequence[ToolMessage], *, are_own: bool) -> None:
        self._reducer.thread.insert_results(results)
        self._note_unreceived(results)
        for each in results if are_own else ():
            if not is_placeholder(each):
                self.ledger.answer(each.tool_call_id)

    def _note_unreceived(self, added: Iterable[Message]) -> None:
        if self.unreceived is not None:
            self.unreceived.update((message.id, None) for message in added)

    def add_messages(self, messages: Iterable[MessageLike]) -> None:
        """Append messages."""
        if added := as_messages(messages):
            self.listeners.notify(self.apply(MessagesAdded(added)))

    def add_results(self, results: Sequence[ToolMessage], *, are_own: bool = False) -> None:
        """Insert results of tool calls behind their calls.

        Args:
            are_own: Whether the calls were executed here, and no run has received the results yet.
        """
        if results:
            self.listeners.notify(self.apply(ResultsAdded(results, are_own)))

    def store_activity(self, activity: ActivityMessage) -> None:
        """Store an activity of this client's own, in the place of the one with its id."""
        self.listeners.notify(self.apply(ActivityStored(activity)))

    def set_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace all messages, and forget the records of the calls that are no longer among them."""
        self.listeners.notify(self.apply(MessagesReplaced(as_messages(messages))))

    def remove_messages(self, added: Collection[str]) -> None:
        """Remove messages that were added for a run which never started, by their ids."""
        if added:
            unreceived, left = self.unreceived, [each for each in self.messages if each.id not in added]
            change = self.apply(MessagesReplaced(as_messages(left)))
            self.unreceived = unreceived
            self.listeners.notify(change)

    def set_state(self, state: Any) -> None:
        """Replace the state by a copy of a JSON value."""
        self.listeners.notify(self.apply(StateReplaced(state_as_json(state))))

    def note_sent(self, history: History, messages: Sequence[Message]) -> None:
        """Note what a run sends; if the run does not finish, the agent may have received none of it.

        Args:
            history: The value of `history=`.
            messages: The messages that it chose.
        """
        if history != "full":
            self._reducer.thread.note_sent(messages)
        self._unreceived_before = self.unreceived
        self.unreceived = {} if history in ("full", "new") else None

    def note_unfinished(self, *, may_have_started: bool) -> None:
        """Note that the latest run did not finish.

        Args:
            may_have_started: Whether the agent may have got it; if not, it has what it had before.
        """
        self.unreceived = None if may_have_started else self._unreceived_before

    def note_sent_state(self, state: Any) -> None:
        """Note the state that a run is sent, with the edits in it."""
        if self.overlay is not None:
            self.overlay.sent(state)

    # --- interrupts and their answers

    @property
    def open_interrupts(self) -> list[Interrupt]:
        """The interrupts of the agent that wait for answers: see `open_interrupts`."""
        return open_interrupts(self, self.answered_call_ids)

    def keep_answers(self, entries: Sequence[ResumeEntry]) -> None:
        """Keep answers to pending interrupts, to be sent with those that are still missing."""
        answered = {entry.interrupt_id for entry in entries}
        # If the run that carries the answers fails, these wait again.
        known = {each.id for each in self.answered_interrupts}
        kept = [each for each in self.pending_interrupts if each.id in answered]
        self.answered_interrupts = [*self.answered_interrupts, *(each for each in kept if each.id not in known)]
        self.pending_interrupts = [each for each in self.pending_interrupts if each.id not in answered]
        before = {entry.interrupt_id for entry in self.kept_answers}
        self.kept_answers = [*self.kept_answers, *(each for each in entries if each.interrupt_id not in before)]

    def has_placeholder(self, tool_call_id: str) -> bool:
        """Return whether a placeholder stands where the result of a call would be."""
        return self._reducer.thread.has_placeholder(tool_call_id)

    @property
    def is_answered(self) -> Callable[[str, str], bool]:
        """Returns whether the latest call of an id is that of a message, by the message's id, and has a result."""
        return self._reducer.thread.is_answered

    @property
    def losses(self) -> object:
        """A value that is another one when a message or a call was removed or replaced since."""
        return self._reducer.losses

    # --- runs

    def begin_run(self, warnings: WarningLog, *, is_local: bool, is_replay: bool) -> Reducer:
        """Return the reducer that takes in the events of a run, and nothing else.

        Args:
            warnings: The log of what is skipped.
            is_local: Whether the agent works in this process.
            is_replay: Whether the run sends the thread again: it is shown merged with the local one, until
                `end_replay`.
        """
        if is_replay:
            from agui_client._core.protocol.replay import ReplayReducer

            self._local, self._reducer = self._reducer, ReplayReducer(self._reducer, warnings)
        self._reducer.thread.begin_run(warnings, takes_marks=is_local)
        return self._reducer

    @property
    def warnings(self) -> WarningLog:
        """The log of the present run, or of the last one."""
        return self._reducer.thread.log

    def keep_through_snapshots(self, messages: Iterable[Message]) -> None:
        """Have no MESSAGES_SNAPSHOT drop some messages."""
        self._reducer.thread.kept.update(message.id for message in messages)

    def keep_replaced_messages(self) -> None:
        """Keep the messages that a MESSAGES_SNAPSHOT replaces, from now on."""
        # Not for every call: the list would hold the messages of a long thread a second time.
        self._reducer.thread.before_snapshot = []

    @property
    def replaced_messages(self) -> Sequence[Message]:
        """The messages before the latest MESSAGES_SNAPSHOT, if they are kept."""
        return self._reducer.thread.before_snapshot or ()

    def lacks(self, message_ids: Collection[str]) -> list[str]:
        """Return those of some messages that are here, and that a replay, which has not ended, has not brought."""
        return cast("ReplayReducer", self._reducer).lacks(message_ids)

    def end_replay(self, *, has_ended: bool, is_whole: bool = False) -> bool:
        """Take over the merged thread; after a replay that ended early, go back to the local one.

        Args:
            has_ended: Whether the replay came to the end of a run.
            is_whole: Whether the server said what of the local thread it does not have.

        Returns:
            Whether the local thread continues after that run, so that the replay ended early all the same.
        """
        replay, self._reducer = cast("ReplayReducer", self._reducer), self._local
        is_behind = has_ended and not is_whole and replay.is_behind
        is_taken = has_ended and not is_behind
        self.listeners.notify(self._take_over(replay) if is_taken else Change.MESSAGES | Change.STATE)
        return is_behind

    def _take_over(self, replay: ReplayReducer) -> Change:
        """Take over the merged messages and state of a replay, as far as they are new."""
        messages, state, change = replay.messages, replay.state, Change.NONE
        if messages != self.messages:
            change |= self.apply(MessagesReplaced(messages, is_replay=True))
        if not is_same_json(state, self.agent_state):
            change |= self.apply(StateReplaced(state, keeps_edits=True))
        return change

    # --- documents

    def members(self) -> dict[str, Any]:
        """Return the members of the conversation's document, which share messages and state with it."""
        return {
            "thread_id": self.thread_id,
            "messages": self.messages,
            "state": self.state,
            "pending_interrupts": list(self.pending_interrupts),
            "answered_interrupts": list(self.answered_interrupts),
            "asking_run_id": self.asking_run_id,
            "abandoned": self.is_abandoned,
            "kept_answers": list(self.kept_answers),
            "incomplete_ids": list(self.incomplete_ids),
            "unreceived_ids": None if self.unreceived is None else list(self.unreceived),
            "state_base": self.state_base,
            "approved_tools": sorted(self.approved_tools),
            "tool_calls": list(self.ledger),
        }

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a document."""
        return document_of({**self.members(), "state": copy.deepcopy(self.state)})

    def restore(self, document: ConversationSnapshot) -> None:
        """Replace the conversation by a saved one.

        Raises:
            RunInProgressError: A run is in progress.
        """
        if not is_a(document, ConversationSnapshot):
            raise UsageError("restore() takes a ConversationSnapshot; read one with model_validate_json(text)")
        self.turns.check()
        self.become(document)

    def become(self, document: ConversationSnapshot) -> None:
        """Replace the conversation by a saved one, as `restore` does, also in the middle of a run."""
        is_known = document.thread_id == self.thread_id and bool(list(self.ledger))
        now = {each.tool_call_id: self._current_record(each) for each in document.tool_calls} if is_known else {}
        # First, as it may refuse the messages: then nothing is replaced.
        change = self.apply(MessagesReplaced(document.messages))
        self.thread_id = document.thread_id
        change |= self.apply(StateReplaced(copy.deepcopy(document.state)))
        self.unreceived = None if document.unreceived_ids is None else dict.fromkeys(document.unreceived_ids)
        self.pending_interrupts = list(document.pending_interrupts)
        self.answered_interrupts = list(document.answered_interrupts)
        self.asking_run_id = document.asking_run_id
        self.kept_answers = list(document.kept_answers)
        self.is_abandoned = document.abandoned
        self.state_base = document.state_base
        self.approved_tools = set(document.approved_tools)
        self.incomplete_ids = dict.fromkeys(document.incomplete_ids)
        self.ledger = self._restored_ledger(document.tool_calls, now)
        self._reconcile_restored(document.messages)
        self.listeners.notify(change)

    def _restored_ledger(self, records: Sequence[ToolCallRecord], now: Mapping[str, ToolCallRecord | None]) -> Ledger:
        """Return the ledger of a document.

        Args:
            records: The records that the document has.
            now: What this conversation knows of their calls.
        """
        if isinstance(records, LedgerRecords) and not now:
            ledger = records.ledger.copy()
        else:
            ledger = Ledger(further(each, now.get(each.tool_call_id)) for each in records)
        for each in ledger.unsettled:
            # `latest` is not in documents: a change is one only after what was restored.
            ledger.note_latest(each, self.tool_call(each.tool_call_id) if each.is_whole else None)
        return ledger

    def _reconcile_restored(self, messages: Sequence[Message]) -> None:
        """Bring the restored records in line with the messages; those of a log that have once been need not again."""
        begun = messages if isinstance(messages, BegunMessages) else None
        if begun is not None and begun.has_reconciled:
            self.ledger.reconciled_with = self.losses
        settled = self.ledger.settled_count
        reconcile(self)
        if begun is not None:
            begun.note_reconciled(has_reconciled=settled == self.ledger.settled_count)

    def _current_record(self, record: ToolCallRecord) -> ToolCallRecord | None:
        """Return what the conversation knows of a call in a document of its thread; None if it knows nothing."""
        place = self.place_of_call(record.tool_call_id)
        if place is None or place[0].id != record.message_id:
            return None
        return self.ledger.get(record.tool_call_id)

    def branch(self) -> Conversation:
        """Return a conversation over the same messages and state, which can be settled for itself."""
        twin = copy.copy(self)
        # Only what settling changes in place; it replaces everything else.
        twin.listeners, twin.ledger = Listeners(), self.ledger.copy()
        return twin

    def clone(self, thread_id: str | None = None) -> Conversation:
        """Return a copy with the same messages, state and pending work, on the same thread unless one is given."""
        twin = Conversation(thread_id or self.thread_id)
        # By way of a document, so that a clone has what a restored conversation has, and no more.
        twin.restore(self.snapshot().model_copy(update={"thread_id": twin.thread_id}))
        if twin.thread_id != self.thread_id:
            # What a person approved for one thread says nothing about another.
            twin.unreceived, twin.approved_tools = None, set()
        return twin
