"""A conversation: messages, state and what is pending of one thread, saved and restored as one document."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast
from uuid import uuid4

from ag_ui.core import AssistantMessage, Interrupt, Message, ResumeEntry, ToolCall, ToolMessage
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_jsonable_python

from agui_client._display import Displayed
from agui_client._protocol.open_items import quoted
from agui_client._protocol.patch import DEEPEST_TEXT, is_same_json, nests_deeper
from agui_client._protocol.reduce import Change, Reducer
from agui_client._tools.questions import ToolQuestion
from agui_client.errors import RunInProgressError, UsageError
from agui_client.messages import MessageLike, as_messages

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Answer, Resume
    from agui_client._protocol.outcome import Outcome
    from agui_client._protocol.replay import ReplayReducer
    from agui_client._protocol.verify import Verifier
    from agui_client._protocol.warnings import WarningLog
    from agui_client._tools.approval import Approve
    from agui_client.history import History

Listener = Callable[[Change], None]


class StateOverlay(Protocol):
    """Edits of the application that the agent does not know of yet, shown over the agent's state."""

    def shown(self, theirs: Any) -> Any:
        """Return the agent's state with the edits in it."""

    def sent(self, state: Any) -> None:
        """Go on from the state that a run is sent."""


_LONGEST_CALL = 300
"""The characters of a tool call that an error shows."""


class ConversationSnapshot(Displayed, BaseModel):
    """A conversation as a document: `model_dump_json()` it, keep it anywhere, `restore()` it in another process."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    version: Literal[1] = 1
    """The version of the document's shape."""
    thread_id: str
    """The id of the thread."""
    messages: list[Message] = Field(default_factory=list["Message"])
    """The messages, in order."""
    state: Any = None
    """The state, any JSON value."""
    pending_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that the next run must answer."""
    abandoned: bool = False
    """Whether the next run abandons those interrupts."""
    pending_tool_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls that the last run left to the application."""
    kept_answers: list[ResumeEntry] = Field(default_factory=list["ResumeEntry"])
    """Answers to interrupts that were given already and are sent with the remaining ones."""
    incomplete_ids: list[str] = Field(default_factory=list[str])
    """The messages and tool calls that runs began and did not complete."""
    executed_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls whose functions were called; none of them is called again."""
    unfinished_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls of runs that did not finish; no function is called for one unless somebody approves it."""
    unheard_ids: list[str] = Field(default_factory=list[str])
    """The results of executed tool calls that no run has received yet."""
    unreceived_ids: list[str] | None = None
    """The messages that were added since the last finished run; None if the agent may lack any of the messages."""
    tool_questions: list[ToolQuestion] = Field(default_factory=list["ToolQuestion"])
    """The questions of tools that wait for an answer; their calls are made again with it."""
    shown_tool_calls: list[ToolCall] = Field(default_factory=list["ToolCall"])
    """The tool calls without a result as they were when they began to wait: an approval is bound to that."""


