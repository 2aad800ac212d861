"""A conversation: messages, state and pending interrupts of one thread, saved and restored as one document."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

from ag_ui.core import AssistantMessage, Interrupt, Message, ResumeEntry, ToolMessage
from pydantic import BaseModel, ConfigDict, Field

from agui_client._pipeline.extent import DEEPEST_TEXT, nests_deeper
from agui_client._pipeline.reduce import Change, Reducer
from agui_client.errors import RunInProgressError, UsageError
from agui_client.interrupts import Resume, cancel_all, cover
from agui_client.messages import MessageLike, as_messages

if TYPE_CHECKING:
    from ag_ui.core import ToolCall

    from agui_client._pipeline.replies import Replies

Listener = Callable[[Change], None]


class ConversationSnapshot(BaseModel):
    """A conversation as a document: `model_dump_json()` it, keep it anywhere, `restore()` it in another process."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    version: Literal[1] = 1
    """The version of this document's shape."""
    thread_id: str
    """The conversation."""
    messages: list[Message] = Field(default_factory=list["Message"])
    """Its messages, in order."""
    state: Any = None
    """Its state, any JSON value."""
    pending_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """What its last run waits for."""
    abandoned: bool = False
    """Whether the next run abandons those interrupts."""
    pending_tool_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls its last run left to the application."""
    kept_answers: list[ResumeEntry] = Field(default_factory=list["ResumeEntry"])
    """Answers to interrupts of that run that were given already, and go out with the rest."""
    incomplete_ids: list[str] = Field(default_factory=list[str])
    """The messages and tool calls that runs began and did not complete."""
    executed_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls whose functions were called; none of them is called again."""
    unfinished_call_ids: list[str] = Field(default_factory=list[str])
    """The tool calls of runs that did not finish; no function is called for one unless somebody approves it."""
    unheard_ids: list[str] = Field(default_factory=list[str])
    """The messages that were said to runs which then never started; saying one again does not say it twice."""


