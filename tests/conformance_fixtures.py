"""The format of the conformance streams: one file is what an agent sends and what a consumer must make of it.

The files are not part of this project. They are looked for beside it, in `../shared/conformance/streams`, or where the
environment's AGUI_CONFORMANCE_DIR points. Keys of `expect` that name what another client does are not read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    ContentPart,
    Context,
    DeveloperMessage,
    Event,
    Interrupt,
    Message,
    ReasoningMessage,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from agui_client import (
    ConversationSnapshot,
    HttpAgent,
    IncompleteRunError,
    ProtocolError,
    ProtocolWarning,
    RunFailedError,
    UsageError,
)
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.types import RunOptions

Json: TypeAlias = dict[str, Any]

MISSING = (
    "the conformance streams are looked for beside the project (../shared/conformance) or where AGUI_CONFORMANCE_DIR "
    "points, and neither is there"
)

_AGAINST_THE_SPECIFICATION: dict[str, Json] = {
    "truncated-run-reported-as-completed": {"outcome": "failed", "errorContains": "ended without 'RUN_FINISHED'"},
    "unknown-enum-value-role-fatal": {"outcome": "completed", "warnings": ["/role"]},
}
"""Two files pin what the reference client does against the specification; this is what the specification asks for."""

_RULES_BY_WORDING: tuple[tuple[str, str], ...] = (
    ("First event must be", "LIFE-1"),
    ("while a run is still active", "LIFE-2"),
    ("already (finished|errored)", "LIFE-3"),
    ("ended without", "TRUNC-1"),
    ("First .*CHUNK must have", "CHUNK-2"),
    ("does not match the open stream", "CHUNK-6"),
    ("No active (text|tool)", "STREAM-1"),
)
"""The rules behind the wordings of the reference client's rejections, as far as a wording belongs to one rule alone."""

ModelT = TypeVar("ModelT", bound=BaseModel)

_NAME = re.compile(r"[\w-]+")
"""A wording that only names a field or an id: any rejection has to name it."""

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)
_PART: TypeAdapter[ContentPart] = TypeAdapter(ContentPart)
_MESSAGE_OF_ROLE: dict[str, type[Any]] = {
    "assistant": AssistantMessage,
    "developer": DeveloperMessage,
    "reasoning": ReasoningMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}


@dataclass(frozen=True)
class Fixture:
    """One file."""

    name: str
    stream: Sequence[Json]
    """The events as they are sent, one frame each."""
    input: Json
    """What the run starts from."""
    max_protocol_version: str | None
    """What the peer is known to speak."""
    expect: Json
    """What must come of it, by the specification."""

    @classmethod
    def read(cls, path: Path) -> Fixture:
        document = json.loads(path.read_text(encoding="utf-8"))
        name: str = document.get("name", path.stem)
        specified = _AGAINST_THE_SPECIFICATION.get(name)
        expect = document["expect"] if specified is None else _overruled(document["expect"], specified)
        peer = document.get("client", {}).get("maxProtocolVersion")
        return cls(name, document["stream"], document.get("input", {}), peer, expect)

    @property
    def body(self) -> bytes:
        """The stream as an SSE body, every event's JSON as the file has it."""
        frames = (f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in self.stream)
        return "".join(frames).encode("utf-8")

    @property
    def thread_id(self) -> str:
        """The thread the run is asked for on: the input's, else the one that the stream answers for."""
        named = (event["threadId"] for event in self.stream if isinstance(event.get("threadId"), str))
        thread_id: str = self.input.get("threadId") or next(named, "thread-1")
        return thread_id

    @property
    def run_id(self) -> str:
        """The run that is asked for: the last one of the stream (LIFE-13)."""
        started = [event for event in self.stream if event.get("type") == "RUN_STARTED"]
        run_id: str = self.input.get("runId") or (started[-1].get("runId") if started else None) or "run-1"
        return run_id

    def agent(self, url: str) -> HttpAgent:
        """An agent that holds what the run starts from, as an application would that kept it somewhere."""
        agent = HttpAgent(
            url,
            thread_id=self.thread_id,
            initial_messages=[message_model(message) for message in self.input.get("messages", ())],
            initial_state=self.input.get("state"),
            tools=[held(Tool, tool) for tool in self.input.get("tools", ())],
            max_protocol_version=self.max_protocol_version,
        )
        if self.input.get("resume"):
            agent.restore(self._interrupted(agent.snapshot()))
        return agent

    @property
    def options(self) -> RunOptions:
        """The keywords of the run."""
        options: RunOptions = {"run_id": self.run_id, "timeout": 20.0}
        if "context" in self.input:
            options["context"] = [held(Context, context) for context in self.input["context"]]
        if "forwardedProps" in self.input:
            options["forwarded_props"] = self.input["forwardedProps"]
        if self.input.get("resume"):
            options["resume"] = [held(ResumeEntry, entry) for entry in self.input["resume"]]
        return options

    def _interrupted(self, kept: ConversationSnapshot) -> ConversationSnapshot:
        """The conversation with the interrupts pending that the input answers."""
        asked = [Interrupt(id=entry["interruptId"], reason="fixture") for entry in self.input["resume"]]
        return kept.model_copy(update={"pending_interrupts": asked})