class Conversation:
    """Messages, state and pending work of one thread, and the lock that keeps its runs apart.

    Args:
        thread_id: The id of the thread; None makes one.
        messages: The first messages.
        state: The first state, any JSON value.
    """

    def __init__(self, thread_id: str | None = None, messages: Iterable[MessageLike] = (), state: Any = None) -> None:
        self.thread_id = thread_id or str(uuid4())
        """The id of the thread."""
        self.reducer = Reducer(as_messages(messages), {} if state is None else state_as_json(state))
        """The messages and the state; during a replay, with the replayed ones among them."""
        self.pending_interrupts: list[Interrupt] = []
        """The interrupts that the next run must answer."""
        self.unreceived: dict[str, None] | None = None
        """The ids of the messages that the application added since it sent the last run that finished; None if the
        agent may lack any of the messages."""
        self.listeners: list[Listener] = []
        """Functions that are called after every change."""
        self.overlay: StateOverlay | None = None
        """Edits that were made during a run; the agent gets them with the next one."""
        self._interrupt: Callable[[], None] | None = None
        self.pending_tool_call_ids: dict[str, None] = {}
        """The calls that the last run left to the application."""
        self.incomplete_ids: dict[str, None] = {}
        """The messages and calls that runs began and did not complete."""
        self.executed_call_ids: dict[str, None] = {}
        """The calls whose functions were called; none of them is called again."""
        self.unfinished_call_ids: dict[str, None] = {}
        """The calls of runs that did not finish; no function is called for one unless somebody approves it."""
        self.unreported_call_ids: dict[str, None] = {}
        """The executed calls whose results no run has received yet."""
        self._kept_answers: list[ResumeEntry] = []
        self.is_abandoned = False
        """Whether the next run cancels the pending interrupts because they were abandoned."""
        self._questions: dict[str, ToolQuestion] = {}
        self._shown: dict[str, ToolCall] = {}
        self._latest: dict[str, ToolCall] = {}
        self._local = self.reducer

    @contextmanager
    def running(self, interrupt: Callable[[], None], checkpoint: Callable[[], Any] | None = None) -> Generator[None]:
        """Reserve the conversation for one run.

        Args:
            interrupt: Stops the run, from any thread.
            checkpoint: Returns the `Checkpoint` of the run.

        Raises:
            RunInProgressError: Another run is going on.
        """
        if self.is_running:
            raise RunInProgressError(
                f"thread {self.thread_id!r} is in the middle of a run; wait for it, abort_run() it, "
                "or clone() the agent for parallel work"
            )
        self._interrupt, self.run_checkpoint = interrupt, checkpoint
        try:
            yield
        finally:
            self._interrupt = self.run_checkpoint = None

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._interrupt is not None

    def interrupt_run(self) -> None:
        """Stop the run that is going on, if there is one."""
        if (interrupt := self._interrupt) is not None:
            interrupt()

    @property
    def messages(self) -> list[Message]:
        """The messages so far, as a new list."""
        return self.reducer.messages

    @property
    def state(self) -> Any:
        """The state so far, with the edits that the agent does not know of yet."""
        state = self.reducer.state
        return state if self.overlay is None else self.overlay.shown(state)

    # --- editing

    def add_messages(self, messages: Iterable[MessageLike]) -> None:
        """Append messages."""
        if added := as_messages(messages):
            self.reducer.add_messages(added)
            self._note_added(added)

    def add_results(self, results: Sequence[ToolMessage]) -> None:
        """Insert results of tool calls behind their calls."""
        if results:
            self.reducer.thread.insert_results(results)
            self._note_added(results)

    def add_own_results(self, results: Sequence[ToolMessage]) -> None:
        """Insert results of calls that were executed here, and that no run has received yet."""
        self.add_results(results)
        self.unreported_call_ids.update((each.tool_call_id, None) for each in results)

    def note_sent(self, history: History, messages: Sequence[Message]) -> None:
        """Note what a run sends; a run that does not finish leaves open what of it the agent received.

        Args:
            history: The value of `history=`.
            messages: The messages that it chose.
        """
        if history != "full":
            self.reducer.thread.note_sent(messages)
        self.unreceived = {} if history in ("full", "new") else None

    def _note_added(self, added: Iterable[Message]) -> None:
        if self.unreceived is not None:
            self.unreceived.update((message.id, None) for message in added)
        self.notify(Change.MESSAGES)

    def set_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace all messages."""
        self.reducer.set_messages(as_messages(messages))
        self.unreceived = None
        self.notify(Change.MESSAGES)

    def set_state(self, state: Any) -> None:
        """Replace the state by a copy of a JSON value."""
        self.replace_state(state_as_json(state))
        self.notify(Change.STATE)

    def replace_state(self, state: Any) -> None:
        """Replace the state by a JSON value that is neither copied nor changed, without a notification."""
        self.overlay = None
        self.reducer.set_state(state)

    def note_sent_state(self, state: Any) -> None:
        """Note the state that a run is sent, with the edits in it."""
        if self.overlay is not None:
            self.overlay.sent(state)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function after every change to messages or state.

        Args:
            listener: Called with the parts that changed.

        Returns:
            A function that ends it; idempotent.
        """
        self.listeners.append(listener)

        def stop() -> None:
            """Remove the listener."""
            with suppress(ValueError):
                self.listeners.remove(listener)

        return stop

    def notify(self, change: Change) -> None:
        """Call the listeners."""
        if self.listeners and change:
            for listener in tuple(self.listeners):
                listener(change)

    # --- pending work

    @property
    def unknown_tool_calls(self) -> list[ToolCall]:
        """The tool calls whose function was called and whose result is not known."""
        return self._unanswered(self.executed_call_ids)

    @property
    def pending_tool_calls(self) -> list[ToolCall]:
        """The tool calls that the last run left to the application and that have no result yet."""
        return self._unanswered(self.pending_tool_call_ids)

    def _unanswered(self, tool_call_ids: Iterable[str]) -> list[ToolCall]:
        """Return those of some calls that have no result."""
        answered = self.reducer.answered_call_ids
        calls = [self.reducer.tool_call(each) for each in tool_call_ids if each not in answered]
        return [call for call in calls if call is not None]

    @property
    def questions(self) -> list[ToolQuestion]:
        """The questions of tool calls that wait for an answer, to be made again with it."""
        if not self._questions:
            return []
        answered = self.reducer.answered_call_ids
        waiting = [key for key in self._questions if key not in answered and self.reducer.tool_call(key) is not None]
        return [self._questions[key] for key in waiting]

    def note_execution(self, tool_call_id: str, question: ToolQuestion | None = None) -> None:
        """Note that the function of a call is called, or that the call waits for an answer to be made again.

        Args:
            tool_call_id: The id of the call.
            question: The question that nobody answered; None if the function is called.
        """
        if question is None:
            self._questions.pop(tool_call_id, None)
            self.executed_call_ids[tool_call_id] = None
        else:
            self._questions[tool_call_id] = question
            self.executed_call_ids.pop(tool_call_id, None)

    def resume_entries(self, resume: Resume | None) -> list[ResumeEntry]:
        """Return the resume entries of the next run.

        Args:
            resume: The caller's answers; None if there are none.

        Returns:
            One entry per pending interrupt, or none.

        Raises:
            InterruptsNotCoveredError: The answers do not cover the pending interrupts.
            UsageError: The call of a resolved interrupt was changed after it was shown.
        """
        from agui_client._interrupts.answers import Cancel, cancel_all, cover
        from agui_client._tools.approval import Approve, Deny

        if self.is_abandoned and resume is None:
            return self._kept_answers + cancel_all(self.pending_interrupts)
        entries = cover(self.pending_interrupts, resume)
        answers: Mapping[str, Answer] = resume if isinstance(resume, Mapping) else {}
        calls = {each.id: each.tool_call_id for each in self.pending_interrupts}
        for entry in entries:
            answer, tool_call_id = answers.get(entry.interrupt_id), calls[entry.interrupt_id]
            # Whatever else resolves an interrupt may be a yes in words of the caller's own.
            may_approve = entry.status == "resolved" and not isinstance(answer, Deny | Cancel)
            if may_approve and tool_call_id is not None:
                self.check_approval(tool_call_id, answer if isinstance(answer, Approve) else Approve())
        return self._kept_answers + entries

    def keep_answers(self, entries: Sequence[ResumeEntry]) -> None:
        """Keep answers to pending interrupts, to be sent with those that are still missing."""
        answered = {entry.interrupt_id for entry in entries}
        self.pending_interrupts = [each for each in self.pending_interrupts if each.id not in answered]
        kept = {entry.interrupt_id for entry in self._kept_answers}
        self._kept_answers = [*self._kept_answers, *(each for each in entries if each.interrupt_id not in kept)]

    def settle(self, interrupts: Sequence[Interrupt], tool_call_ids: Iterable[str], warnings: WarningLog) -> None:
        """Replace what is pending by what a run left.

        Args:
            interrupts: The interrupts that the next run must answer.
            tool_call_ids: The calls without a result, apart from those that an interrupt is about.
            warnings: The log of the run, which gets the waiting calls that it changed.
        """
        self.pending_interrupts = list(interrupts)
        self.pending_tool_call_ids = dict.fromkeys(tool_call_ids)
        self._kept_answers = []
        self.is_abandoned = False
        with_interrupt = [each.tool_call_id for each in interrupts if each.tool_call_id is not None]
        self._note_shown([*self.pending_tool_call_ids, *with_interrupt], warnings)

    def note_replayed(self, interrupts: Sequence[Interrupt], warnings: WarningLog) -> None:
        """Warn of waiting interrupts that a replay changed: nobody was asked what they ask now."""
        before = {each.id: each for each in self.pending_interrupts}
        for interrupt in interrupts:
            if interrupt != before.get(interrupt.id, interrupt):
                what = "which waits for an answer, was changed; show it again before it is answered"
                warnings.add("SEC-3", f"interrupt {quoted(interrupt.id)}, {what}")

    def _note_shown(self, tool_call_ids: Iterable[str], warnings: WarningLog) -> None:
        """Keep each waiting call as it was first shown whole, and warn of those that the run changed."""
        answered, incomplete = self.reducer.answered_call_ids, self.incomplete_ids
        waiting = [each for each in (*self._shown, *tool_call_ids) if each not in answered and each not in incomplete]
        found = {each: call for each in waiting if (call := self.reducer.tool_call(each)) is not None}
        for tool_call_id, call in found.items():
            if not _is_same_call(call, self._latest.get(tool_call_id, call)):
                what = "which waits for an answer, was changed; no approval of it as it was shown counts any more"
                warnings.add("SEC-3", f"tool call {quoted(tool_call_id)}, {what}")
        self._shown = {each: self._shown.get(each, call) for each, call in found.items()}
        self._latest = found

    def is_waiting(self, tool_call_id: str) -> bool:
        """Whether a run left a call without a result, and whole."""
        return tool_call_id in self._shown

    def check_approval(self, tool_call_id: str, approval: Approve) -> None:
        """Check that an approved call is still the one that was shown (SEC-3).

        Args:
            tool_call_id: The id of the call.
            approval: The approval; one with arguments of its own only needs the tool to be the same.

        Raises:
            UsageError: The call was changed after it began to wait for an answer.
        """
        now = self.reducer.tool_call(tool_call_id)
        shown = self._shown.get(tool_call_id)
        if now is None or shown is None or _is_same_call(now, shown):
            return
        if approval.arguments is None or now.function.name != shown.function.name:
            how = "give the arguments, as in Approve(arguments={...}), or Deny()"
            raise UsageError(
                f"tool call {quoted(tool_call_id)} was approved, but it was shown as {_quoted_call(shown)} and is "
                f"{_quoted_call(now)} now; {how}; nothing was sent"
            )

    def check_results(self, results: Mapping[str, object]) -> list[str]:
        """Check that answers to tool calls fit the conversation (TOOL-10).

        Args:
            results: The answers by tool call id.

        Returns:
            The calls that stay without a result, in the order of the messages.

        Raises:
            UsageError: The call does not exist, or has a result.
        """
        messages = self.reducer.messages
        called = dict.fromkeys(
            call.id for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls or ()
        )
        answered = self.reducer.answered_call_ids
        for tool_call_id in results:
            if tool_call_id not in called:
                raise UsageError(f"tool_results answers {tool_call_id!r}, a call that was never made; nothing was sent")
            if tool_call_id in answered and tool_call_id not in self.unreported_call_ids:
                raise UsageError(
                    f"tool_results answers {tool_call_id!r}, a call that has a result already; nothing was sent"
                )
        return [each for each in called if each not in results and each not in answered]

    def withheld_calls(self) -> dict[str, str]:
        """Return the calls that no function is to be called for, with the reason."""
        return {
            **dict.fromkeys(self.unfinished_call_ids, "the run that made it did not finish"),
            **dict.fromkeys(self.incomplete_ids, "its arguments never ended"),
            **dict.fromkeys(self.executed_call_ids, "its function was called before"),
        }

    def mark_run(self, outcome: Outcome, verifier: Verifier) -> None:
        """Take over from a run that started which items it completed and which it left open."""
        earlier = [*self.incomplete_ids, *verifier.left_open_before]
        still_open = [each for each in earlier if each not in outcome.completed_ids]
        self.incomplete_ids = dict.fromkeys([*still_open, *verifier.left_open])
        unfinished = [each for each in self.unfinished_call_ids if each not in outcome.tool_call_ids]
        self.unfinished_call_ids = dict.fromkeys([*unfinished, *outcome.unfinished_call_ids])
        self.unreported_call_ids = {}

    # --- replays

    def begin_replay(self, replay: ReplayReducer) -> None:
        """Show a replayed thread merged with the local one."""
        self._local, self.reducer = self.reducer, replay

    def end_replay(self, *, has_ended: bool) -> bool:
        """Take over the merged thread; after a replay that ended early, go back to the local one.

        Args:
            has_ended: Whether the replay came to the end of a run.

        Returns:
            Whether the local thread goes on after that run, so that the replay ended early all the same.
        """
        replay, self.reducer = cast("ReplayReducer", self.reducer), self._local
        is_behind = has_ended and replay.is_behind
        self.notify(replay.commit() if has_ended and not is_behind else Change.MESSAGES | Change.STATE)
        return is_behind

    # --- documents

    def members(self) -> dict[str, Any]:
        """Return the members of the conversation's document, which share messages and state with it."""
        messages, unreported = self.reducer.messages, self.unreported_call_ids
        results = [each for each in messages if isinstance(each, ToolMessage)] if unreported else []
        return {
            "thread_id": self.thread_id,
            "messages": messages,
            "state": self.state,
            "pending_interrupts": list(self.pending_interrupts),
            "abandoned": self.is_abandoned,
            "pending_tool_call_ids": [call.id for call in self.pending_tool_calls],
            "kept_answers": list(self._kept_answers),
            "incomplete_ids": list(self.incomplete_ids),
            "executed_call_ids": list(self.executed_call_ids),
            "unfinished_call_ids": list(self.unfinished_call_ids),
            "unheard_ids": [each.id for each in results if each.tool_call_id in unreported],
            "unreceived_ids": None if self.unreceived is None else list(self.unreceived),
            "tool_questions": self.questions,
            "shown_tool_calls": list(self._shown.values()),
        }

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a document."""
        return document_of({**self.members(), "state": copy.deepcopy(self.state)})

    def restore(self, document: ConversationSnapshot) -> None:
        """Replace the conversation by a saved one.

        Raises:
            RunInProgressError: A run is going on.
        """
        if not isinstance(cast("object", document), ConversationSnapshot):
            raise UsageError("restore() takes a ConversationSnapshot; read one with model_validate_json(text)")
        with self.running(lambda: None):
            self.become(document)

    def become(self, document: ConversationSnapshot) -> None:
        """Do the same in the middle of a run."""
        # It may refuse the messages: then nothing is replaced.
        self.reducer.set_messages(document.messages)
        # An older document of this thread does not know the calls that were executed since.
        executed = self.executed_call_ids if document.thread_id == self.thread_id else {}
        self.thread_id = document.thread_id
        self.replace_state(copy.deepcopy(document.state))
        self.unreceived = None if document.unreceived_ids is None else dict.fromkeys(document.unreceived_ids)
        self.pending_interrupts = list(document.pending_interrupts)
        self._kept_answers = list(document.kept_answers)
        self.is_abandoned = document.abandoned
        self._questions = {each.interrupt.tool_call_id or "": each for each in document.tool_questions}
        self.pending_tool_call_ids = dict.fromkeys(document.pending_tool_call_ids)
        self.incomplete_ids = dict.fromkeys(document.incomplete_ids)
        self.executed_call_ids = dict.fromkeys([*document.executed_call_ids, *executed])
        self.unfinished_call_ids = dict.fromkeys(document.unfinished_call_ids)
        results = [each for each in document.messages if isinstance(each, ToolMessage)] if document.unheard_ids else []
        unheard = {each.tool_call_id: None for each in results if each.id in document.unheard_ids}
        self.unreported_call_ids = {each: None for each in unheard if each in document.executed_call_ids}
        self._shown = {call.id: call for call in (*self.pending_tool_calls, *document.shown_tool_calls)}
        self._latest = {each: call for each in self._shown if (call := self.reducer.tool_call(each)) is not None}
        self.notify(Change.MESSAGES | Change.STATE)

    def branch(self) -> Conversation:
        """Return a conversation over the same messages and state, which can be settled for itself."""
        # Nothing is copied, as `mark_run` and `settle` replace what they change.
        twin = copy.copy(self)
        twin.listeners = []
        return twin

    def clone(self, thread_id: str | None = None) -> Conversation:
        """Return a copy with the same messages, state and pending work, on the same thread unless one is given."""
        twin = Conversation(thread_id or self.thread_id)
        twin.restore(self.snapshot().model_copy(update={"thread_id": twin.thread_id}))
        if twin.thread_id != self.thread_id:
            twin.unreceived = None
        return twin


def document_of(members: Mapping[str, Any]) -> ConversationSnapshot:
    """Return a document with members that are validated apart from the messages, of which there may be thousands."""
    checked: dict[str, Any] = {**members, "messages": []}
    document = ConversationSnapshot(**checked)
    document.messages = members["messages"]
    return document


def _is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Compare the names and arguments of two calls, as JSON where they are JSON."""
    if one.function == other.function:
        return True
    try:
        arguments = [from_json(each.function.arguments or "{}") for each in (one, other)]
    except ValueError:
        return False
    return one.function.name == other.function.name and is_same_json(*arguments)


def _quoted_call(call: ToolCall) -> str:
    return repr(f"{call.function.name}({call.function.arguments})"[:_LONGEST_CALL])


def state_as_json(state: Any) -> Any:
    """Return the application's state as JSON of its own that fits into a saved conversation and a run input.

    Args:
        state: Any JSON value; the models and dataclasses in it are dumped by alias.

    Raises:
        UsageError: It has no JSON form, or is too deep.
    """
    try:
        own = state if nests_deeper(state, DEEPEST_TEXT - 1) else to_jsonable_python(state, by_alias=True)
    except ValueError as error:
        raise UsageError(f"the state cannot be written as JSON: {error}; it was not taken") from None
    if nests_deeper(own, DEEPEST_TEXT - 1):
        raise UsageError(f"the state contains itself, or nests deeper than {DEEPEST_TEXT - 1} levels; it was not taken")
    return own
