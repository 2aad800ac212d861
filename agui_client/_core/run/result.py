"""The result of a turn (`RunResult`), what `inspect()` makes of it, and the conversation after one event (`Snapshot`).

Records, and what can be asked of them. `result_building` fills them, from the turn and its runs; what `parse` reads as
a reply is `reply_parsing`'s.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pydantic_core import to_json, to_jsonable_python

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.files import write_private
from agui_client._core.ground.plain_text import cut_short, failure_text
from agui_client._core.ground.prices import check_prices, cost_of
from agui_client._core.ground.run_content import RunContent
from agui_client._core.ground.secrets import hidden_json, without_opaque
from agui_client._core.plugs import PAGES
from agui_client._core.run.observers import Timings, reconnects_in
from agui_client._core.run.reply_parsing import read_reply, result_replies
from agui_client._core.run.scope import StateT, typed
from agui_client._core.run.subagents import SubagentResult
from agui_client._core.tools.context import ToolExecution
from agui_client._core.tools.interrupts import shown_payload
from agui_client.errors import AGUIError, ParseError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from ag_ui.core import CustomEvent, Event, Message

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.ground.prices import Cost, Prices
    from agui_client._core.ground.sent_secrets import SentSecrets
    from agui_client._core.protocol.warnings import ProtocolWarning
    from agui_client._core.tools.interrupts import AnsweredInterrupt
    from agui_client._core.transport.client import Attempt
    from agui_client._core.transport.response import ResponseInfo
    from agui_client.a2ui import Surface, Surfaces


@dataclass(frozen=True, slots=True, repr=False)
class InspectedRun(Record, Displayed):
    """Everything that happened in a turn: displayed at the end of a cell, written by `print`, saved as a page."""

    result: RunResult[Any]
    """The result of the turn."""
    other: RunResult[Any] | None
    """The result of the turn that it is compared with; None if it is shown alone."""
    prices: Prices | None
    """The prices of a million tokens by the names of models; None if there is no money."""

    def __repr__(self) -> str:
        # As text, because a Python prompt shows the representation.
        text: str = self._repr_mimebundle_()["text/plain"]
        return text

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as an HTML page, which needs no network, readable for its owner alone.

        A turn alone is written as the page of `agui inspect`, on which one can go to any moment; two turns as that of
        `agui inspect A B`.

        Args:
            path: The file.

        Returns:
            The file.

        Raises:
            UsageError: The events of a turn were not kept.
        """
        write_private(Path(path), PAGES[0](self))
        return Path(path)


T = TypeVar("T")

_SHOWN = 200


class TypedState(Generic[StateT]):
    """The base of records with a state, which is an object of the agent's `state_model`, too."""

    # No field: the record stays plain data, which is compared, written as JSON and pickled without the model.
    __slots__ = ("_read_state",)

    if TYPE_CHECKING:
        _read_state: Callable[[Any], StateT] | None

        @property
        def state(self) -> Any:
            """The state, any JSON value."""

    def read_with(self, read: Callable[[Any], StateT] | None) -> Self:
        """Take the function that reads a state as an object of the model; None if there is no model."""
        object.__setattr__(self, "_read_state", read)
        return self

    @property
    def typed_state(self) -> StateT:
        """The state as an object of the agent's `state_model`: a copy, made at each access.

        Raises:
            ParseError: The state does not fit.
            UsageError: The agent has no `state_model`, or this is a copy, such as one that was pickled.
        """
        read: Callable[[Any], StateT] | None = getattr(self, "_read_state", None)
        return typed(self.state, read)


