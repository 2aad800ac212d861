"""The subagents of a run: a record of each, and its text, from the events that are about it (SUB-5 … SUB-11)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from ag_ui.core import (
    AssistantMessage,
    Event,
    RunFinishedEvent,
    StateDeltaEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolMessage,
    aggregate_token_usage,
)
from pydantic import TypeAdapter, ValidationError

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.outcome import partial_message_ids
from agui_client._core.protocol.placeholders import extension_of
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.reply_parsing import read_reply, written_replies
from agui_client.errors import AGUIError, ParseError

if TYPE_CHECKING:
    from typing import Self

    from ag_ui.core import Message

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.outcome import OutcomeTracker

JOURNAL = "_team"
"""The member of a team's state that says, until the team's run has finished, how far the members have come."""
NO_JOURNAL = "the state has nothing of the run that asked: restore the conversation as it was saved"
"""The problem with answers to a team without a journal."""
_WRAPPED = "outer_state"
"""The member of a journal with the state of a team that is not an object."""
_USAGE = TypeAdapter(list[TokenUsage])
T = TypeVar("T")


class _Caused:
    """The base of records with what exists in this process alone: an exception, and a typed reply."""

    # No fields: the record stays plain data, which is compared, written as JSON and pickled without them.
    __slots__ = ("_exception", "_parsed")

    if TYPE_CHECKING:
        _exception: BaseException | None
        _parsed: Any

    @property
    def exception(self) -> BaseException | None:
        """The exception that it failed with in this process; None if it did not fail, or failed elsewhere or before."""
        return getattr(self, "_exception", None)

    def because_of(self, exception: BaseException | None) -> Self:
        """Take the exception that it failed with."""
        object.__setattr__(self, "_exception", exception)
        return self


@dataclass(frozen=True, slots=True)
class SubagentResult(_Caused, Record, Displayed):
    """One invocation of a subagent."""

    name: str
    """The name that it was announced with."""
    subagent_run_id: str
    """The id of the invocation."""
    status: Literal["running", "success", "suspended", "error", "abandoned"]
    """The state of the subagent: "suspended" waits for answers, "abandoned" was cut off with the run."""
    text: str = ""
    """The last text that it wrote; empty if it wrote none."""
    result: Any = None
    """The result that it ended with, any JSON value; None if there was none."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """Tokens per provider and model; empty where the agent does not say."""
    seconds: float | None = None
    """The seconds from its beginning to its end; None while it is running."""
    error: str | None = None
    """The message of its failure; None if it did not fail."""
    parent_subagent_run_id: str | None = None
    """The invocation that began it; None if the run's own agent did."""
    parent_tool_call_id: str | None = None
    """The tool call that began it, as of an agent that is a tool; None if none did."""

    @property
    def parsed(self) -> Any:
        """The reply as the type of `Member(answer=...)`, for the function that leads the team; None otherwise."""
        return getattr(self, "_parsed", None)

    def as_answer(self, shape: Any) -> Self:
        """Read the reply of a member that has succeeded as the type that the team wants."""
        if shape is not None and self.status == "success":
            # One that has handed over to another member has not replied.
            with suppress(ParseError):
                object.__setattr__(self, "_parsed", self.parse(shape))
        return self

    @property
    def is_partial(self) -> bool:
        """Whether the text is not a reply, as the subagent failed or was stopped before its end."""
        return self.status in ("error", "abandoned") and bool(self.text)

    @overload
    def parse(self, shape: type[T]) -> T: ...
    @overload
    def parse(self, shape: Any) -> Any: ...
    def parse(self, shape: Any) -> Any:
        """Read the reply as a type of your own: `result`, the text as JSON, or JSON in a code fence of the text.

        Args:
            shape: A pydantic model, a dataclass, or any other type that pydantic can validate.

        Returns:
            An instance of it.

        Raises:
            ParseError: Nothing fits; the error names the subagent and quotes what it wrote.
        """
        try:
            return read_reply(written_replies(self.result, "" if self.is_partial else self.text), shape)
        except ParseError as error:
            name_member(error, self.name)
            raise


_End: TypeAlias = SubagentFinishedEvent | SubagentErrorEvent
_ENDS = (SubagentFinishedEvent, SubagentErrorEvent)


def has_journal(state: Any) -> bool:
    """Return whether a state has the journal of a team; an application may use the name otherwise."""
    return is_object(state) and is_object(found := state.get(JOURNAL)) and "flow" in found


