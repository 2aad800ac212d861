"""The errors, as one tree; every error of a run carries its ids and what arrived before it (`partial`).

AGUIError                          problem, fix, thread_id, run_id, may_have_started, partial, member
├─ UsageError (RuntimeError)       the caller: closed run, two consumers, wrong arguments
│  ├─ RunInProgressError           a second run on one agent; clone(thread_id=...) for parallel work
│  ├─ RunNotFoundError             the server keeps no such run
│  ├─ CannotWaitError              the thread waits for what only it could bring
│  ├─ RequestRepeatedError         a caller sent a request again that was carried out
│  │  └─ RequestExpiredError       or answered when the time for it had passed
│  └─ InterruptsNotCoveredError    missing, unknown, duplicate or expired answers
├─ TransportError                  nothing usable arrived
│  ├─ ConnectError
│  ├─ HTTPStatusError(status_code, body, headers, location)
│  ├─ UnexpectedContentTypeError(content_type, body)
│  ├─ ConnectTimeoutError (TimeoutError)
│  └─ StreamTimeoutError (TimeoutError) (silent, keep_alives, last_event)
│     └─ FirstEventTimeoutError · IdleTimeoutError · RunTimeoutError
├─ ProtocolError                   the stream is not AG-UI: rule, event_index
│  ├─ DecodeError · InvalidEventError(path, values)
│  ├─ EventOrderError(event) · StreamTooLargeError
│  └─ IncompleteRunError           ended without a terminal event
├─ RunFailedError                  the agent said RUN_ERROR: code, event
├─ ToolArgumentsError (ValueError) arguments that are not JSON: tool_call_id
├─ ParseError (ValueError)         the reply, or the state, is not of the given type
├─ ToolsetError                    a toolset could not be opened or listed
├─ HistoryError                    history= failed, or parted a call from its result
├─ ThreadStoreError                a stored thread could not be read or written
│  ├─ ThreadBusyError              the thread is in use, or was taken over: retry_after
│  └─ ThreadStoreUnavailableError  the database is away, or locked: is_locked
└─ ToolRoundsExceededError         the agent kept calling tools: rounds
ToolError (Exception)              raised inside a tool; speaks to the agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from agui_client._core.ground.plain_text import brief_traceback, printable, retry_after_in, sendable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ag_ui.core import BaseEvent, RunErrorEvent

    from agui_client._core.ground.run_content import RunContent

__all__ = [
    "AGUIError",
    "CannotWaitError",
    "ConnectError",
    "ConnectTimeoutError",
    "DecodeError",
    "EventOrderError",
    "FirstEventTimeoutError",
    "HTTPStatusError",
    "HistoryError",
    "IdleTimeoutError",
    "IncompleteRunError",
    "InterruptsNotCoveredError",
    "InvalidEventError",
    "ParseError",
    "ProtocolError",
    "RequestExpiredError",
    "RequestRepeatedError",
    "RunFailedError",
    "RunInProgressError",
    "RunNotFoundError",
    "RunTimeoutError",
    "StreamTimeoutError",
    "StreamTooLargeError",
    "ThreadBusyError",
    "ThreadStoreError",
    "ThreadStoreUnavailableError",
    "ToolArgumentsError",
    "ToolError",
    "ToolRoundsExceededError",
    "ToolsetError",
    "TransportError",
    "UnexpectedContentTypeError",
    "UsageError",
]

_SERVER_ERROR = 500
_UNAVAILABLE = 503


class AGUIError(Exception):
    """The root of everything this package raises; its text is one line, even where an agent wrote parts of it."""

    def __str__(self) -> str:
        text = self.problem if self.fix is None else f"{self.problem}; {self.fix}"
        return printable(text if self.member is None else f"{self.member}: {text}")

    @property
    def problem(self) -> str:
        """The text without `fix`, and without the member of a team."""
        return super().__str__()

    def _render_traceback_(self) -> list[str]:
        return brief_traceback(self)

    fix: str | None = None
    """The remedy on this side; None where nothing is to be done here, or the problem says it."""
    thread_id: str | None = None
    """The conversation the run belonged to; None when there was no run."""
    run_id: str | None = None
    """The run that failed; None when there was no run."""
    may_have_started: bool = True
    """Whether the agent may have begun to work on the run; False only if it certainly has not. After a lost response,
    ask again with `run_id=error.run_id`: a server that keeps its runs does not begin another one."""
    member: str | None = None
    """The member of a team whose run failed, as in "office/clerk" with the teams inside of it; None for no member."""
    partial: RunContent | None = None  # of the base of results, as the errors stand below everything that raises them
    """The `RunResult` so far when the run failed; None when there was no run. Its messages stay on the agent."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        # Without its constructor, which takes more than `args`.
        return type(self).__new__, (type(self), *self.args), {**self.__dict__, "args": self.args}


class UsageError(AGUIError, RuntimeError):
    """The call cannot be carried out as written: nothing was sent, unless a run was left that had begun."""

    may_have_started = False