class Inspectable(TypedState[StateT]):
    """The base of the results of turns, of which observers may have kept every event."""

    # No fields, as above: a copy or a pickle has no events.
    __slots__ = ("_before", "_failure", "_kept", "_later", "_prices", "_sent", "_thread")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Work out a field that was left for later: see `defer`."""
            if name != "_later" and name in (later := getattr(self, "_later", ())):
                object.__setattr__(self, name, later[name]())
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    if TYPE_CHECKING:
        _before: Sequence[Message]
        _failure: str
        _thread: Conversation
        _prices: Prices
        _kept: Sequence[Callable[[], Sequence[Any]]]
        _sent: SentSecrets

    @property
    def failure(self) -> str:
        """A sentence about the failure of the turn; empty if it did not fail, or this is a copy."""
        return getattr(self, "_failure", "")

    def fail(self, error: Exception) -> None:
        """Note the failure of the turn; of an exception of the application's own only the class."""
        # A text, as the exception has this result.
        cause: Exception = getattr(error, "raised", None) or error
        message = next(iter(cause.args), None) if isinstance(cause, AGUIError) else None
        object.__setattr__(self, "_failure", failure_text(type(cause).__name__, message))

    def defer(self, **fields: Callable[[], Any]) -> Self:
        """Leave fields to be worked out when they are looked at, as an application may look after each event.

        Args:
            fields: Functions that return the fields, of what is known now.
        """
        for name in fields:
            object.__delattr__(self, name)
        object.__setattr__(self, "_later", fields)
        return self

    def of_thread(self, thread: Conversation, before: Sequence[Message]) -> Self:
        """Take the conversation, whose surfaces are live, and its messages before the turn."""
        object.__setattr__(self, "_thread", thread)
        object.__setattr__(self, "_before", before)
        return self

    def price_with(self, prices: Prices) -> Self:
        """Take the prices that the turn was limited with."""
        object.__setattr__(self, "_prices", prices)
        return self

    def keep(self, kept: Sequence[Callable[[], Sequence[Any]]], sent: SentSecrets) -> Self:
        """Take the functions that read what was kept of the turn, and the secrets that it sent.

        Args:
            kept: The functions; the first that finds something counts.
            sent: The secrets, without which the turn is shown.
        """
        object.__setattr__(self, "_kept", kept)
        object.__setattr__(self, "_sent", sent)
        return self

    def hide_secrets(self, plain: Any) -> Any:
        """Return a JSON value of the turn without secrets, as a recording has it."""
        return hidden_json(plain, self._sent.credentials if hasattr(self, "_sent") else ())

    @property
    def kept_lines(self) -> Sequence[Any]:
        """The lines of a recording of the turn; empty if no observer kept them."""
        readers: Sequence[Callable[[], Sequence[Any]]] = getattr(self, "_kept", ())
        return next((lines for read in readers if (lines := read())), ())


