"""Interrupts in custom events, as adapters of LangGraph and CrewAI send them (INT-1, INT-7).

Adapters before AG-UI 1.0, and later ones without an option such as `emit_interrupt_outcome=True`, send `on_interrupt`
and finish the run as if it had succeeded. Such a run has an interrupt outcome here, while its events stay as they came:
pages that know the custom event would not answer an outcome. Answers go out as `forwardedProps.command.resume`.

To change

- how interrupts in custom events are read and answered: `outcome_of` here makes the outcome for
  `_core/protocol/outcome.py`, and `with_answers` here the input that `_core/protocol/request.py` sends;
  `resume_entries` in `_core/conversation/answer_checks.py` lets a run go without an answer, `caller_end` in
  `_core/verbs/caller_run.py` keeps the outcome from callers. A server's bytes stand in
  `tests/programs/interop/test_langgraph.py`
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ag_ui.core import (
    CustomEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunFinishedInterruptOutcome,
)
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import UsageError

ON_INTERRUPT = "on_interrupt"
"""The name of the custom event."""
# The ids of interrupts that are answered in the older way say so themselves, so that a conversation can be saved
# between question and answer, and an agent that speaks 1.0 is answered as usual.
_PREFIX = f"{ON_INTERRUPT}:"
"""The prefix of the ids of interrupts that came in custom events."""
_OWN_PREFIX = f"{ON_INTERRUPT}/1.0:"
"""The prefix of those that were interrupts of 1.0, with ids that `resume` names."""
# LangGraph reads an object as answers by interrupt id only if all of its keys have this shape.
_LANGGRAPH_ID = re.compile(r"[0-9a-f]{32}")


def is_custom(interrupt: Interrupt) -> bool:
    """Return whether an interrupt came in a custom event, so that the next run may come without an answer."""
    return interrupt.id.startswith((_PREFIX, _OWN_PREFIX))


# --- questions


def outcome_of(run_id: str, events: Sequence[CustomEvent]) -> RunFinishedInterruptOutcome | None:
    """Return the outcome of a run that has none, made of its `on_interrupt` events; None if none is an interrupt.

    What the graph passed to `interrupt()` is in the interrupt's `metadata["langgraph"]["raw"]`; if that was text, it is
    the `message`, and if it was an object, its `message`, `reason`, `toolCallId`, `responseSchema` and `expiresAt` are
    the interrupt's, as in the adapter's own 1.0 form.

    Args:
        events: Its `on_interrupt` events.
    """
    found = [_interrupt(event, f"{run_id}/{index}") for index, event in enumerate(events)]
    # An adapter may send one interrupt twice; ids are unique (INT-2).
    interrupts = {each.id: each for each in found if each is not None}
    return RunFinishedInterruptOutcome(interrupts=list(interrupts.values())) if interrupts else None


def _interrupt(question: CustomEvent, fallback_id: str) -> Interrupt | None:
    if (whole := _own_interrupt(question)) is not None:
        return whole
    if not isinstance(question.value, str) and not is_object(question.raw_event):
        return None  # adapters send text, so an application of its own uses the name
    raw = _parsed(question.value)
    members: Mapping[str, Any] = raw if is_object(raw) else {"message": raw}
    native: Mapping[str, Any] = question.raw_event if is_object(question.raw_event) else {}
    reason, message = _first(str, members, "reason"), _first(str, members, "message")
    return Interrupt(
        id=_PREFIX + (_native_id(native) or fallback_id),
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

    Its answer goes the way of 1.0, which that adapter reads. LangGraph's adapter sends objects as JSON text.
    """
    value = question.value
    if question.raw_event is not None or not is_object(value) or not {"id", "reason"} <= value.keys():
        return None
    try:
        return Interrupt.model_validate({**value, "id": f"{_OWN_PREFIX}{value['id']}"})
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


def described(raw: Mapping[str, Any]) -> str | None:
    """Return the descriptions of the actions that LangChain's human-in-the-loop middleware asks about."""
    requests = raw.get("action_requests")
    actions = requests if is_array(requests) else [raw]
    texts = [each["description"] for each in actions if is_object(each) and isinstance(each.get("description"), str)]
    return "\n\n".join(filter(None, texts)) or None


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


def with_answers(run_input: RunAgentInput) -> RunAgentInput:
    """Return an input with its answers where the adapter reads them, if they answer interrupts in custom events.

    They are what `interrupt()` returns in the graph; for `Cancel()` that is
    `{"__agui_cancelled__": True, "interrupt_id": ...}`, as from the adapter itself. Several interrupts at once, and
    answers that are nothing (None or `{}`), need the ids of LangGraph's, which the adapter sends with its raw events
    (`emit_raw_events=True`, its default, and LangGraph 0.6 or newer).

    Raises:
        UsageError: The answers cannot be sent to this server; nothing was sent.
    """
    if not run_input.resume:
        return run_input
    entries = [_as_own(each) for each in run_input.resume]
    if not all(entry.interrupt_id.startswith(_PREFIX) for entry in entries):
        return run_input.model_copy(update={"resume": entries})
    props: Any = {} if run_input.forwarded_props is None else run_input.forwarded_props
    if not is_object(props):
        raise UsageError(
            "forwarded_props carry the answers to this server, so they must be an object; nothing was sent"
        )
    answered = run_input.model_copy(update={"resume": None})
    if len(entries) > 1 and _lacks_ids(entries) and all(entry.status == "cancelled" for entry in entries):
        return answered  # without an answer the server asks again; there is none that it would read
    command: Any = props.get("command")
    resumed = {**(command if is_object(command) else {}), "resume": _command_resume(entries)}
    return answered.model_copy(update={"forwarded_props": {**props, "command": resumed}})


def _as_own(entry: ResumeEntry) -> ResumeEntry:
    own_id = entry.interrupt_id.removeprefix(_OWN_PREFIX)
    return entry if own_id == entry.interrupt_id else entry.model_copy(update={"interrupt_id": own_id})


def _lacks_ids(entries: Sequence[ResumeEntry]) -> bool:
    return not all(_LANGGRAPH_ID.fullmatch(entry.interrupt_id.removeprefix(_PREFIX)) for entry in entries)


def _command_resume(entries: Sequence[ResumeEntry]) -> Any:
    answers = {entry.interrupt_id.removeprefix(_PREFIX): _answer(entry) for entry in entries}
    if not _lacks_ids(entries):
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
    return {"__agui_cancelled__": True, "interrupt_id": entry.interrupt_id.removeprefix(_PREFIX)}


def _alone(answer: Any) -> Any:
    if answer is None or answer == {}:
        raise UsageError(
            "an empty answer cannot be sent to this server, which would interrupt again; "
            "give Resolve(...) a value, or Cancel(); nothing was sent"
        )
    return json.dumps(answer) if isinstance(answer, str) and _is_json(answer) else answer


def _is_json(text: str) -> bool:
    """Return whether the adapter would parse the text as something else, or fail at its depth."""
    try:
        load_json(text)
    except ValueError:
        return False
    except RecursionError:
        pass
    return True
