"""The format of recordings, version 2: a text file in UTF-8 with one JSON object, and so one of these models, a line.

Every line has a `kind`. A `HeaderLine` begins each session of a recorder; a file may have several, one behind the other
or interleaved, because keys are never used twice: a call is "session-1", its requests "session-1.2" and so on. `at` is
the seconds since the header of the session. Readers skip members and kinds that they do not know; a change that they
could misunderstand gets a new number in `HeaderLine.format`. In version 1, every input is whole.

To change

- a line of recordings: its model here, `Recorder` writes it, `Recording` collects it; `recording/_references.py` has
  what a request refers to; a change that old readers would misunderstand needs a new `FORMAT`
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from ag_ui.core import ToolMessage
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agui_client._core.ground.plain_text import failure_text
from agui_client._core.tools.approval import ToolDecision
from agui_client._core.tools.context import ToolExecution
from agui_client._rendering.story import time_text

FORMAT = 2
"""The version of the format that is written here, and the newest that is read."""


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


_OF_EXECUTIONS = ("tool_call_id", "name", "status", "arguments", "progress", "seconds", "error", "decision")
"""The members of a `ToolLine` that an execution has, too."""


class ErrorRecord(_Part):
    """An exception."""

    type: str
    """The name of its class: one of `agui_client.errors`, or any other."""
    message: str | None = None
    """Its text; None for exceptions of the application's own, whose texts may quote secrets."""
    details: dict[str, Any] = Field(default_factory=dict)
    """Its other attributes, as far as they are JSON."""


class AgentRecord(_Part):
    """An agent."""

    agent_id: str
    """The id of the agent in the application."""
    name: str | None = None
    """The id, if the application chose it."""
    description: str = ""
    """The purpose of the agent."""
    url: str | None = None
    """The address of a remote agent, without user, password and query; None for one in its process."""

    @property
    def shown(self) -> str:
        """The name, or else the address or the id."""
        return self.name or self.url or self.agent_id


class WarningRecord(_Part):
    """A deviation from the protocol that was tolerated, as `agui_client.ProtocolWarning`."""

    rule: str
    message: str
    path: str | None = None
    event_index: int | None = None
    event_type: str | None = None
    count: int = 1


class HeaderLine(_Part):
    """The beginning of a session: everything that one recorder writes."""

    kind: Literal["header"] = "header"
    format: int = FORMAT
    """The version of this format."""
    protocol: str
    """The version of AG-UI that the client speaks."""
    package: str
    """The version of agui_client."""
    session: str
    """The beginning of all keys of the session."""
    time: datetime
    """The time of day at which the session began; `at` counts from it."""


class RequestLine(_Part):
    """A call of an agent's `run` or `connect`: most often one POST."""

    kind: Literal["request"] = "request"
    request: str
    """The key of the request."""
    call: str
    """The key of the call of a verb that it belongs to; all rounds of a call have the same."""
    parent: str | None = None
    """The key of the call inside which the agent was called; None if there was none."""
    at: float
    verb: Literal["run", "connect"] = "run"
    agent: AgentRecord
    answers: dict[str, tuple[Literal["person", "caller", "nobody"], float | None]] | None = None
    """The sides that gave the answers in the input, and the seconds that they took, by the ids of the interrupts."""
    base: str | None = None
    """The key of the earlier request that the input refers to. None for a whole input, as `Recording.read` makes all
    whose base is in the file."""
    same: list[str] = Field(default_factory=list[str])
    """The members of the input that are those of the base's input."""
    input: dict[str, Any]
    """The `RunAgentInput` as the agent got it. With a base it lacks the members in `same`, and each [first, end] among
    its messages stands for the messages of the base's input from `first` to before `end`."""