@dataclass(frozen=True, slots=True)
class Snapshot(TypedState[StateT], Record, Displayed):
    """An event, and the conversation with that event in it."""

    event: Event
    """The event."""
    messages: list[Message]
    """The messages, the event's change included; never changed afterwards."""
    state: Any
    """The state, the event's change included; any JSON value, to be read only."""


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Inspectable[StateT], RunContent, Displayed):
    """The result of a turn: of what a verb did. Of a stream with several runs, the last one counts (LIFE-13).

    Where tools were run here, the turn had several runs: outcome, text and run id are those of the last,
    messages, usage, attempts and timings are about all of them.
    """

    warnings: list[ProtocolWarning] = field(default_factory=list["ProtocolWarning"])
    """The deviations from the protocol that were tolerated; empty for a conforming agent."""
    timings: Timings = field(default_factory=Timings)
    """The moments of the call, in seconds since it began."""
    response: ResponseInfo | None = None
    """The HTTP response, of several the last, secrets redacted; None for agents in this process."""
    attempts: list[Attempt] = field(default_factory=list["Attempt"])
    """Every request that was tried, why, and what became of it; empty for agents in this process."""
    tool_executions: list[ToolExecution] = field(default_factory=list["ToolExecution"])
    """The tools that were run here, in the order they were begun; behind them, those that members of a team have run in
    this process."""
    answered: list[AnsweredInterrupt] = field(default_factory=list["AnsweredInterrupt"])
    """The interrupts whose answers the agent was sent, with who answered them."""
    called_ids: list[str] = field(default_factory=list[str])
    """The ids of the tool calls that the agent began; of several runs, in the last."""
    subagents: list[SubagentResult] = field(default_factory=list["SubagentResult"])
    """The subagents that the agent announced, in the order of their beginnings, with the outcome of each."""
    custom: list[CustomEvent] = field(default_factory=list["CustomEvent"])
    """The CUSTOM events of all rounds, in order; their values are objects where `custom_models=` has a type for them,
    and else JSON."""
    incomplete_ids: list[str] = field(default_factory=list[str])
    """The messages and tool calls that the run began and did not complete; empty when it finished."""
    unsent_messages: list[Message] = field(default_factory=list["Message"])
    """Messages of `steer()` that came too late, or before a failure, an abort or a question: no run was sent them."""
    aborted: bool = False
    """Whether the run was stopped from here with `abort_run()` or `cancel()`; then there is no outcome."""
    detached: bool = False
    """Whether the run was left with `detach()`, so that the server may continue it."""

    def __repr__(self) -> str:
        outcome = "aborted=True" if self.aborted else "outcome=None"
        if self.outcome is not None:
            outcome = f"outcome={type(self.outcome).__name__}"
        waiting = f", interrupts={len(self.interrupts)}" if self.interrupts else ""
        if self.pending_tool_calls:
            waiting += f", pending_tool_calls={len(self.pending_tool_calls)}"
        return (
            f"RunResult({outcome}, text={cut_short(self.text, _SHOWN)!r}{waiting}, "
            f"new_messages={len(self.new_messages)}, warnings={len(self.warnings)}, run_id={self.run_id!r})"
        )

    @property
    def surfaces(self) -> Surfaces:
        """The user interfaces of the conversation that the agent sent as A2UI, by their ids.

        They are those of `AbstractAgent.surfaces`, and live; those of a copy of the result are of its `messages`.
        """
        from agui_client.a2ui import Surfaces
        from agui_client.a2ui._live import surfaces_of

        thread: Conversation | None = getattr(self, "_thread", None)
        return Surfaces(self.messages) if thread is None else surfaces_of(thread)

    @property
    def changed_surfaces(self) -> list[Surface]:
        """The surfaces that the turn made or changed, of earlier messages, too, as they are in `messages`.

        A copy of the result knows only those that its new messages made or changed.
        """
        from agui_client.a2ui import Surfaces

        new = {each.id for each in self.new_messages}
        before = getattr(self, "_before", [each for each in self.messages if each.id not in new])
        surfaces = Surfaces(before)
        known = {surface_id: each.revision for surface_id, each in surfaces.items()}
        surfaces.update(self.messages)
        return [each for surface_id, each in surfaces.items() if known.get(surface_id) != each.revision]

    @property
    def reconnects(self) -> int:
        """The number of times that a cut stream was resumed; see `agui_client.reconnect`."""
        return reconnects_in(self.attempts)

    def cost(self, prices: Prices | None = None) -> Cost:
        """Work out what the tokens of the turn cost, as far as the agent reported them.

        Args:
            prices: The prices of a million tokens in US dollars, by the names of models, as `{"gpt-5": (1.25, 10)}`: of
                those that go in, and of those that come out; "*" is for models without a price. None for those of
                `ToolLimits(prices=...)`. Models that are not in it have the prices of genai-prices (extra `cost`).

        Raises:
            UsageError: The prices are none, or there are none and genai-prices is not installed.
        """
        used = getattr(self, "_prices", None) if prices is None else prices
        check_prices(used, "prices=")
        return cost_of(self.usage, used)

    @overload
    def parse(self, shape: type[T]) -> T: ...
    @overload
    def parse(self, shape: Any) -> Any: ...
    def parse(self, shape: Any) -> Any:
        """Read the reply as a type of your own.

        The first of these that fits is the reply: `result`, the text as JSON, JSON in a code fence of the text, an
        object or a list in the text, and the arguments of a tool call of the server's own with which the run ended, as
        pydantic-ai's `output_type` and LangChain's `response_format` make one.

        Args:
            shape: A pydantic model, a dataclass, or any other type that pydantic can validate.

        Returns:
            An instance of it.

        Raises:
            ParseError: Nothing fits; the error quotes what arrived.
        """
        try:
            executed = {each.tool_call_id for each in self.tool_executions}
            return read_reply(result_replies(self, executed, self.called_ids), shape)
        except ParseError as error:
            annotate(error, self)
            raise

    def inspect(self, other: RunResult[Any] | None = None, *, prices: Prices | None = None) -> InspectedRun:
        """Look at everything that happened in the turn, and when; or at the differences from another one.

        A cell that ends with it displays a timeline, the events, messages, changes of the state, tool calls, tokens and
        warnings; `print` writes them. Secrets are left out as in recordings. Events are kept in notebooks, and
        elsewhere if the agent has `record("run.jsonl")` as an observer.

        Args:
            other: The result of another turn, to stand beside this one.
            prices: The prices of a million tokens by the names of models, as `{"gpt-5": (1.25, 10)}`: of those that go
                in, and of those that come out. Other models have the prices of genai-prices, if it is installed (extra
                `cost`); `{}` takes those alone. Without `prices` there is no money.
        """
        return InspectedRun(self, other, prices)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result as one JSON object with a member for each field, protocol objects by their wire names.

        The provider's `encryptedValue`s and secrets in answers to interrupts are left out: this is for logs and files,
        and `agent.snapshot()` for continuing.

        Args:
            indent: The number of blanks to indent by; None for one line.
        """
        plain = to_jsonable_python(self, by_alias=True, fallback=repr)
        for written, answered in zip(plain["answered"], self.answered, strict=True):
            written["entry"]["payload"] = shown_payload(answered)
        return to_json(without_opaque(plain), indent=indent, inf_nan_mode="null").decode()


def annotate(failure: Exception | None, result: RunResult, *, may_have_started: bool = True) -> None:
    """Note on an exception, if there is one, where it happened, and what had arrived; a second time updates that.

    Args:
        failure: The exception.
        result: The result so far.
        may_have_started: Whether the agent may have begun to work on the run.
    """
    if failure is not None:
        result.fail(failure)
    if isinstance(failure, AGUIError):
        failure.thread_id, failure.run_id, failure.partial = result.thread_id, result.run_id, result
        # A request that failed knows that of itself, also where it was another agent's than this run's.
        if not isinstance(failure, TransportError):
            failure.may_have_started = may_have_started
    elif failure is not None:
        # The agent's, a middleware's or a hook's own exception: it stays what it is, and says where it happened.
        note = f"in run {result.run_id!r} of thread {result.thread_id!r}"
        if note not in getattr(failure, "__notes__", ()):
            failure.add_note(note)
