"""The result of a row, and its line in the journal.

To change

- a column of a batch's results: `RowResult` and `JournalLine` here, with `to_line` and `from_line`; `_OWN` and `_flat`
  in `batch/_tables.py`, and the lists of columns in the docstring of `table` there and in docs/batch.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from typing_extensions import TypedDict, TypeVar

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import cut_short, printable, sendable
from agui_client._core.ground.prices import dollar_text
from agui_client.errors import ParseError, RunFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ag_ui.core import TokenUsage

    from agui_client._core.run.result import RunResult
    from agui_client.batch._rows import Row

ParsedT = TypeVar("ParsedT", default=Any)
"""The type of parsed replies; any value unless `parse=` says more."""

_OF_ONE_RUN = re.compile(r"[\w-]*\d(?:[\w.:-]*\w)?")
"""Words of messages that differ from run to run: numbers, times, and ids, of which nearly all have a digit."""
_COUNTS = ("input_tokens", "output_tokens", "total_tokens", "reasoning_tokens", "cached_input_tokens")


_EXACT = ConfigDict(strict=True, extra="forbid")


@with_config(_EXACT)
class _Error(TypedDict):
    type: str
    message: str
    code: str | None


@with_config(_EXACT)
class JournalLine(TypedDict):
    """The members of a result that a journal stores."""

    key: str
    agent: str
    prompt: str
    text: str
    parsed: Any
    usage: dict[str, int]
    seconds: float | None
    first_text: float | None
    cost: NotRequired[float]
    attempts: int
    error: _Error | None


def kind_of(message: str) -> str:
    """Return a message with "…" for ids, numbers and times, so that equal failures have equal texts."""
    return _OF_ONE_RUN.sub("…", " ".join(message.split()))


@dataclass(frozen=True, slots=True)
class RowError(Record):
    """The reason why a row has no reply."""

    type: str
    """The class of the exception, such as "HTTPStatusError"; "Unfinished" if the agent waits for something."""
    message: str
    """The message of the exception."""
    code: str | None = None
    """The code of a RUN_ERROR, or the HTTP status; "waiting" if a run that is kept waits for a person."""

    @property
    def kind(self) -> str:
        """The type, the code and the message with "…" for ids and numbers, so that equal failures have equal kinds."""
        message = kind_of(self.message)
        code = f" {self.code}" if self.code and self.code not in message else ""
        return f"{self.type}{code}: {message}"


@dataclass(frozen=True, slots=True)
class RowResult(Displayed, Record, Generic[ParsedT]):
    """A row that is finished: with a reply, or given up."""

    number: int
    """The number of the row in the input, from 1; results come in the order in which rows are finished."""
    key: str
    """The key of the row."""
    agent: str
    """The name of the agent; empty if the batch has only one."""
    row: Mapping[str, Any]
    """The columns of the input."""
    prompt: str
    """The prompt, if it is a text; or else a digest of it."""
    text: str = ""
    """The reply's text; of a failed row, as far as it came."""
    parsed: ParsedT | None = None
    """The reply as an object of `parse=`; None without one, and if the row failed."""
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tokens by kind, such as "input_tokens", of all attempts and models together; without those nobody reported."""
    cost: float | None = None
    """The price of these tokens in US dollars; None if the budget counts no money, or it is not known."""
    seconds: float | None = None
    """The time that the last attempt took."""
    first_text: float | None = None
    """The time until the first piece of text of the last attempt; None if there was none."""
    attempts: int = 1
    """The number of times the row was run."""
    error: RowError | None = None
    """The reason why there is no reply; None if there is one."""
    result: RunResult | None = None
    """The whole result of the last attempt; None if the row comes from the journal, or nothing was sent."""
    from_journal: bool = False
    """Whether the row was finished by an earlier start."""
    agent_number: int = 1
    """The place of the agent among those of the batch, from 1; `sorted(results)` has rows and agents in their order."""

    def __lt__(self, other: RowResult[Any]) -> bool:
        return (self.number, self.agent_number) < (other.number, other.agent_number)

    def __repr__(self) -> str:
        agent = f" of {self.agent}" if self.agent else ""
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        end = repr(self.text) if self.error is None else f"failed, {self.error.kind}"
        spent = "" if self.cost is None else f", {dollar_text(self.cost)}"
        used = f"{self.tokens} tokens{spent}"
        return f"<RowResult {printable(self.key)}{agent}{took}, {used}: {cut_short(printable(end), 80)}>"

    @property
    def tokens(self) -> int:
        """The number of tokens, all kinds together."""
        return self.usage.get("total_tokens") or self.usage.get("input_tokens", 0) + self.usage.get("output_tokens", 0)

    def to_line(self) -> bytes:
        """Return the line of the journal, with its end.

        Raises:
            UsageError: The parsed reply has no JSON form.
        """
        try:
            parsed = to_jsonable_python(self.parsed, by_alias=True, fallback=repr)
        except Exception as error:  # of the application's own classes, too
            why = f"{type(error).__name__}: {error}"
            raise UsageError(f"the parsed reply has no JSON form ({why})") from error
        line = {**{name: getattr(self, name) for name in JournalLine.__annotations__}, "parsed": parsed}
        if self.cost is None:
            del line["cost"]
        try:
            return to_json(line, fallback=repr) + b"\n"
        except PydanticSerializationError:
            # Half a character, as names of files may have one, becomes a question mark.
            return sendable(json.dumps(to_jsonable_python(line, fallback=repr), ensure_ascii=False)).encode() + b"\n"


def from_line(
    line: Mapping[str, Any], row: Row, adapter: TypeAdapter[ParsedT] | None, agent_number: int = 1
) -> RowResult[ParsedT]:
    """Make the result of a row of its line in the journal.

    Args:
        row: The row of the input.
        adapter: Reads the parsed reply; None if replies are not parsed.
        agent_number: The place of the agent among those of the batch.

    Raises:
        UsageError: The row has another prompt now.
        ParseError: Its reply is not of the type.
    """
    if line["prompt"] != row.asked:
        raise UsageError(
            f"the journal has row {row.key} with another prompt: the input has changed since; "
            "give another journal, or key= a column that names rows for good"
        )
    parsed: ParsedT | None = None
    error = line["error"]
    if adapter is not None and error is None:
        try:
            parsed = adapter.validate_json(to_json(line["parsed"]))
        except ValueError as misfit:
            what = "a reply that was not parsed as this type"
            raise ParseError(f"the journal has row {row.key} with {what}") from misfit
    own: dict[str, Any] = {"parsed": parsed, "error": None if error is None else RowError(**error)}
    return RowResult(number=row.number, row=row.data, from_journal=True, agent_number=agent_number, **{**line, **own})


def error_of(error: Exception) -> RowError:
    """Describe an exception."""
    code: object = getattr(error, "code", None) or getattr(error, "status_code", None)
    if isinstance(error, RunFailedError) and error.raised is not None:
        return RowError(type(error.raised).__name__, sendable(str(error.raised)))
    return RowError(type(error).__name__, sendable(str(error)), None if code is None else str(code))


def unfinished(result: RunResult, *, is_parsed: bool, is_kept: bool) -> RowError | None:
    """Return why a run that did not fail has no reply; None if it has one.

    Args:
        result: The result of the run.
        is_parsed: Whether the reply is parsed.
        is_kept: Whether the run is kept, so that it can be answered later.
    """
    if result.interrupts:
        asked = result.interrupts[0].message or result.interrupts[0].reason
        if is_kept:
            how = "answer it with runs.answer or agui runs answer, and start the batch again"
            return RowError("Unfinished", f"run {result.run_id!r} waits for an answer: {asked}; {how}", "waiting")
        return RowError("Unfinished", f"the agent asks: {asked}; give the agent answer=")
    if result.pending_tool_calls and not is_parsed:
        name = result.pending_tool_calls[0].function.name
        return RowError("Unfinished", f"the agent waits for the result of {name}; give the agent the tool, or approve=")
    if result.aborted or (result.outcome is not None and result.outcome.type == "cancelled"):
        return RowError("Unfinished", "the run was cancelled")
    return None


def count_tokens(counted: Mapping[str, int], usage: Iterable[TokenUsage]) -> dict[str, int]:
    """Add the tokens of a run to those of the attempts before."""
    total = dict(counted)
    for each in usage:
        for name in _COUNTS:
            count: int | None = getattr(each, name)
            if count is not None:
                total[name] = total.get(name, 0) + count
    return total
