"""Interrupts in custom events, as older AG-UI adapters of LangGraph and CrewAI's send them (INT-1, INT-7).

Adapters before AG-UI 1.0, and later ones without the option `emit_interrupt_outcome=True`, end an interrupted run as if
it had succeeded. `langgraph_interrupts` translates their interrupts and the answers from and to that form.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ag_ui.core import (
    CustomEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agui_client._interrupts.decisions import described
from agui_client._protocol.events import WireEvent
from agui_client._protocol.schema import is_array, is_object
from agui_client._run.middleware import Next
from agui_client.errors import UsageError

_EVENT = "on_interrupt"
# The ids of interrupts that are answered in the older way say so themselves, so that a conversation can be saved
# between question and answer, and an agent that speaks 1.0 is answered as usual.
_OURS = f"{_EVENT}:"
# LangGraph reads an object as answers by interrupt id only if all of its keys have this shape.
_LANGGRAPH_ID = re.compile(r"[0-9a-f]{32}")


async def langgraph_interrupts(input: RunAgentInput, next: Next) -> AsyncIterator[WireEvent]:
    """Middleware for servers that send `on_interrupt` events: `HttpAgent(url, middleware=[langgraph_interrupts])`.

    A run with `on_interrupt` custom events ends with an interrupt outcome instead: what the graph passed to
    `interrupt()` is in the interrupt's `metadata["langgraph"]["raw"]`; if that was text, it is the `message`, and if it
    was an object, its `message`, `reason`, `toolCallId`, `responseSchema` and `expiresAt` are the interrupt's, as in
    the adapter's own 1.0 form. The answers given with `resume=` are sent as `forwardedProps.command.resume`, and are
    what `interrupt()` returns in the graph; for `Cancel()` that is `{"__agui_cancelled__": True, "interrupt_id": ...}`,
    as from the adapter itself. Runs of servers that speak 1.0 pass unchanged.

    An interrupt of 1.0 that is such an event's value, as CrewAI's adapter sends it, is taken as it is, and its answer
    is sent as `resume`.

    Several interrupts at once, and answers that are nothing (None or `{}`), need the ids of LangGraph's, which the
    adapter sends with its raw events (`emit_raw_events=True`, its default, and LangGraph 0.6 or newer).

    Args:
        input: The input of the run.
        next: The rest of the chain.

    Yields:
        The run's events.

    Raises:
        UsageError: The answers cannot be sent to this server; nothing was sent.
    """
    questions: list[CustomEvent] = []
    async for event in next(_resumed(input)):
        if isinstance(event, CustomEvent) and event.name == _EVENT:
            questions.append(event)
            continue
        if questions and isinstance(event, RunFinishedEvent) and event.outcome is None:
            yield event.model_copy(update={"outcome": _outcome(event.run_id, questions)})
            questions.clear()
            continue
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            for question in questions:
                yield question
            questions.clear()
        yield event
    for question in questions:
        yield question


# --- questions


def _outcome(run_id: str, questions: Sequence[CustomEvent]) -> RunFinishedInterruptOutcome:
    interrupts = [_interrupt(question, f"{run_id}/{index}") for index, question in enumerate(questions)]
    # An adapter may send one interrupt twice; ids are unique (INT-2).
    return RunFinishedInterruptOutcome(interrupts=list({interrupt.id: interrupt for interrupt in interrupts}.values()))


def _interrupt(question: CustomEvent, fallback_id: str) -> Interrupt:
    if (whole := _own_interrupt(question)) is not None:
        return whole
    raw = _parsed(question.value)
    members: Mapping[str, Any] = raw if is_object(raw) else {"message": raw}
    native: Mapping[str, Any] = question.raw_event if is_object(question.raw_event) else {}
    reason, message = _first(str, members, "reason"), _first(str, members, "message")
    return Interrupt(
        id=_OURS + (_native_id(native) or fallback_id),
        reason="langgraph:interrupt" if reason is None else reason,
        message=described(members) if message is None else message,
        tool_call_id=_first(str, members, "toolCallId", "tool_call_id"),
        response_schema=_first(dict, members, "responseSchema", "response_schema") or _native_schema(native),
        expires_at=_first(str, members, "expiresAt", "expires_at"),
        metadata={"langgraph": {"raw": raw}},
        subagent_run_id=question.subagent_run_id,
    )


def _own_interrupt(question: CustomEvent) -> Interrupt | None:
    """Return the interrupt of AG-UI 1.0 that CrewAI's adapter sends as the event's value; None for LangGraph's events.

    It keeps its id, so that its answer goes the way of 1.0, which that adapter reads. LangGraph's adapter sends objects
    as JSON text.
    """
    value = question.value
    if question.raw_event is not None or not is_object(value) or not {"id", "reason"} <= value.keys():
        return None
    try:
        return Interrupt.model_validate(value)
    except ValidationError:
        return None


def _parsed(value: Any) -> Any:
    """Parse the value that the graph passed to `interrupt()`: adapters send objects and arrays as JSON text.

    Text that no interrupt can carry as JSON stays text.
    """
    if not isinstance(value, str):
        return value if _is_portable(value) else None
    try:
        parsed: object = from_json(value)
    except ValueError:
        return value
    return parsed if (is_object(parsed) or is_array(parsed)) and _is_portable(parsed) else value


def _is_portable(value: Any) -> bool:
    """Return whether an interrupt can carry the value: numbers in range, and not nested too deeply."""
    outcome = {"outcome": {"interrupts": [{"metadata": {"langgraph": {"raw": value}}}]}}
    try:
        from_json(to_json(outcome), allow_inf_nan=False)
    except ValueError:
        return False
    return True


def _native_id(native: Mapping[str, Any]) -> str | None:
    given = _first(str, native, "id")
    return given if given is not None and _LANGGRAPH_ID.fullmatch(given) else None


def _native_schema(native: Mapping[str, Any]) -> dict[str, Any] | None:
    given = _first(dict, native, "response_schema")
    return given if _is_portable(given) else None


def _first(kind: type[Any], members: Mapping[str, Any], *names: str) -> Any:
    """Return the first member of the expected kind; None if there is none."""
    return next((members[name] for name in names if isinstance(members.get(name), kind)), None)


# --- answers


def _resumed(run_input: RunAgentInput) -> RunAgentInput:
    """Return the input with answers where the adapter reads them, if they answer interrupts of an older adapter."""
    entries = run_input.resume or []
    if not entries or not all(entry.interrupt_id.startswith(_OURS) for entry in entries):
        return run_input
    props: Any = {} if run_input.forwarded_props is None else run_input.forwarded_props
    if not is_object(props):
        raise UsageError(
            "forwarded_props carry the answers to this server, so they must be an object; nothing was sent"
        )
    command: Any = props.get("command")
    resumed = {**(command if is_object(command) else {}), "resume": _command_resume(entries)}
    return run_input.model_copy(update={"resume": None, "forwarded_props": {**props, "command": resumed}})


def _command_resume(entries: Sequence[ResumeEntry]) -> Any:
    answers = {entry.interrupt_id.removeprefix(_OURS): _answer(entry) for entry in entries}
    if all(_LANGGRAPH_ID.fullmatch(interrupt_id) for interrupt_id in answers):
        # By id every answer arrives as it is; alone, LangGraph takes nothing for no answer and the adapter parses text.
        return answers
    if len(answers) > 1:
        raise UsageError(
            f"{len(answers)} interrupts cannot be answered at once: this server does not send their ids; "
            "let its adapter send raw events (emit_raw_events=True), or speak AG-UI 1.0 (emit_interrupt_outcome=True); "
            "nothing was sent"
        )
    return _alone(next(iter(answers.values())))


def _answer(entry: ResumeEntry) -> Any:
    if entry.status == "resolved":
        return entry.payload
    return {"__agui_cancelled__": True, "interrupt_id": entry.interrupt_id.removeprefix(_OURS)}


def _alone(answer: Any) -> Any:
    if answer is None or answer == {}:
        raise UsageError(
            "an empty answer cannot be sent to this server, which would interrupt again; "
            "give Resolve(...) a value, or Cancel(); nothing was sent"
        )
    return json.dumps(answer) if isinstance(answer, str) and _is_json(answer) else answer


def _is_json(text: str) -> bool:
    """Return whether the adapter would parse the text as something else."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
