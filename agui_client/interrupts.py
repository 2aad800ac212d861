"""Interrupts: what a person answers, and whether the answers cover what was asked (INT-1 … INT-8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from ag_ui.core import Interrupt, ResumeEntry

from agui_client._pipeline.schema import is_object
from agui_client._tools.approval import Approve, Deny
from agui_client.errors import InterruptsNotCoveredError, UsageError


@dataclass(frozen=True, slots=True)
class Resolve:
    """Answers an interrupt."""

    payload: Any = None
    """The answer: any JSON value, or a pydantic model or dataclass, sent as JSON by alias; None sends none."""
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """About the answer, not part of it."""

    def __post_init__(self) -> None:
        _check_metadata(self.metadata)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Abandons an interrupt: the agent goes on without an answer."""

    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Why, for instance."""

    def __post_init__(self) -> None:
        _check_metadata(self.metadata)


Answer: TypeAlias = Resolve | Approve | Deny | Cancel
"""What an interrupt is answered with: a payload, a decision in the words of its `responseSchema`, or nothing."""
Answerer: TypeAlias = Callable[[Interrupt], Answer | Awaitable[Answer | None] | None]
"""Asked for the answer to each interrupt; None leaves it to the caller. A plain function runs in a worker thread."""
Resume: TypeAlias = Mapping[str, Answer] | Sequence[ResumeEntry]
"""Answers by interrupt id, or the protocol's own entries."""

_ANSWERS = "Resolve(answer), Approve(), Deny(reason) or Cancel()"


def cover(pending: Sequence[Interrupt], resume: Resume | None, *, now: datetime | None = None) -> list[ResumeEntry]:
    """Turn answers into resume entries, if they answer every pending interrupt exactly once.

    Args:
        pending: The interrupts of the thread's most recent interrupted run.
        resume: The answers; None if there are none.
        now: The time against which expiry is judged; None for the present.

    Returns:
        One entry per interrupt, in the order of the answers; empty if nothing is pending and nothing was answered.

    Raises:
        InterruptsNotCoveredError: An interrupt has no answer or two, an answer names no pending interrupt, an expired
            interrupt is resolved, an answer does not fit the interrupt's `responseSchema`, or JSON cannot hold it.
    """
    asked = {interrupt.id: interrupt for interrupt in pending}
    entries = _sendable(_entries(asked, resume))
    problems = [*_missing(asked, entries), *_strays(asked, entries)]
    for entry in entries:
        if entry.status == "resolved" and entry.interrupt_id in asked:
            problems += _unfit(asked[entry.interrupt_id], entry, now or datetime.now(UTC))
    if problems:
        raise InterruptsNotCoveredError(f"nothing was sent: {'; '.join(problems)}")
    return entries


def cancel_all(pending: Iterable[Interrupt]) -> list[ResumeEntry]:
    """Entries that abandon every interrupt."""
    return [ResumeEntry(interrupt_id=interrupt.id, status="cancelled") for interrupt in pending]


def _check_metadata(metadata: object) -> None:
    names: Iterable[object] = metadata if is_object(metadata) else (None,)
    if metadata is not None and not all(isinstance(name, str) for name in names):
        raise UsageError(f"the metadata of an answer is a dict with keys of text, not this {type(metadata).__name__}")


def _entries(asked: Mapping[str, Interrupt], resume: Resume | None) -> Sequence[ResumeEntry]:
    if resume is None:
        return ()
    if isinstance(resume, list | tuple) and all(isinstance(entry, ResumeEntry) for entry in cast("Any", resume)):
        return resume
    if not isinstance(resume, Mapping) or not all(isinstance(key, str) for key in cast("Iterable[object]", resume)):
        raise InterruptsNotCoveredError(
            f"resume is {{interrupt_id: answer}} with {_ANSWERS}, or a list of ResumeEntry; nothing was sent"
        )
    # An answer to what nobody asked has no schema to go by, and is refused in a moment.
    return [
        _entry(asked.get(interrupt_id) or Interrupt(id=interrupt_id, reason=""), answer)
        for interrupt_id, answer in resume.items()
    ]


def _entry(interrupt: Interrupt, answer: Answer) -> ResumeEntry:
    # Loaded when something is answered: most programs never do.
    from agui_client._answers.payloads import decision_payload, json_payload

    match answer:
        case Resolve(payload=payload, metadata=metadata):
            payload = json_payload(interrupt.id, payload)
            return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload, metadata=metadata)
        case Approve() | Deny():
            payload = decision_payload(interrupt, answer)
            return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)
        case Cancel(metadata=metadata):
            return ResumeEntry(interrupt_id=interrupt.id, status="cancelled", metadata=metadata)
        case _:
            raise InterruptsNotCoveredError(
                f"nothing was sent: the answer to interrupt {interrupt.id!r} is a {type(answer).__name__}; "
                f"wrap it: {_ANSWERS}"
            )


def _sendable(entries: Sequence[ResumeEntry]) -> list[ResumeEntry]:
    if not entries:
        return []
    from agui_client._answers.payloads import json_entry

    return [json_entry(entry) for entry in entries]


def _missing(asked: Mapping[str, Interrupt], entries: Sequence[ResumeEntry]) -> list[str]:
    answered = {entry.interrupt_id for entry in entries}
    missing = [repr(interrupt_id) for interrupt_id in asked if interrupt_id not in answered]
    if not missing:
        return []
    return [
        (
            f"no answer to {', '.join(missing)}; answer with resume={{id: ...}}, {_ANSWERS}, "
            "or call abandon_interrupts() to go on without"
        )
    ]


def _strays(asked: Mapping[str, Interrupt], entries: Sequence[ResumeEntry]) -> list[str]:
    seen: set[str] = set()
    problems: list[str] = []
    for entry in entries:
        if entry.interrupt_id not in asked:
            problems.append(f"{entry.interrupt_id!r} is not among the pending interrupts")
        elif entry.interrupt_id in seen:
            problems.append(f"{entry.interrupt_id!r} is answered twice")
        seen.add(entry.interrupt_id)
    return problems


def _unfit(interrupt: Interrupt, entry: ResumeEntry, now: datetime) -> list[str]:
    if is_expired(interrupt, now):
        return [f"{interrupt.id!r} expired at {interrupt.expires_at}; it can only be abandoned with Cancel()"]
    if interrupt.response_schema is None:
        return []
    from agui_client._answers.judging import schema_errors

    problems = schema_errors(interrupt.response_schema, entry.payload)
    return [f"the answer to {interrupt.id!r} {problem}" for problem in problems]


def is_expired(interrupt: Interrupt, now: datetime) -> bool:
    """Whether `expiresAt` is a date that has come (INT-6); what is no ISO 8601 date never expires here."""
    if interrupt.expires_at is None:
        return False
    try:
        expires = datetime.fromisoformat(interrupt.expires_at)
    except ValueError:
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= now