@dataclass(frozen=True)
class Observed:
    """What one surface made of a fixture."""

    events: Sequence[Event]
    """What was delivered."""
    error: BaseException | None
    """What was raised; None if nothing."""
    messages: Sequence[Message]
    """What the agent holds afterwards."""
    state: Any
    """The state it holds."""
    warnings: Sequence[ProtocolWarning]
    """What was tolerated."""
    request: Json | None
    """The body that was sent; None if the input was refused before anything left."""


def fixtures() -> list[Fixture]:
    """Every fixture there is; none when there are no files."""
    folder = _folder()
    return [] if folder is None else [Fixture.read(path) for path in sorted(folder.glob("*.json"))]


def _folder() -> Path | None:
    given = os.environ.get("AGUI_CONFORMANCE_DIR")
    root = Path(given) if given else Path(__file__).parents[2] / "shared" / "conformance"
    candidates = [folder for folder in (root / "streams", root) if any(folder.glob("*.json"))]
    return candidates[0] if candidates else None


def _overruled(pinned: Json, specified: Json) -> Json:
    kept = {key: value for key, value in pinned.items() if key not in ("outcome", "errorContains", "noWarnings")}
    quiet = {"noWarnings": True} if pinned.get("noWarnings") and "warnings" not in specified else {}
    return {**kept, **quiet, **specified}


def held(model: type[ModelT], value: Json) -> ModelT:
    """A value as an application holds it: in the official model, if need be unchecked, as `model_construct` does it."""
    try:
        return model.model_validate(value)
    except ValidationError:
        return model.model_construct(**value)


def message_model(message: Json) -> Message:
    """A message as an application holds it: content parts that the models cannot hold stay JSON objects."""
    try:
        return _MESSAGE.validate_python(message)
    except ValidationError:
        holder: Message = held(_MESSAGE_OF_ROLE.get(message["role"], UserMessage), {**message, "content": []})
        content = message.get("content")
        parts = [_part(part) for part in content] if is_array(content) else content
        return holder.model_copy(update={"content": parts})


def _part(part: Json) -> Any:
    try:
        return _PART.validate_python(part)
    except ValidationError:
        return part


def check(fixture: Fixture, observed: Observed) -> None:
    """Hold what was observed against everything the fixture expects."""
    expect = fixture.expect
    _check_outcome(expect, observed)
    _check_run_error(expect, observed)
    _check_events(expect, observed)
    _check_warnings(expect, observed.warnings)
    _check_held(expect, observed)
    _check_request(expect, observed.request)


def _check_outcome(expect: Json, observed: Observed) -> None:
    """`completed` is a stream that was consumed, RUN_ERROR included; `failed` one that was rejected."""
    error = observed.error
    if expect["outcome"] == "completed":
        assert error is None or isinstance(error, RunFailedError), f"rejected: {error!r}"
        return
    if isinstance(error, UsageError):  # The input was refused, not the stream (INPUT-3).
        assert observed.request is None
        return
    assert isinstance(error, ProtocolError), f"not rejected: {error!r}"
    _check_rule(expect.get("errorContains", ""), error)
    assert isinstance(error, IncompleteRunError) == (error.rule == "TRUNC-1")