class RunInProgressError(UsageError):
    """The agent is in the middle of a run; `clone(thread_id=...)` it for parallel work."""


class RunNotFoundError(UsageError):
    """The server keeps no such run: it never began, is kept no longer, or belongs to another caller."""


class InterruptsNotCoveredError(UsageError):
    """A resume must answer every pending interrupt exactly once; nothing was sent (INT-3, INT-4, INT-5).

    Args:
        reason: What is missing or does not fit.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"nothing was sent: {reason}")
        self.reason = reason


class RequestRepeatedError(UsageError):
    """A caller of a served agent sent a request again: its run has begun before, or what it answers was answered."""


class RequestExpiredError(RequestRepeatedError):
    """A caller of a served agent answered an interrupt whose time has passed."""


class CannotWaitError(UsageError):
    """The call blocks the thread that would have to bring what it waits for, so it would wait for ever."""


class TransportError(AGUIError):
    """No usable response arrived, or the connection broke."""


class ConnectError(TransportError):
    """The connection could not be made, or it broke before the stream ended."""


class HTTPStatusError(TransportError):
    """The server refused the run with an HTTP error status; the run never started (SSE-8).

    Args:
        message: What happened, with the first characters of the body.
        status_code: The HTTP status, 300 to 599.
        body: The response body as text, at most 64 KiB of it.
        headers: The response headers, those that may hold secrets left out.
        location: The address that a redirect points to, without what may be secret; None for no redirect.
    """

    def __init__(
        self, message: str, *, status_code: int, body: str, headers: Mapping[str, str], location: str | None = None
    ) -> None:
        super().__init__(message)
        self.location = location
        self.status_code = status_code
        self.body = body
        self.headers = headers
        self.may_have_started: bool = status_code >= _SERVER_ERROR and status_code != _UNAVAILABLE


class UnexpectedContentTypeError(TransportError):
    """The response is not an event stream (SSE-3).

    Args:
        message: What arrived instead, with the first 512 characters of the body.
        content_type: The media type that arrived; empty when there was none.
        body: The first 512 characters of the body.
    """

    def __init__(self, message: str, *, content_type: str, body: str) -> None:
        super().__init__(message)
        self.content_type = content_type
        self.body = body


class ConnectTimeoutError(TransportError, TimeoutError):
    """The connection was not made within `Timeouts.connect` seconds."""

    may_have_started = False
    is_pool_full: bool = False
    """Whether the HTTP client was the reason: it had no connection free within `Timeouts.pool` seconds."""


class StreamTimeoutError(TransportError, TimeoutError):
    """The request was sent, and then something took too long.

    Args:
        message: Which limit was passed, and what was seen of the stream until then.
        silent: For how long not a byte had arrived, in seconds.
        keep_alives: How many comments had arrived, which servers send to keep a quiet stream alive.
        last_event: The type of the last event that arrived; None if there was none.
        fix: What to do about it on this side.
    """

    def __init__(
        self, message: str, *, silent: float, keep_alives: int, last_event: str | None, fix: str | None = None
    ) -> None:
        super().__init__(message)
        self.fix = fix
        self.silent = silent
        self.keep_alives = keep_alives
        self.last_event = last_event


class FirstEventTimeoutError(StreamTimeoutError):
    """The first event did not arrive within `Timeouts.first_event` seconds."""


class IdleTimeoutError(StreamTimeoutError):
    """Not a byte arrived for `Timeouts.idle` seconds."""


class RunTimeoutError(StreamTimeoutError):
    """The call took longer than `Timeouts.total` seconds, its runs and tools together."""


class _About(TypedDict, total=False):
    event_index: int | None
    fix: str | None
    place: str


class ProtocolError(AGUIError):
    """The stream is not AG-UI; what had arrived before stays delivered (LIFE-8).

    Args:
        problem: What the producer did.
        rule: The id of the rule that was broken, such as "LIFE-1".
        about: `event_index`, the position of the event in the stream, from 0, or None for the whole stream; `fix`,
            what to do about it on this side; `place`, the beginning of the text, which names the event.
    """

    def __init__(self, problem: str, *, rule: str, **about: Unpack[_About]) -> None:
        self.rule: str = rule
        self.place: str = about.get("place", "")
        self.event_index: int | None = about.get("event_index")
        self.fix: str | None = about.get("fix")
        super().__init__(f"{self.place}{problem}")


class DecodeError(ProtocolError):
    """A frame holds no event: broken UTF-8, broken JSON, or JSON without a type (PROC-12)."""


class InvalidEventError(ProtocolError):
    """An event of a known type holds a value the protocol's schema rejects (PROC-6, PROC-17).

    Args:
        problem: The first values that were refused.
        rule: The rule that was broken.
        values: Each refused value: the rule, the JSON pointer, such as "/timestamp", and a sentence, pointer included;
            if the lists of the event have more than a thousand elements, only the first one of each list.
        about: See `ProtocolError`.
    """

    def __init__(
        self, problem: str, *, rule: str, values: Sequence[tuple[str, str, str]], **about: Unpack[_About]
    ) -> None:
        super().__init__(problem, rule=rule, **about)
        self.values: list[tuple[str, str, str]] = [(rule, path, printable(sentence)) for rule, path, sentence in values]
        self.path: str = self.values[0][1]
        self.errors: list[str] = [sentence for _, _, sentence in self.values]


class EventOrderError(ProtocolError):
    """An event came where the protocol does not allow it (LIFE, STREAM, CHUNK, SUB).

    Args:
        problem: What the producer did wrong, with the ids.
        rule: The rule that was broken.
        event: The event that broke it.
        about: See `ProtocolError`.
    """

    def __init__(self, problem: str, *, rule: str, event: BaseEvent, **about: Unpack[_About]) -> None:
        super().__init__(problem, rule=rule, **about)
        self.event = event


class StreamTooLargeError(ProtocolError):
    """One frame is larger than `max_event_bytes`, or a run brings more than `max_run_bytes`."""


class IncompleteRunError(ProtocolError):
    """The stream ended without RUN_FINISHED or RUN_ERROR: the run has no outcome (TRUNC-1)."""


class RunFailedError(AGUIError):
    """The agent reported RUN_ERROR (LIFE-7), or raised an exception in this process, which is the `__cause__`.

    Args:
        event: The RUN_ERROR as it arrived, or, for an exception, as others get it: without its text.
        raised: The exception.
    """

    def __init__(self, event: RunErrorEvent, *, raised: Exception | None = None) -> None:
        said = event.message if event.code is None else f"{event.message} (code {event.code})"
        super().__init__(said if raised is None else str(raised))
        self.event: RunErrorEvent = event
        self.raised: Exception | None = raised
        if raised is not None:
            self.__cause__: BaseException | None = raised

    @property
    def code(self) -> str | None:
        """The agent's machine-readable code; None when it gave none."""
        return self.event.code

    @property
    def retry_after(self) -> float | None:
        """The seconds after which a server behind the agent may be asked again; None if it did not say."""
        return retry_after_in(self.event.metadata)


