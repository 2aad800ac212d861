"""The builders of scripts: each returns a part that plays as conforming AG-UI 1.0 events.

Ids are readable and counted ("message-1", "call-1"), and may be given. Text is streamed word by word if no `chunk` is
given: a client that is tested with whole messages only has not been tested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from ag_ui.core import (
    PROTOCOL_VERSION,
    EventType,
    Interrupt,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import BaseModel, ValidationError

from agui_client._core.protocol.problems import shortened
from agui_client.errors import UsageError
from agui_client.testing._steps import Gate, Part, Pause, ScriptContext, Step, play

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_OUTCOMES = (RunFinishedSuccessOutcome, RunFinishedInterruptOutcome, RunFinishedCancelledOutcome)
_TERMINAL_TYPES = frozenset({EventType.RUN_FINISHED, EventType.RUN_ERROR})
_WORD = re.compile(r"\s*\S+\s?|\s+")


def turn(
    *steps: Step | RunFinishedOutcome,
    result: Any = None,
    outcome: RunFinishedOutcome | None = None,
    usage: Sequence[TokenUsage] | None = None,
    run_id: str | None = None,
) -> Part:
    """Make one run: RUN_STARTED, the steps, and RUN_FINISHED unless the last step ended the run itself.

    A run that fails ends with an event of its own: `turn(text("Hm"), RunErrorEvent(message="overloaded"))`.

    Args:
        *steps: The steps of the run, in order; the last one may be its outcome.
        result: The run's result, any JSON.
        outcome: The outcome of the run, such as `interrupt("Proceed?")`; None leaves it out, which means success.
        usage: The tokens of the run, one entry per provider and model.
        run_id: Another id than the requested run's, for a replayed run; None echoes the input's (LIFE-12).

    Raises:
        UsageError: An outcome stands before other steps, or there are two.
    """
    played: list[Any] = list(steps)
    if played and isinstance(played[-1], _OUTCOMES) and outcome is None:
        outcome = played.pop()
    if any(isinstance(step, _OUTCOMES) for step in played):
        raise UsageError("an outcome, such as interrupt(...), ends a run: give one, as the last step or as outcome=")

    def _steps(scene: ScriptContext) -> Iterator[Step]:
        thread_id, this_run = scene.input.thread_id, run_id or scene.input.run_id
        yield RunStartedEvent(thread_id=thread_id, run_id=this_run, protocol_version=PROTOCOL_VERSION)
        ended = False
        for step in played:
            for event in play(step, scene):
                if not isinstance(event, Pause | Gate):
                    ended = event.type in _TERMINAL_TYPES
                yield event
        if not ended:
            yield RunFinishedEvent(
                thread_id=thread_id,
                run_id=this_run,
                result=result,
                outcome=outcome,
                usage=None if usage is None else list(usage),
            )

    return Part(_steps)


def text(
    content: str,
    *,
    chunk: int | None = None,
    delay: float = 0.0,
    message_id: str | None = None,
    role: Literal["developer", "system", "assistant", "user"] = "assistant",
) -> Part:
    """Make a streamed text message.

    Args:
        content: The whole text.
        chunk: Characters per delta; None streams word by word.
        delay: Seconds before each delta.
        message_id: The message's id; None counts: "message-1", "message-2".
        role: The role of its author.
    """

    def _steps(scene: ScriptContext) -> Iterator[Step]:
        this = message_id or scene.fresh_id("message")
        yield TextMessageStartEvent(message_id=this, role=role)
        for delta in _deltas(content, chunk):
            yield from _wait(delay)
            yield TextMessageContentEvent(message_id=this, delta=delta)
        yield TextMessageEndEvent(message_id=this)

    return Part(_steps)


def reasoning(
    content: str,
    *,
    chunk: int | None = None,
    delay: float = 0.0,
    message_id: str | None = None,
    encrypted_value: str | None = None,
) -> Part:
    """Make a span of reasoning with one streamed reasoning message.

    Args:
        content: The whole reasoning text.
        chunk: Characters per delta; None streams word by word.
        delay: Seconds before each delta.
        message_id: The id of the span and of its message; None counts: "reasoning-1", "reasoning-2".
        encrypted_value: The provider's opaque value for the message; None sends none.
    """

    def _steps(scene: ScriptContext) -> Iterator[Step]:
        this = message_id or scene.fresh_id("reasoning")
        yield ReasoningStartEvent(message_id=this)
        yield ReasoningMessageStartEvent(message_id=this, role="reasoning")
        for delta in _deltas(content, chunk):
            yield from _wait(delay)
            yield ReasoningMessageContentEvent(message_id=this, delta=delta)
        yield ReasoningMessageEndEvent(message_id=this)
        if encrypted_value is not None:
            yield ReasoningEncryptedValueEvent(subtype="message", entity_id=this, encrypted_value=encrypted_value)
        yield ReasoningEndEvent(message_id=this)

    return Part(_steps)


def tool_call(
    name: str,
    args: Mapping[str, Any] | str | None = None,
    *,
    chunk: int | None = None,
    delay: float = 0.0,
    tool_call_id: str | None = None,
    parent_message_id: str | None = None,
) -> Part:
    """Make a tool call with its arguments streamed in fragments.

    Args:
        name: The tool's name.
        args: The arguments, sent as JSON; a string is sent unchanged, even if it is broken JSON; None sends "{}".
        chunk: Characters per fragment; None cuts at spaces.
        delay: Seconds before each fragment.
        tool_call_id: The call's id; None counts: "call-1", "call-2".
        parent_message_id: The assistant message that makes the call; None names none.
    """
    arguments = args if isinstance(args, str) else json.dumps(dict(args or {}), ensure_ascii=False)

    def _steps(scene: ScriptContext) -> Iterator[Step]:
        this = scene.last_tool_call_id = tool_call_id or scene.fresh_id("call")
        yield ToolCallStartEvent(tool_call_id=this, tool_call_name=name, parent_message_id=parent_message_id)
        for delta in _deltas(arguments, chunk):
            yield from _wait(delay)
            yield ToolCallArgsEvent(tool_call_id=this, delta=delta)
        yield ToolCallEndEvent(tool_call_id=this)

    return Part(_steps)


def tool_result(content: Any, *, tool_call_id: str | None = None, message_id: str | None = None) -> Part:
    """Make the result of a tool that the agent runs itself.

    Args:
        content: The result: a string unchanged, any other value as JSON.
        tool_call_id: The call that the result is of; None for the last `tool_call` of the run.
        message_id: The tool message's id; None counts: "result-1", "result-2".

    Raises:
        ValueError: When played without an id and before any `tool_call`.
    """

    def _steps(scene: ScriptContext) -> Iterator[Step]:
        answered = tool_call_id or scene.last_tool_call_id
        if answered is None:
            raise ValueError("tool_result() without tool_call_id needs a tool_call() before it in the same run")
        yield ToolCallResultEvent(
            message_id=message_id or scene.fresh_id("result"),
            tool_call_id=answered,
            content=content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
            role="tool",
        )

    return Part(_steps)


def state(snapshot: Any) -> Part:
    """Make a STATE_SNAPSHOT, which replaces the state by any JSON value."""
    return Part(lambda _: (StateSnapshotEvent(snapshot=snapshot),))


def patch(*operations: Mapping[str, Any]) -> Part:
    """Make a STATE_DELTA of JSON Patch operations: `patch({"op": "add", "path": "/city", "value": "Oslo"})`.

    Raises:
        UsageError: One is not a JSON Patch operation.
    """
    delta = _made("patch()", StateDeltaEvent, delta=operations)
    return Part(lambda _: (delta,))


def step(name: str, *steps: Step) -> Part:
    """Make a named step of the run, around the steps that it consists of."""
    return Part(lambda _: (StepStartedEvent(step_name=name), *steps, StepFinishedEvent(step_name=name)))


def pause(seconds: float) -> Pause:
    """Wait between steps; `pause(math.inf)` waits until the client goes away."""
    return Pause(seconds)


def interrupt(
    message: str,
    *,
    interrupt_id: str = "interrupt-1",
    reason: str = "confirmation",
    tool_call_id: str | None = None,
    response_schema: Mapping[str, Any] | None = None,
    expires_at: str | None = None,
) -> RunFinishedInterruptOutcome:
    """Make the outcome of a run that waits for one answer: `turn(text("Ready."), outcome=interrupt("Proceed?"))`.

    Args:
        message: The question.
        interrupt_id: The id the answer names.
        reason: The reason for the interrupt; an open vocabulary.
        tool_call_id: The call in question; None for a question about no call.
        response_schema: The JSON Schema of the answer; None takes any.
        expires_at: The time when the interrupt expires, ISO 8601; None for never.

    Raises:
        UsageError: One of them is of another type.
    """
    question = _made(
        "interrupt()",
        Interrupt,
        id=interrupt_id,
        reason=reason,
        message=message,
        tool_call_id=tool_call_id,
        response_schema=response_schema,
        expires_at=expires_at,
    )
    return RunFinishedInterruptOutcome(type="interrupt", interrupts=[question])


def _made(what: str, model: type[_ModelT], **members: object) -> _ModelT:
    try:
        return model.model_validate(members)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" {each}" for each in first["loc"])
        raise UsageError(f"{what}:{where}: {first['msg']}, not {shortened(first['input'])}") from None


def _deltas(content: str, chunk: int | None) -> list[str]:
    if chunk is None:
        return _WORD.findall(content)
    return [content[start : start + chunk] for start in range(0, len(content), chunk)]


def _wait(seconds: float) -> Iterator[Pause]:
    if seconds:
        yield Pause(seconds)