def _check_rule(wording: str, error: ProtocolError) -> None:
    rules = [rule for pattern, rule in _RULES_BY_WORDING if re.search(pattern, wording)]
    if rules:
        assert error.rule == rules[0], f"rejected for another reason: {error}"
    elif _NAME.fullmatch(wording):
        assert wording in str(error)
    assert error.rule


def _check_run_error(expect: Json, observed: Observed) -> None:
    """A run's own failure is told as it comes, and raised at the end when it is the last word (LIFE-7)."""
    failures = [event.message for event in observed.events if isinstance(event, RunErrorEvent)]
    wanted = expect.get("runError", False)
    if wanted is not False:
        assert [text for text in failures if wanted is True or wanted in text], f"no such RUN_ERROR in {failures}"
    elif "runError" in expect or expect["outcome"] == "completed":
        assert not failures, f"the run reported a failure: {failures}"
    if not isinstance(observed.error, ProtocolError | UsageError):
        assert isinstance(observed.error, RunFailedError) == _has_failed_last(observed.events)


def _has_failed_last(events: Iterable[BaseEvent]) -> bool:
    turns = [event for event in events if isinstance(event, RunStartedEvent | RunFinishedEvent | RunErrorEvent)]
    return bool(turns) and isinstance(turns[-1], RunErrorEvent)


def _check_events(expect: Json, observed: Observed) -> None:
    delivered = [as_json(event) for event in observed.events]
    types = [event["type"] for event in delivered]
    if "eventTypes" in expect:
        assert types == expect["eventTypes"]
    assert not set(types) & set(expect.get("eventTypesAbsent", ()))
    for path, value in expect.get("eventPaths", {}).items():
        assert values_at(delivered, path) == [value], path
    for path in expect.get("eventAbsentPaths", ()):
        assert values_at(delivered, path) == [], path


def _check_warnings(expect: Json, warnings: Sequence[ProtocolWarning]) -> None:
    messages = [warning.message for warning in warnings]
    for wanted in expect.get("warnings", ()):
        assert [message for message in messages if wanted in message], f"no warning says {wanted!r}: {messages}"
    if expect.get("noWarnings"):
        assert messages == []


def _check_held(expect: Json, observed: Observed) -> None:
    held = [as_json(message) for message in observed.messages]
    if "messageCount" in expect:
        assert len(held) == expect["messageCount"], held
    if "messages" in expect:
        require_subset(expect["messages"], held, "messages")
    if "state" in expect:
        require_subset(expect["state"], observed.state, "state")


def _check_request(expect: Json, request: Json | None) -> None:
    if "request" in expect:
        require_subset(expect["request"], request, "request")
    for path in expect.get("requestAbsentPaths", ()):
        assert values_at(request, path) == [], path


def as_json(model: BaseEvent | Message) -> Json:
    """A model as it is on the wire."""
    # Parts that are no models are held as JSON objects, which pydantic warns of.
    dumped: Json = model.model_dump(mode="json", by_alias=True, warnings=False)
    return dumped


def values_at(document: Any, path: str) -> list[Any]:
    """What a dotted path leads to: one value, or none if it leads nowhere."""
    value = document
    for step in path.split("."):
        if is_object(value) and step in value:
            value = value[step]
        elif is_array(value) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return []
    return [value]


def require_subset(expected: Any, actual: Any, where: str) -> None:
    """Objects are compared on the keys that are named, arrays element by element."""
    if is_object(expected):
        assert is_object(actual), f"{where} is {actual!r}"
        for key, value in expected.items():
            assert key in actual, f"{where}.{key} is missing"
            require_subset(value, actual[key], f"{where}.{key}")
    elif is_array(expected):
        assert is_array(actual), f"{where} is {actual!r}"
        assert len(actual) == len(expected), f"{where} is {actual!r}"
        for index, (value, found) in enumerate(zip(expected, actual, strict=True)):
            require_subset(value, found, f"{where}.{index}")
    else:
        assert (type(actual), actual) == (type(expected), expected), where
