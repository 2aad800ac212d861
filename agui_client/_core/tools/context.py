"""A tool call during execution: its checked arguments, the tool's context, and the record for observers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar, overload
from uuid import uuid4

import anyio
from ag_ui.core import ActivitySnapshotEvent, Event, EventType, Interrupt, Message, ToolMessage
from pydantic import ValidationError
from pydantic_core import to_json

from agui_client._core.ground.concurrency import LoopThread
from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import printable
from agui_client._core.ground.secrets import hidden_text
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import ToolDecision
from agui_client._core.tools.questions import NOBODY, ToolQuestion, UnansweredError
from agui_client.errors import ToolError, UsageError

AnswerT = TypeVar("AnswerT")

MOST_REPORTS = 100
"""The number of progress reports that are kept of one execution."""

ToolStatus = Literal["waiting", "running", "succeeded", "failed", "denied", "timed out", "cancelled"]
"""The stage of a tool's execution; "waiting" is for approval, or for its turn."""


@dataclass(frozen=True, slots=True)
class BoundCall(Record):
    """A tool call with arguments that were checked; an approval executes the very object that was shown."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """The arguments as JSON by their wire names, as the tool gets them: rules and approvers see these."""
    values: Any = field(default=None, repr=False)
    """Anything that the toolset wants to find here when the call is executed."""


class FailureName(str):
    """The class of the exception that failed a call, as a text.

    Displays say why the call failed by the exception's own text beside it, which no JSON, log or `repr` has: it may be
    what the tool was called with, or what a database has returned.
    """

    text: str = ""
    """The exception's text, in one line and without secrets."""

    @classmethod
    def from_exception(cls, error: BaseException) -> FailureName:
        """Name an exception."""
        name = cls(type(error).__qualname__)
        with suppress(Exception):  # of the application's own classes, whose texts may fail
            name.text = printable(hidden_text(str(error)))
        return name