class Conversation:
    """Messages, state and interrupts of one thread, and the lock that keeps runs on it apart.

    Args:
        thread_id: The thread; None mints an id.
        messages: What was said before.
        state: The state both sides write, any JSON value.
    """

    def __init__(self, thread_id: str | None = None, messages: Iterable[MessageLike] = (), state: Any = None) -> None:
        self.thread_id = thread_id or str(uuid4())
        """The thread."""
        self.reducer = Reducer(as_messages(messages), {} if state is None else _state_of_our_own(state))
        """Where events become messages and state."""
        self.pending_interrupts: list[Interrupt] = []
        """What the last run waits for."""
        self.pending_tool_call_ids: list[str] = []
        """The tool calls the last run left to the application, whether answered since or not."""
        self.postponed_ids: Sequence[str] = ()
        """Of those, the ones that stay pending although the conversation went on."""
        self.incomplete_ids: list[str] = []
        """The messages and tool calls that runs began and did not complete."""
        self.executed_call_ids: dict[str, None] = {}
        """The tool calls whose functions were called here, in order; none of them is called again."""
        self.unfinished_call_ids: list[str] = []
        """The tool calls of runs that did not finish; no function is called for one unless somebody approves it."""
        self.unstarted: Sequence[Message] = ()
        """What was said to runs that then never started; saying it again does not say it twice."""
        self._kept: list[ResumeEntry] = []
        self._abandoned = False
        self._is_running = False
        self.listeners: list[Listener] = []
        """Who hears of every change."""
        self.ahead: Reducer | None = None
        """While a run that has a reducer of its own is answered, that one; what is edited here is edited there."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Hold the conversation for one run.

        Raises:
            RunInProgressError: Another run holds it.
        """
        if self._is_running:
            raise RunInProgressError(
                f"thread {self.thread_id!r} is in the middle of a run; wait for it, abort_run() it, "
                "or clone() the agent for parallel work"
            )
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    @property
    def is_running(self) -> bool:
        """Whether a run holds the conversation."""
        return self._is_running

    @property
    def pending_tool_calls(self) -> list[ToolCall]:
        """The tool calls the last run left to the application that nobody answered since."""
        answered = {each.tool_call_id for each in self.reducer.messages if isinstance(each, ToolMessage)}
        calls = [self.reducer.tool_call(each) for each in self.pending_tool_call_ids if each not in answered]
        return [call for call in calls if call is not None]

    def add_messages(self, messages: Iterable[MessageLike]) -> None:
        """Append messages."""
        if added := as_messages(messages):
            self._edit(lambda reducer: reducer.add_messages(added), Change.MESSAGES)

    def add_results(self, results: Sequence[ToolMessage]) -> None:
        """Put results of tool calls where they belong."""
        if results:
            self.reducer.add_results(results)
            self.notify(Change.MESSAGES)

    def take_back(self, messages: Iterable[Message]) -> None:
        """Remove messages that were added for a run which then could not be sent."""
        taken = {message.id for message in messages}
        self.set_messages([message for message in self.reducer.messages if message.id not in taken])

    def set_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace all messages."""
        held = as_messages(messages)
        self._edit(lambda reducer: reducer.set_messages(held), Change.MESSAGES)

    def set_state(self, state: Any) -> None:
        """Replace the state; the value is copied, so that it stays the caller's."""
        held = _state_of_our_own(state)
        self._edit(lambda reducer: reducer.set_state(held), Change.STATE)

    def answers(self, resume: Resume | None) -> list[ResumeEntry]:
        """The resume entries of the next run.

        Args:
            resume: The caller's answers; None if there are none.

        Returns:
            One entry per pending interrupt, or none.

        Raises:
            InterruptsNotCoveredError: The answers do not cover the pending interrupts.
        """
        if self._abandoned and resume is None:
            return self._kept + cancel_all(self.pending_interrupts)
        return self._kept + cover(self.pending_interrupts, resume)

    def keep(self, replies: Replies) -> None:
        """Keep the answers that were given while others still wait for the caller."""
        if not replies.goes_on:
            answered = {entry.interrupt_id for entry in replies.entries}
            self.pending_interrupts = [each for each in self.pending_interrupts if each.id not in answered]
            self._kept += replies.entries

    def abandon_interrupts(self) -> None:
        """Let the next run abandon whatever is pending."""
        self._abandoned = True

    def mark(self, incomplete_ids: Iterable[str], completed_ids: Collection[str] = ()) -> None:
        """Take note of what a run did not complete, and of what it did after all."""
        before = [item_id for item_id in self.incomplete_ids if item_id not in completed_ids]
        self.incomplete_ids = list(dict.fromkeys([*before, *incomplete_ids]))

    def mark_calls(self, unfinished_ids: Iterable[str], finished_ids: Collection[str] = ()) -> None:
        """Take note of the calls of runs that did not finish, and of those that were made by one which did."""
        before = [each for each in self.unfinished_call_ids if each not in finished_ids]
        self.unfinished_call_ids = list(dict.fromkeys([*before, *unfinished_ids]))

    def settle(self, interrupts: Sequence[Interrupt], tool_calls: Sequence[ToolCall]) -> None:
        """Replace what is pending by what a run left; calls that an interrupt is about go with the interrupt."""
        asked_about = {interrupt.tool_call_id for interrupt in interrupts}
        self.pending_interrupts = list(interrupts)
        left = [call.id for call in tool_calls if call.id not in asked_about]
        self.pending_tool_call_ids = list(dict.fromkeys([*self.postponed_ids, *left]))
        self.postponed_ids = ()
        self._kept = []
        self._abandoned = False

    def note_started(self) -> None:
        """Take note that a run has begun, so that all that was said was heard."""
        self.unstarted = ()

    def note_unstarted(self, said: Sequence[Message]) -> None:
        """Take note that a run never started, and of what was said to it."""
        held = {message.id for message in self.reducer.messages}
        self.unstarted = [*(message for message in self.unstarted if message.id in held), *said]

    def is_repeated(self, message: Message) -> bool:
        """Whether this was the last thing said, to a run that never started."""
        last = self.reducer.messages[-1:]
        return any(held.id == last[0].id and _says_the_same(held, message) for held in self.unstarted if last)

    def unstarted_results(self, tool_call_ids: Collection[str]) -> list[ToolMessage]:
        """The answers to these calls that were given to a run that never started."""
        held = {message.id for message in self.reducer.messages}
        given = [each for each in self.unstarted if isinstance(each, ToolMessage) and each.id in held]
        return [message for message in given if message.tool_call_id in tool_call_ids]

    def carried_out_unheard(self, tool_call_ids: Collection[str]) -> set[str]:
        """Of these calls the ones that were carried out for a run that never started."""
        answered = {message.tool_call_id for message in self.unstarted_results(tool_call_ids)}
        return answered & self.executed_call_ids.keys()

    def check_results(self, results: Mapping[str, object]) -> list[str]:
        """Hold answers to tool calls against the calls (TOOL-10).

        Args:
            results: The answers by tool call id.

        Returns:
            The pending calls that stay without an answer.

        Raises:
            UsageError: An answer is to no call, or to one that was answered before.
        """
        messages = self.reducer.messages
        called = {call.id for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls or ()}
        answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        renewable = {message.tool_call_id for message in self.unstarted_results(answered)}
        for tool_call_id in results:
            if tool_call_id not in called or tool_call_id in answered - renewable:
                state = "has a result already" if tool_call_id in answered else "was never made"
                raise UsageError(f"tool_results answers {tool_call_id!r}, a call that {state}; nothing was sent")
        return [each for each in self.pending_tool_call_ids if each not in results and each not in answered]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of every change to messages or state.

        Args:
            listener: Called with what changed.

        Returns:
            A function that stops it; idempotent.
        """
        self.listeners.append(listener)

        def stop() -> None:
            """Hear no more."""
            with suppress(ValueError):
                self.listeners.remove(listener)

        return stop

    def notify(self, change: Change) -> None:
        """Tell the listeners."""
        for listener in tuple(self.listeners):
            listener(change)

    def _edit(self, edit: Callable[[Reducer], None], change: Change) -> None:
        edit(self.reducer)
        if self.ahead is not None:
            edit(self.ahead)
        self.notify(change)

    def snapshot(self) -> ConversationSnapshot:
        """The conversation as a document."""
        return ConversationSnapshot(
            thread_id=self.thread_id,
            messages=self.reducer.messages,
            state=copy.deepcopy(self.reducer.state),
            pending_interrupts=self.pending_interrupts,
            abandoned=self._abandoned,
            pending_tool_call_ids=[call.id for call in self.pending_tool_calls],
            kept_answers=self._kept,
            incomplete_ids=self.incomplete_ids,
            executed_call_ids=list(self.executed_call_ids),
            unfinished_call_ids=self.unfinished_call_ids,
            unheard_ids=[message.id for message in self.unstarted],
        )

    def restore(self, document: ConversationSnapshot) -> None:
        """Become what a document says.

        Raises:
            RunInProgressError: A run holds the conversation.
        """
        if not isinstance(cast("object", document), ConversationSnapshot):
            raise UsageError("restore() takes a ConversationSnapshot; read one with model_validate_json(text)")
        with self.running():
            # It may refuse: nothing is taken over then.
            self.reducer.set_messages(document.messages)
            # An older document of this thread does not know what was executed since.
            executed = self.executed_call_ids if document.thread_id == self.thread_id else {}
            self.executed_call_ids = {**dict.fromkeys(document.executed_call_ids), **executed}
            self.thread_id = document.thread_id
            self.reducer.set_state(copy.deepcopy(document.state))
            self.pending_interrupts = list(document.pending_interrupts)
            self.pending_tool_call_ids = list(document.pending_tool_call_ids)
            self.incomplete_ids = list(document.incomplete_ids)
            self.unfinished_call_ids = list(document.unfinished_call_ids)
            self.unstarted = [message for message in document.messages if message.id in document.unheard_ids]
            self.postponed_ids = ()
            self._kept = list(document.kept_answers)
            self._abandoned = document.abandoned
        self.notify(Change.MESSAGES | Change.STATE)

    def clone(self, thread_id: str | None = None) -> Conversation:
        """A second line of thought: the same messages, state and interrupts, on the same thread unless one is given."""
        twin = Conversation(thread_id or self.thread_id)
        twin.restore(self.snapshot().model_copy(update={"thread_id": twin.thread_id}))
        return twin


def _state_of_our_own(state: Any) -> Any:
    """A copy of the application's state, which fits into a saved conversation and a run input as their one member."""
    if nests_deeper(state, DEEPEST_TEXT - 1):
        raise UsageError(f"the state contains itself, or nests deeper than {DEEPEST_TEXT - 1} levels; it was not taken")
    return copy.deepcopy(state)


def _says_the_same(held: Message, message: Message) -> bool:
    return type(held) is type(message) and held.content == message.content
