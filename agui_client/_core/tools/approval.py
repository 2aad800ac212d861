"""Approval of tool calls: the request that an approver sees, and the decisions that count (SEC-3).

Only the literal `True` or an `Approve` approves, and only `False` or a `Deny` denies: anything else is a mistake of the
program, and decides nothing. The question that a person reads is made of the call's arguments by `question_text`
(`@tool(ask=...)`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal, TypeAlias, cast

from ag_ui.core import Message, Tool
from pydantic_core import to_json

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import cut_short, sendable
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_a, is_object
from agui_client.errors import UsageError

DENIED = "The user denied this tool call."
"""The reason that the agent gets when the approver gave none."""


def check_metadata(metadata: object) -> None:
    """Check the metadata of an answer.

    Raises:
        UsageError: It is not a dict with keys of text.
    """
    if metadata is not None and not (is_object(metadata) and _has_names(metadata)):
        raise UsageError(f"the metadata of an answer is a dict with keys of text, not this {type(metadata).__name__}")


def _has_names(members: Iterable[object]) -> bool:
    return all(isinstance(name, str) for name in members)


@dataclass(frozen=True, slots=True)
class Approve(Record):
    """Approves a tool call, with its arguments or with edited ones."""

    arguments: Mapping[str, Any] | None = None
    """The arguments to use instead of the agent's; None approves the call as it was shown."""
    always: bool = field(default=False, kw_only=True)
    """Whether all later calls of the tool in this thread are approved as well, without a question."""
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Information that goes with the answer to an interrupt, such as a server's proof of who was asked."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)
        arguments = cast("object", self.arguments)
        if arguments is not None and not (isinstance(arguments, Mapping) and _has_names(cast("Any", arguments))):
            raise UsageError(f"Approve takes the arguments by their names, not {arguments!r}")


@dataclass(frozen=True, slots=True)
class Deny(Record):
    """Refuses a tool call; the agent gets the reason."""

    reason: str = DENIED
    """A sentence for the agent."""
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Information that goes with the answer to an interrupt."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)
        if not is_a(self.reason, str):
            raise UsageError(f"Deny takes the reason as text, not {self.reason!r}")
        object.__setattr__(self, "reason", sendable(self.reason))


@dataclass(frozen=True, slots=True)
class ApprovalRequest(Record):
    """A tool call that waits for approval."""

    tool_call_id: str
    """The id of the call."""
    tool: Tool
    """The definition that the agent was offered: name, description and the schema of the arguments."""
    arguments: Mapping[str, Any]
    """The arguments as JSON by their wire names, as the function gets them: validated, and completed by defaults."""
    thread_id: str
    """The id of the conversation."""
    run_id: str
    """The id of the run that made the call."""
    messages: Sequence[Message] = field(default=(), repr=False)
    """The conversation so far."""
    state: Any = field(default=None, repr=False)
    """The state so far; to be read only."""
    agent: str = ""
    """The name of the agent that makes the call, if that works inside another one's run; empty if not."""

    message: str = ""
    """The question that the tool asks of the person, made by its `ask=`; empty if it has none."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


NOBODY_TO_ASK = Deny("There was nobody to ask, so this tool call was not carried out.")
"""The answer of handlers for people where no person can be reached."""

Decider: TypeAlias = Literal["person", "rule", "nobody"]
"""The side that decides: a person, in `approve=` or with an answer; the approval rule of the tool; or nobody, where
a person was asked in vain."""


@dataclass(frozen=True, slots=True)
class ToolDecision(Record):
    """A decision about a tool call: which, and who made it."""

    verdict: Literal["approved", "changed", "denied"]
    """The decision; "changed" approved the call with other arguments."""
    by: Decider
    """The side that decided: "person", by `approve=` or with an answer; "rule", the approval rule of the tool; or
    "nobody", where a person was asked in vain."""
    arguments: Mapping[str, Any] | None = None
    """The arguments in the place of the agent's, if they were changed; None if not."""
    reason: str | None = None
    """The reason that the agent gets for a denial; None for an approval."""

    @classmethod
    def of(cls, given: Approve | Deny, by: Decider, asked: object) -> ToolDecision:
        """Return the decision that an answer is.

        Args:
            given: The answer; the arguments of an approval are complete.
            by: The side that gave it.
            asked: The arguments of the agent.
        """
        if isinstance(given, Deny):
            return cls("denied", by, reason=given.reason)
        is_changed = given.arguments is not None and not is_same_json(asked, given.arguments)
        return cls("changed", by, given.arguments) if is_changed else cls("approved", by)

    @property
    def given(self) -> Approve | Deny:
        """The answer that the decision was made of, as far as it says what is done now."""
        return Deny(self.reason or DENIED) if self.verdict == "denied" else Approve(self.arguments)

    def __str__(self) -> str:
        return f"{self.verdict} by {self.by if self.by == 'nobody' else f'a {self.by}'}"


Decision: TypeAlias = bool | Approve | Deny
"""The decision of an approver: `True` and `Approve` approve, `False` and `Deny` deny."""
Approver: TypeAlias = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]
"""A function that decides about a tool call before the tool runs; a plain function is called in a worker thread."""
ApprovalRule: TypeAlias = Literal["never", "always"] | Callable[[ApprovalRequest], bool | Awaitable[bool]]
"""The calls that wait for approval: none, all, or those for which a function returns True (SEC-3)."""


ApprovalQuestion: TypeAlias = str | Callable[[Mapping[str, Any]], str]
"""A text with the names of arguments in braces, or a function of the arguments, by name and as JSON."""

_LONGEST = 200
"""The characters of an argument that a question shows; the whole call is shown below it."""


class _Shown(dict[str, Any]):
    """Arguments as they are shown in a text; one that was left out is an ellipsis."""

    def __missing__(self, name: str) -> str:
        return "…"


def check_question(name: str, question: object, parameters: Collection[str]) -> None:
    """Check the question of a tool.

    Args:
        name: The name of the tool.
        parameters: The names of the tool's parameters for the agent.

    Raises:
        UsageError: It is neither a text nor a function, or names something that is not an argument.
    """
    if not isinstance(question, str):
        if not callable(question):
            raise UsageError(f"ask of {name!r} is a text or a function of the arguments, not {question!r}")
        return
    try:
        named = [field for _, field, _, _ in Formatter().parse(question) if field is not None]
    except ValueError as error:
        raise UsageError(f"ask of {name!r} cannot be read: {error}; write {{{{ for a brace") from None
    if unknown := [each for each in named if each not in parameters]:
        takes = ", ".join(parameters) or "no arguments"
        raise UsageError(f"ask of {name!r} names {unknown[0]!r}, which is not an argument; the tool takes {takes}")


def question_text(question: ApprovalQuestion, arguments: Mapping[str, Any]) -> str:
    """Return the question about one call.

    Args:
        question: The question of the tool.
        arguments: The arguments of the call, as JSON.
    """
    if callable(question):
        return question(arguments)
    return question.format_map(_Shown({name: _shown(value) for name, value in arguments.items()}))


def _shown(value: Any) -> Any:
    """Return an argument as a text shows it: a number as it is, for a format such as `{price:.2f}`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return cut_short(value if isinstance(value, str) else to_json(value).decode(), _LONGEST)