def without_journal(state: Any) -> Any:
    """Return a state without the notes of a team: a member is not given them, and does not bring them out."""
    if is_wrapped(state):
        return state[JOURNAL][_WRAPPED]
    if is_object(state) and JOURNAL in state:
        return {name: value for name, value in state.items() if name != JOURNAL}
    return state


def with_journal(state: Any, journal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the notes of a team; one that is not an object is in them."""
    plain = {name: value for name, value in journal.items() if name != _WRAPPED}
    if is_object(state):
        return {**state, JOURNAL: plain}
    return {JOURNAL: {**plain, _WRAPPED: state}}


def is_wrapped(state: Any) -> bool:
    """Return whether a state is not an object, and is in the notes therefore.

    A caller could write an object there, with notes in it that would become the team's.
    """
    is_there = is_object(state) and is_object(journal := state.get(JOURNAL)) and _WRAPPED in journal
    return is_there and not is_object(state[JOURNAL][_WRAPPED])


def with_journal_of(other: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the notes of a team that another state has; without notes if that has none."""
    own = {JOURNAL: other[JOURNAL]} if is_object(other) and JOURNAL in other else {}
    return {**without_journal(state), **own}


def is_of_subagent(conversation: Conversation, tool_call_id: str) -> bool:
    """Return whether a subagent made a call, by the owner of its message."""
    place = conversation.place_of_call(tool_call_id)
    return place is not None and place[0].subagent_run_id is not None


def is_of_a_member(event: object) -> bool:
    """Return whether an event notes in the journal of a team what a member has done, which must not be lost."""
    return isinstance(event, StateDeltaEvent) and any(each.path.startswith(f"/{JOURNAL}/") for each in event.delta)


def subagent_results(
    outcomes: Sequence[OutcomeTracker],
    failures: Mapping[str, BaseException],
    messages: Sequence[Message],
    *,
    is_over: bool,
) -> list[SubagentResult]:
    """Return a record of each subagent of a call, in the order of their beginnings.

    Args:
        outcomes: The outcomes of the call's runs; a subagent that was suspended may continue in a later one.
        failures: The exceptions of subagents that failed in this process, by the ids of the invocations.
        messages: The messages of the conversation.
        is_over: Whether no further event comes.
    """
    started: dict[str, tuple[SubagentStartedEvent, float]] = {}
    ended: dict[str, tuple[_End, float]] = {}
    usage: dict[str, list[TokenUsage]] = {}
    for each in outcomes:
        for subagent_run_id, beginning in each.subagents_started.items():
            started[subagent_run_id] = beginning
            ended.pop(subagent_run_id, None)
        ended |= each.subagents_ended
        for subagent_run_id, (end, _) in each.subagents_ended.items():
            usage.setdefault(subagent_run_id, []).extend(reported_usage(end))
    if not started:
        return []
    texts = {
        each.subagent_run_id: each.content for each in messages if isinstance(each, AssistantMessage) and each.content
    }
    read = _Texts(messages)
    status: Any = "abandoned" if is_over else "running"
    records: list[SubagentResult] = []
    for subagent_run_id, (event, since) in started.items():
        record = SubagentResult(
            event.name,
            subagent_run_id,
            status,
            texts.get(subagent_run_id) or "",
            usage=aggregate_token_usage(usage.get(subagent_run_id, [])),
            parent_subagent_run_id=event.parent_subagent_run_id,
            parent_tool_call_id=event.parent_tool_call_id,
        )
        if subagent_run_id in ended:
            closing, at = ended[subagent_run_id]
            record = replace(_ended(record, closing, read), seconds=at - since)
        records.append(record.because_of(failures.get(subagent_run_id)))
    return records


class _Texts:
    """The texts of a conversation that ends of subagents name: each is made once, as any number may name the same."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self.of_message: Callable[[str], str] = cache(self._of_message)
        """Returns the text of a message by its id."""

    @cached_property
    def _by_id(self) -> Mapping[str, Message]:
        """The messages by their ids, of several with one id the first."""
        return {each.id: each for each in reversed(self._messages)}

    def _of_message(self, message_id: str) -> str:
        message = self._by_id.get(message_id)
        content = None if message is None else message.content
        return content_text(content, "", names_media=False) if isinstance(content, list | str) else ""

    @cached_property
    def of_results(self) -> Mapping[str, str]:
        """The text of the first result of each tool call that has one, by the id of the call."""
        found: dict[str, str] = {}
        for each in self._messages:
            if isinstance(each, ToolMessage) and isinstance(each.content, str):
                found.setdefault(each.tool_call_id, each.content)
        return found


def _ended(record: SubagentResult, closing: _End, read: _Texts) -> SubagentResult:
    """Return the record of a subagent that has ended."""
    named = [*reversed(partial_message_ids(closing))]
    text = next((said for each in [reply_id(closing), *named] if (said := read.of_message(each))), record.text)
    if not text and record.parent_tool_call_id is not None:
        text = read.of_results.get(record.parent_tool_call_id, "")
    record = replace(record, text=text)
    if isinstance(closing, SubagentErrorEvent):
        return replace(record, status="abandoned" if closing.code == "cancelled" else "error", error=closing.message)
    is_waiting = closing.outcome is not None and closing.outcome.type == "suspended"
    return replace(record, status="suspended" if is_waiting else "success", result=closing.result)


def reported_usage(closing: _End) -> list[TokenUsage]:
    """Return the tokens that a subagent's end reports; none where it does not say, or not in a way that is known."""
    try:
        return _USAGE.validate_python(extension_of(closing).get("usage") or [])
    except ValidationError:
        return []


def reply_id(closing: _End | RunFinishedEvent) -> str:
    """Return the id of the message that an end names as the reply; empty if it names none."""
    return str(extension_of(closing).get("messageId") or "")


def usage_of(outcome: OutcomeTracker, asked: Sequence[Event]) -> list[TokenUsage]:
    """Return the tokens of a run, those of its subagents included.

    Args:
        outcome: The outcome of the run.
        asked: The beginnings and ends of agents that its tools asked.
    """
    return outcome.usage + unreported_usage(outcome, asked)


def unreported_usage(outcome: OutcomeTracker, asked: Sequence[Event]) -> list[TokenUsage]:
    """Return the tokens that no end of a run reports: those of agents that tools asked, and of a run without an end.

    Args:
        outcome: The outcome of the run.
        asked: The beginnings and ends of agents that its tools asked.
    """
    if not asked and outcome.is_terminal:  # as nearly every run
        return []
    ends = [event for event in asked if isinstance(event, _ENDS)]
    of_tools = {event.subagent_run_id for event in ends}
    used = [] if outcome.is_terminal else _usage_of_subagents(outcome, of_tools)
    return used + [each for event in ends for each in reported_usage(event)]


def _usage_of_subagents(outcome: OutcomeTracker, of_tools: Collection[str]) -> list[TokenUsage]:
    """Return the tokens of the outermost subagents that report some: that includes those they called.

    Args:
        outcome: The outcome of the run.
        of_tools: The subagents that tools asked, which are counted elsewhere.
    """
    ended = {each: end for each, (end, _) in outcome.subagents_ended.items() if each not in of_tools}
    found = {each: reported_usage(end) for each, end in ended.items()}
    parents = {each: event.parent_subagent_run_id for each, (event, _) in outcome.subagents_started.items()}

    included: dict[str, bool] = {}

    def is_included(subagent: str) -> bool:
        """Return whether a subagent around this one has reported."""
        passed: list[str] = []
        around: str | None = subagent
        while around is not None and around not in included:
            included[around] = False  # Also where subagents are around each other in a circle.
            passed.append(around)
            around = parents.get(around)
        for each in reversed(passed):
            parent = parents.get(each)
            included[each] = parent is not None and (bool(found.get(parent)) or included.get(parent, False))
        return included[subagent]

    return [each for subagent, usage in found.items() if not is_included(subagent) for each in usage]


class SubagentText:
    """Tells the text of subagents from everything else in a stream."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._authors: dict[str, str] = {}

    def text_in(self, event: Event) -> tuple[str, str] | None:
        """Return the name of a subagent and the text that an event adds to its words; None if it adds none.

        Args:
            event: The next event of the stream.
        """
        if isinstance(event, TextMessageContentEvent):
            name = self._authors.get(event.message_id)
            return None if name is None or not event.delta else (name, event.delta)
        if isinstance(event, SubagentStartedEvent):
            self._names[event.subagent_run_id] = event.name
            return None
        owner = event.subagent_run_id if isinstance(event, TextMessageStartEvent) else None
        if isinstance(event, TextMessageStartEvent) and owner is not None and event.role in (None, "assistant"):
            self._authors[event.message_id] = self._names.get(owner, owner)
        return None


def name_member(error: BaseException, name: str) -> None:
    """Note on an exception that it is the failure of a member of a team.

    Args:
        error: The exception.
        name: The name of the member; of inner teams, the outermost comes last.
    """
    if isinstance(error, AGUIError):
        error.member = name if error.member is None else f"{name}/{error.member}"
    elif (note := f"in the member {name!r} of a team") not in getattr(error, "__notes__", ()):
        error.add_note(note)