class ToolRoundsExceededError(AGUIError):
    """The agent called tools again and again, and a limit of the rounds was reached.

    Args:
        message: Which limit, and what may raise it.
        rounds: The number of rounds of tool calls that were executed.
    """

    def __init__(self, message: str, *, rounds: int) -> None:
        super().__init__(message)
        self.rounds = rounds


class ToolsetError(AGUIError):
    """A toolset could not be opened, could not list its tools, or lost its connection; `__cause__` says why."""


class HistoryError(AGUIError):
    """The messages to send could not be chosen by the function of `history=`; `__cause__` says why if it failed."""


class ThreadStoreError(AGUIError):
    """A stored thread could not be read or written."""


class ThreadBusyError(ThreadStoreError):
    """Another block has the thread, or took it after this one's lease ran out; nothing of it was overwritten.

    Args:
        message: The thread, and what to do about it.
        retry_after: The seconds until the lease of the other block runs out; None if that is not known.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ThreadStoreUnavailableError(ThreadStoreError):
    """The database of the threads cannot be reached now, or another program has it locked; the next use tries again.

    Whether the operation was carried out is unknown if the connection broke in the middle of it.

    Args:
        message: The message of the database.
        is_locked: Whether it is a database of SQLite that another program has locked.
    """

    def __init__(self, message: str, *, is_locked: bool = False) -> None:
        super().__init__(message)
        self.is_locked = is_locked


class ToolArgumentsError(AGUIError, ValueError):
    """The arguments of a tool call were asked for, and are not JSON; the run continues (TOOL-2).

    Args:
        message: What is wrong with them.
    """

    def __init__(self, message: str, *, tool_call_id: str) -> None:
        super().__init__(message)
        self.tool_call_id = tool_call_id


class ParseError(AGUIError, ValueError):
    """The reply of a run, or the state, is not of the type that it was to be read as.

    See `RunResult.parse` and `agent.typed_state`.
    """


class ToolError(Exception):
    """Raised inside a tool to tell the agent what went wrong; no error of the run, which continues (TOOL-10).

    In `tool_results=`, it is the result of a call whose tool runs elsewhere and failed.

    Args:
        message: A sentence the agent can act on.
        code: A short name of the kind of failure, which the agent gets behind the sentence.
        suggestion: A sentence about what to do instead, which the agent gets at the end.
    """

    def __init__(self, message: str, *, code: str | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.suggestion = suggestion

    @property
    def message(self) -> str:
        """The text as it can be sent, such as "No such city. (code: unknown_city) Suggestion: Ask for another one."."""
        code = None if self.code is None else f"(code: {self.code})"
        suggestion = None if self.suggestion is None else f"Suggestion: {self.suggestion}"
        return sendable(" ".join(part for part in (str(self), code, suggestion) if part is not None))
