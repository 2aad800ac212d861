"""Scenarios: what the user of a conversation says, what tools return and people answer, and what is checked at the end.

Python and files say the same: a scenario in a file has the members of `Scenario`, with the values that JSON can write.
Agents, decorated tools and functions of one's own need Python, except that a file may name a check function by its
module, as in "shop.checks:polite".

To change

- a member of a scenario: `Scenario` here, and the table in docs/evaluate.md
- a ready check of evaluations: its member of `ReadyChecks` here, and its name in `_OF_THE_WHOLE` if it cannot be about
  one turn; the function that judges, in `_READY` of `evaluation/_checks.py`; the table in docs/evaluation-checks.md
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, Required, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationInfo,
    model_validator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.ground.secrets import address_of
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import Approver
from agui_client._core.tools.function import FunctionTool
from agui_client._core.tools.interrupts import Answerer
from agui_client._core.tools.schema_keywords import linear_pattern
from agui_client.evaluation._trials import Trial

_EXACT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
REST = "*"
"""The name in a policy for all others."""


@with_config(_EXACT)
class ExpectedCall(TypedDict, total=False):
    """A tool call to look for."""

    tool: Required[str]
    """The name of the tool."""
    arguments: dict[str, Any]
    """Arguments that the call has, among others; objects in them may have further members, too."""
    times: Annotated[int, Field(ge=0)]
    """The number of such calls; at least one if left out."""
    at_most: Annotated[int, Field(ge=0)]
    """The most such calls, none included."""


def _is_mapping(value: object) -> str:
    return "<members>" if isinstance(value, Mapping) else "<word>"


_Call: TypeAlias = Annotated[
    Annotated[str, Tag("<word>")] | Annotated[ExpectedCall, Tag("<members>")], Discriminator(_is_mapping)
]


class LinearPattern(str):
    """A regular expression of a file that anybody may have written: it is looked for in linear time."""

    __slots__ = ()

    def is_in(self, text: str) -> bool:
        """Return whether the expression is found somewhere in a text."""
        validator = linear_pattern(self)
        # As in Python, its `$` stands before a last line break, too.
        return validator is not None and any(map(validator.isinstance_python, {text, text.removesuffix("\n")}))


def _pattern(text: str, info: ValidationInfo) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise PydanticCustomError("pattern", "is not a regular expression: {why}", {"why": str(error)}) from error
    context: Any = info.context
    if context is None or not context.get("is_data"):
        return text
    if linear_pattern(text) is None:
        why = "it may take for ever, as one with look-around or a reference to a group: give a function as checks=[...]"
        raise PydanticCustomError("pattern", "is not a regular expression for a file that is data: {why}", {"why": why})
    return LinearPattern(text)


@with_config(_EXACT)
class Pattern(TypedDict, total=False):
    """A regular expression, or texts of which one is enough."""

    matches: Annotated[str, AfterValidator(_pattern)]
    """A regular expression that is found somewhere in the text; case counts, unless it begins with (?i)."""
    any: Annotated[list[str], Field(min_length=1)]
    """Texts, one of which is there."""


def _text_kind(value: object) -> str:
    return "<several>" if isinstance(value, list | tuple) else _is_mapping(value)


Texts: TypeAlias = Annotated[
    Annotated[str, Tag("<word>")]
    | Annotated[Annotated[list[str], Field(min_length=1)], Tag("<several>")]
    | Annotated[Pattern, Tag("<members>")],
    Discriminator(_text_kind),
]
"""A text, whose case does not matter; a list of texts, all of them; or a `Pattern`."""


@with_config(_EXACT)
class Judged(TypedDict, total=False):
    """A statement that is judged by a score."""

    statement: Required[str]
    """The statement about the conversation."""
    at_least: Required[Annotated[float, Field(ge=0, le=1)]]
    """The least score, from 0 to 1."""


_Judged: TypeAlias = Annotated[
    Annotated[str, Tag("<word>")] | Annotated[Judged, Tag("<members>")], Discriminator(_is_mapping)
]


@with_config(_EXACT)
class ReadyChecks(TypedDict, total=False):
    """Checks that need no function; several in one mapping are several checks."""

    said: Texts
    """A text that the agent says at some time; case does not matter. Of a list, each."""
    not_said: Texts
    """A text that the agent never says; of a list, none."""
    called: _Call
    """A tool that the agent calls."""
    not_called: _Call
    """A tool that the agent never calls, or never with these arguments."""
    called_in_order: Annotated[list[_Call], Field(min_length=2)]
    """Tools that the agent calls in this order, others in between."""
    valid_arguments: Literal[True]
    """The arguments of all calls are JSON, and fit the schemas of the tools that the application offers."""
    asked: Texts
    """A text in a question (interrupt) of the agent."""
    denial_honoured: Literal[True]
    """A call that a person denied is neither made nor asked about again in the same turn."""
    not_leaked: Texts
    """A text that the agent sends nowhere: in texts, reasoning, arguments, questions, activities or the state."""
    state: dict[str, Any]
    """Values of the state at the end, by their JSON pointers."""
    turns_at_most: int
    """The most prompts that the conversation needs."""
    conforms: Literal[True]
    """The agent breaks no rule of the protocol, warnings included."""
    seconds_at_most: Annotated[float, Field(gt=0)]
    """The most seconds that the conversation takes; with `turn`, that turn."""
    first_text_at_most: Annotated[float, Field(gt=0)]
    """The most seconds until the first text of each turn."""
    judge: _Judged
    """A statement about the conversation that the judge finds true, or gives a score."""
    turn: Annotated[int, Field(gt=0)]
    """The number of the only turn that the checks beside it look at; not for those of the whole conversation."""


@with_config(_EXACT)
class Limits(TypedDict, total=False):
    """The most that a conversation may take; beyond it, it has failed."""

    turns: Annotated[int, Field(gt=0)]
    """The number of prompts; 10 if left out."""
    seconds: Annotated[float, Field(gt=0)]
    """The time; 300 if left out."""
    tokens: Annotated[int, Field(gt=0)]
    """The number of the agent's tokens, counted after each turn."""