@dataclass(frozen=True, slots=True)
class ToolExecution(Record, Displayed):
    """The execution of one tool call, as it was at one moment."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    status: ToolStatus
    """The stage of the execution."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments as JSON by their wire names, as the tool gets them: those of an approval, before that the agent's;
    empty if these do not fit the tool's schema."""
    progress: Sequence[Any] = ()
    """The latest 100 values that the tool passed to `ctx.report(...)`, in order."""
    message: ToolMessage | None = None
    """The result for the agent; None before the end."""
    seconds: float | None = None
    """The time that the tool ran, in seconds, until it ended or was stopped; None if it did not run, or is running."""
    description: str = ""
    """The tool's description, as the agent was offered it."""
    error: str | None = None
    """The class of the exception that failed the call, or "denied", "timeout" or "cancelled"; None if none."""
    question: ToolQuestion | None = None
    """The question that nobody answered, if the call waits for the answer, to be made again with it; None if none."""
    decision: ToolDecision | None = None
    """The decision about the call; None if it wanted none, or is not decided."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolContext(Record):
    """The circumstances of a tool call; a function gets them as its first parameter if that is `ctx: ToolContext`."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name, as the agent knows it."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments of the call as JSON; the function's parameters are the same values, validated."""
    thread_id: str
    """The id of the conversation."""
    run_id: str
    """The id of the run that made the call."""
    messages: Sequence[Message] = field(default=(), repr=False)
    """The conversation when the call was made."""
    state: Any = field(default=None, repr=False)
    """The state when the call was made; to be read only, and not to be trusted (SEC-6)."""
    on_report: Callable[[Any], None] | None = field(default=None, repr=False)
    """A function that takes what `report` is given, in the event loop's thread; None drops it."""
    on_ask: Callable[[Interrupt], Awaitable[Any]] | None = field(default=None, repr=False)
    """A function that has a question answered, and returns the answer as JSON; None if there is nobody to ask."""
    left: Any = field(default=None, repr=False)
    """The value that an earlier execution of the same call left, before it asked a question that was answered since."""
    on_leave: Callable[[Any], None] | None = field(default=None, repr=False)
    """A function that takes what `leave` is given; None drops it."""
    on_event: Callable[[Event, BaseException | None], None] | None = field(default=None, repr=False)
    """A function that takes what `show_activity` makes, and the beginning or end of an agent that the tool asks, as of
    a subagent of the run, with the exception that it failed with; None drops it."""
    ended: threading.Event = field(default_factory=threading.Event, repr=False)
    """An event that is set when the call is over; a function in a thread can wait on it instead of sleeping."""
    loop: LoopThread | None = field(default=None, repr=False)
    """The event loop that executes the tool; None where a test calls the tool by itself."""
    _open: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope], init=False, repr=False)
    """The cancel scopes of questions that are not answered yet."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled or took too long, so that the tool can stop."""
        return self.ended.is_set()

    def report(self, progress: Any) -> None:
        """Report progress to those who watch the run; the agent does not get it.

        Never waits; a report after the call's end is dropped.

        Args:
            progress: Anything; a plain function's thread may continue meanwhile, so the value should change no more.
        """
        if self.loop is None:
            self._deliver(progress)
        else:
            self.loop.call(partial(self._deliver, progress))

    @overload
    async def ask(self, question: str, answer: None = None, *, timeout: float | None = None) -> str: ...
    @overload
    async def ask(self, question: str, answer: type[AnswerT], *, timeout: float | None = None) -> AnswerT: ...
    @overload
    async def ask(self, question: str, answer: Any, *, timeout: float | None = None) -> Any: ...
    async def ask(self, question: str, answer: Any = None, *, timeout: float | None = None) -> Any:
        """Ask the person at the application, through the agent's `answer=`; see `ask_sync` for plain functions.

        Args:
            answer: The type of the answer: None for text, a pydantic model or any type that pydantic knows, or a JSON
                Schema.
            timeout: The time that the person has, in seconds; the tool's own time-out continues meanwhile.

        Returns:
            The answer: text, an instance of the type, or the JSON that fits the schema.

        Raises:
            ToolError: There is nobody to ask, or no answer that fits; the call fails with a message for the agent.
        """
        kind: Any = str if answer is None else answer
        adapter = None if is_object(kind) else type_adapter(kind, "ask", is_read_now=True)
        schema: Any = answer if adapter is None else adapter.json_schema()
        asked = Interrupt(
            id=str(uuid4()),
            reason="tool_question",
            message=question,
            tool_call_id=self.tool_call_id,
            response_schema=schema,
        )
        payload = await self._answer(asked, timeout)
        try:
            return payload if adapter is None else adapter.validate_json(to_json(payload))
        except ValidationError as error:
            raise ToolError(f"The answer to this tool's question does not fit: {error.errors()[0]['msg']}.") from error

    @overload
    def ask_sync(self, question: str, answer: None = None, *, timeout: float | None = None) -> str: ...
    @overload
    def ask_sync(self, question: str, answer: type[AnswerT], *, timeout: float | None = None) -> AnswerT: ...
    @overload
    def ask_sync(self, question: str, answer: Any, *, timeout: float | None = None) -> Any: ...
    def ask_sync(self, question: str, answer: Any = None, *, timeout: float | None = None) -> Any:
        """`ask` for plain functions: the tool's thread waits for the answer.

        Args:
            answer: The type of the answer, as for `ask`.
            timeout: The time that the person has, in seconds.

        Returns:
            The answer.

        Raises:
            ToolError: As `ask`.
            UsageError: This is the event loop's thread, which must not wait: use `await ctx.ask(...)`.
        """
        if self.loop is None:
            raise ToolError(NOBODY)
        if self.loop.is_here:
            raise UsageError("ask_sync() would block the event loop; in a coroutine function use `await ctx.ask(...)`")
        return self.loop.run(partial(self.ask, question, answer, timeout=timeout))

    def leave(self, left: Any) -> None:
        """Leave what the tool needs to continue, before it asks: an unanswered call is made again with the answer.

        Answers to what was asked before are not given again.

        Args:
            left: Any JSON value; `left` of the next execution.
        """
        if self.on_leave is not None:
            self.on_leave(left)

    def show_activity(self, activity_type: str, content: Mapping[str, Any]) -> None:
        """Show something to the person, beside the result, as an activity of the conversation: the agent never gets it.

        It follows the result of the call, in the conversation and in the events of the run; a view draws it
        (`@renders(activity=...)`).

        Args:
            activity_type: The type of the activity, which says how its content is drawn.
            content: The content, a JSON object.
        """
        event = ActivitySnapshotEvent(
            type=EventType.ACTIVITY_SNAPSHOT,
            message_id=f"{activity_type}-{uuid4()}",
            activity_type=activity_type,
            content=dict(content),
            replace=True,
        )
        if self.on_event is not None and not self.is_cancelled:
            self.on_event(event, None)

    async def _answer(self, asked: Interrupt, timeout: float | None) -> Any:
        if self.on_ask is None:
            raise UnansweredError(asked)
        # A thread cannot be cancelled, and its question is withdrawn when the call is over.
        with anyio.move_on_after(timeout) as scope:
            self._open.add(scope)
            try:
                if not self.is_cancelled:
                    return await self.on_ask(asked)
            finally:
                self._open.discard(scope)
        if self.is_cancelled:
            raise ToolError("The tool call was over before its question was answered.")
        raise ToolError(f"Nobody answered this tool's question within {timeout:g} seconds.")

    def end(self) -> None:
        """Mark the call as over, in the event loop's thread; open questions are withdrawn."""
        self.ended.set()
        for scope in self._open:
            scope.cancel()

    def _deliver(self, progress: Any) -> None:
        if self.on_report is not None and not self.is_cancelled:
            self.on_report(progress)


def log_failure(logger: logging.Logger, error: BaseException, what: str, *args: object) -> None:
    """Log an exception of the application's code around tools: its class as an error, text and traceback for debugging.

    The text may be what the tool was called with, or what a database or a server has returned; that of a
    `UsageError` is ours, and says what to change in the program.

    Args:
        error: The exception.
        what: The beginning of the record, with places for the arguments.
        args: The arguments.
    """
    has_details = logger.isEnabledFor(logging.DEBUG)
    kind = f"UsageError: {error}" if type(error) is UsageError else type(error).__qualname__
    logger.error("%s: %s", what % args, kind, extra={"has_details": has_details})
    logger.debug(what, *args, exc_info=error)