class ResponseLine(_Part):
    """The response to one attempt to post a request."""

    kind: Literal["response"] = "response"
    request: str
    at: float
    reason: str
    """The reason for the attempt: "first attempt", or the end of the attempt before."""
    address: str
    """The address that it was posted to, without user, password and query."""
    seconds: float
    """Seconds until the response's headers were there, or the attempt failed."""
    status: int | None = None
    """The HTTP status; None without a response."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Some headers of the response, none of which is secret."""
    error: str | None = None
    """The reason for its failure; None if an event stream came back."""


class EventLine(_Part):
    """An event as the agent sent it: before it was translated, changed by middleware or validated."""

    kind: Literal["event"] = "event"
    request: str
    at: float
    event: dict[str, Any]
    """The event's JSON."""


class EndLine(_Part):
    """The end of the response to a request."""

    kind: Literal["end"] = "end"
    request: str
    at: float
    reason: Literal["ended", "failed", "left"]
    """ "ended": read to its end; "failed": by an exception of the agent or the connection; "left": by this side."""
    error: ErrorRecord | None = None
    """The exception, if it failed."""


class ToolLine(_Part):
    """A step of a tool that the application executed."""

    kind: Literal["tool"] = "tool"
    call: str
    """The key of the call of a verb that it belongs to."""
    request: str | None = None
    """The key of the latest request of the call; None if the tool was executed before the first."""
    at: float
    tool_call_id: str
    name: str
    status: str
    """The stage: waiting, running, succeeded, failed, denied, timed out or cancelled."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    progress: list[Any] = Field(default_factory=list)
    """The reports since the line before."""
    result: Any = None
    """The content of the result; None before the end."""
    seconds: float | None = None
    error: str | None = None
    """The class of the exception that failed the call, or "denied", "timeout" or "cancelled"."""
    decision: ToolDecision | None = None
    """The decision about the call; None if there was none so far."""

    @property
    def execution(self) -> ToolExecution:
        """The step as an execution, with its latest progress alone."""
        content = self.result if isinstance(self.result, str) else json.dumps(self.result, ensure_ascii=False)
        message = ToolMessage(id="", tool_call_id=self.tool_call_id, content=content, error=self.error and content)
        # Any: a newer version may write other statuses, which are shown as they are.
        members: dict[str, Any] = {name: getattr(self, name) for name in _OF_EXECUTIONS}
        return ToolExecution(**members, message=None if self.result is None else message)


class EndingPart(_Part):
    """The end of a run or a call."""

    call: str
    request: str | None = None
    """The key of the latest request of the call; None if middleware made all of its events."""
    at: float
    run_id: str
    ending: str | None = None
    """success, interrupt, cancelled, aborted, or nothing for an empty replay; None if it failed."""
    error: ErrorRecord | None = None
    """The exception that it failed with."""
    timings: dict[str, float | None] = Field(default_factory=dict)
    """Seconds from its beginning: connect, first_event, first_text and total, and people: the part of the total in
    which people were asked."""

    @property
    def sentence(self) -> str:
        """The outcome, or a sentence about the failure."""
        return self.ending or ("failed" if self.error is None else failure_text(self.error.type, self.error.message))

    @property
    def text(self) -> str:
        """The outcome, and how long it took."""
        seconds, people = self.timings.get("total"), self.timings.get("people")
        return self.sentence if seconds is None else f"{self.sentence} · {time_text(seconds, people or 0)}"


class OutcomeLine(EndingPart):
    """The end of a run as the client judged it, behind the `EndLine` of its request."""

    kind: Literal["outcome"] = "outcome"
    usage: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """Tokens per provider and model."""
    warnings: list[WarningRecord] = Field(default_factory=list[WarningRecord])
    """The deviations from the protocol that were tolerated in the call so far."""


class CallLine(EndingPart):
    """The end of a turn, after all of its runs."""

    kind: Literal["call"] = "call"


Line: TypeAlias = HeaderLine | RequestLine | ResponseLine | EventLine | EndLine | ToolLine | OutcomeLine | CallLine
"""Any line of a recording."""

LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])
KINDS = frozenset({"header", "request", "response", "event", "end", "tool", "outcome", "call"})
"""The kinds of lines of this version."""