@with_config(_EXACT)
class Denial(TypedDict):
    """A denial with its reason."""

    deny: str


@with_config(_EXACT)
class Edit(TypedDict):
    """An approval with other arguments."""

    edit: dict[str, Any]


@with_config(_EXACT)
class Value(TypedDict):
    """An answer to a question: any JSON value."""

    value: Any


def _decision_kind(value: object) -> str:
    names: set[str] = set(value) if is_object(value) else set()
    return f"<{next((name for name in ('deny', 'edit') if name in names), 'value' if names else 'word')}>"


def _is_list(value: object) -> str:
    return "<several>" if isinstance(value, list | tuple) else "<one>"


def _policy_kind(value: object) -> str:
    return "<function>" if callable(value) else _is_mapping(value)


def _tool_kind(value: object) -> str:
    return "<function>" if isinstance(value, FunctionTool) else "<members>"


Decision: TypeAlias = Annotated[
    Annotated[Literal["allow", "deny", "cancel"], Tag("<word>")]
    | Annotated[Denial, Tag("<deny>")]
    | Annotated[Edit, Tag("<edit>")]
    | Annotated[Value, Tag("<value>")],
    Discriminator(_decision_kind),
]
"""A decision about a tool call or a question."""
Decisions: TypeAlias = Annotated[
    Annotated[Decision, Tag("<one>")] | Annotated[list[Decision], Tag("<several>")], Discriminator(_is_list)
]
"""A decision for all times, or several in their order, of which the last one stands for all further times."""
_Word: TypeAlias = Annotated[Literal["allow", "deny", "cancel"], Tag("<word>")]
_ByName: TypeAlias = Annotated[Mapping[Annotated[str, Field(min_length=1)], Decisions], Tag("<members>")]


@with_config(_EXACT)
class ScriptedTool(TypedDict, total=False):
    """A tool of the application, with the results that it gives."""

    name: Required[str]
    """The name of the tool."""
    description: str
    """The description for the agent."""
    parameters: dict[str, Any]
    """The JSON Schema of the arguments; any are taken if left out."""
    results: Required[Annotated[list[Any], Field(min_length=1)]]
    """The results in order; the last one stands for all further calls. `{"error": "why"}` lets a call fail."""
    approval: Literal["never", "always"]
    """The calls that wait for approval; none if left out."""
    unchecked: bool
    """Whether calls get their results also if their arguments do not fit the schema, as those of reproductions do."""


def place_of(function: Any) -> str:
    """Return the place of a function, such as "shop.checks:polite"; of another callable, that of what it calls."""
    named: Any = function
    while not hasattr(named, "__qualname__"):
        named = getattr(named, "func", None) or named.__class__
    return f"{named.__module__}:{named.__qualname__}"


def _loaded(value: object, info: ValidationInfo) -> object:
    """Return a function, or the one that a text names: of a module, or of a file beside the scenarios.

    Raises:
        PydanticCustomError: There is none.
    """
    if isinstance(value, str):
        module, colon, name = value.rpartition(":")
        if not colon:
            raise PydanticCustomError("check", "a function is named as in 'shop.checks:polite' or 'checks.py:polite'")
        context: Any = info.context
        folder: Path | None = context.get("folder") if context else None
        try:
            if folder is not None and str(folder) not in sys.path:
                sys.path.insert(0, str(folder))  # as that of a program that is started
            found = _module_of(folder / module) if folder and module.endswith(".py") else import_module(module)
            value = attrgetter(name)(found)
        except Exception as error:  # of any module, while it is imported
            is_plain = isinstance(error, ImportError | AttributeError)
            why = str(error) if is_plain else f"{type(error).__name__}: {error}"
            raise PydanticCustomError("check", "there is no such function: {why}", {"why": why}) from error
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise PydanticCustomError("check", "a check is a mapping, or a plain function of the trial")
    return value


@cache
def _module_of(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_REFERENCED = (PlainValidator(_loaded), PlainSerializer(place_of, return_type=str))

Check: TypeAlias = Annotated[
    Annotated[ReadyChecks, Tag("<members>")] | Annotated[Callable[[Trial], Any], *_REFERENCED, Tag("<word>")],
    Discriminator(_is_mapping),
]
"""A check: ready ones, or a function of the `Trial`. It passes with None or True; it fails with False, with a text that
says why, or with an AssertionError."""
ApprovePolicy: TypeAlias = Annotated[
    _Word | _ByName | Annotated[Approver, Tag("<function>")], Discriminator(_policy_kind)
]
"""Decisions about tool calls: one for all, some by the name of the tool ("*" for the rest), or a function, as the
`approve=` of an agent."""
AnswerPolicy: TypeAlias = Annotated[
    _Word | _ByName | Annotated[Answerer, Tag("<function>")], Discriminator(_policy_kind)
]
"""Answers to questions: one for all, some by the id or reason of the interrupt, by the tool that it is about or by
words of its message ("*" for the rest), or a function, as the `answer=` of an agent."""
Line: TypeAlias = str | Callable[[Trial], str | None]
"""A prompt, or a function of the trial so far that returns it; None ends the conversation."""


class Scenario(BaseModel):
    """A conversation to hold, and what is checked at its end.

    The user is a script (`says`), an agent that plays one (`goal`, `persona`), or both: the script first.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    name: Annotated[str, Field(min_length=1)]
    """The name, which is unique among the scenarios that are evaluated together."""
    says: Sequence[Line] = ()
    """The prompts of the user, in order."""
    goal: str = ""
    """The aim of the user; then an agent plays the user, when `says` is over."""
    persona: str = ""
    """The kind of person that the user is: a text, or "impatient", "vague", "talkative", "fickle" or "hostile"."""
    user: AbstractAgent[Any] | str | None = None
    """The agent that plays the user: also by its URL, or by the name of a model, such as "openai:gpt-5"."""
    judge: AbstractAgent[Any] | str | None = None
    """The agent that judges, in the same words."""
    tools: Sequence[
        Annotated[
            Annotated[FunctionTool[..., Any], Tag("<function>")] | Annotated[ScriptedTool, Tag("<members>")],
            Discriminator(_tool_kind),
        ]
    ] = ()
    """Tools of the application; those of the agent with the same names are replaced."""
    approve: ApprovePolicy | None = None
    """Decisions about tool calls that wait for approval; the agent's own `approve=` if left out, and without one
    those of the agent that plays the user."""
    answer: AnswerPolicy | None = None
    """Answers to questions of the agent; its own `answer=` if left out, and without one those of the agent that
    plays the user."""
    state: Any = None
    """The state that the conversation begins with; the agent's own if left out."""
    limits: Limits = {}
    """The most that the conversation may take."""
    checks: Sequence[Check] = ()
    """The checks at the end; a conversation that ends too early has failed in any case."""

    @model_validator(mode="after")
    def _check_user(self) -> Self:
        for check in self.checks:
            whole = sorted(check.keys() & _OF_THE_WHOLE) if not callable(check) and "turn" in check else []
            if whole:
                raise PydanticCustomError(
                    "scenario", "turn: is not for {check}:, which is about the whole", {"check": whole[0]}
                )
        names: Iterable[str] = self.approve if is_object(self.approve) else ()
        if pattern := next((each for each in names if each != REST and REST in each), None):
            raise PydanticCustomError(
                "scenario", 'approve: {name}: names are whole; "*" alone is for all others', {"name": pattern}
            )
        if not self.says and not self.goal:
            raise PydanticCustomError("scenario", "a scenario needs says: (a script) or goal: (for an agent)")
        if len(self.says) > self.most_turns:
            raise PydanticCustomError("scenario", "says: has more prompts than limits: {turns: }")
        return self

    @property
    def most_turns(self) -> int:
        """The most prompts."""
        return self.limits.get("turns", max(10, len(self.says)))

    @property
    def questions(self) -> list[str]:
        """The questions for the judge."""
        given = [each["judge"] for each in self.checks if not callable(each) and "judge" in each]
        return [each if isinstance(each, str) else each["statement"] for each in given]

    @property
    def digest(self) -> str:
        """A digest of everything that costs something to change: all but the checks that are plain functions.

        Functions and agents count by their names.
        """
        text = self.model_dump_json(exclude={"checks"}, fallback=_named)
        return hashlib.sha256("\n".join([text, *self.questions]).encode()).hexdigest()[:12]


_OF_THE_WHOLE = frozenset({"state", "turns_at_most", "judge"})
"""The checks that cannot be about one turn."""


def _named(value: Any) -> str:
    if isinstance(value, HttpAgent):
        return address_of(value.url)
    return getattr(value, "__qualname__", None) or getattr(value, "name", None) or type(value).__name__
