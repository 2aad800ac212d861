"""Interrupts: what a person answers, and whether the answers cover what was asked (INT-1 … INT-8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from ag_ui.core import Interrupt, ResumeEntry

from agui_client.errors import InterruptsNotCoveredError


@dataclass(frozen=True, slots=True)
class Resolve:
    """Answers an interrupt."""

    payload: Any = None
    """The answer, any JSON value; None sends none."""
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """About the answer, not part of it."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Abandons an interrupt: the agent goes on without an answer."""

    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Why, for instance."""


Answer: TypeAlias = Resolve | Cancel
"""What an interrupt is answered with."""
Resume: TypeAlias = Mapping[str, Answer] | Sequence[ResumeEntry]
"""Answers by interrupt id, or the protocol's own entries."""


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
            interrupt is resolved, or an answer does not fit the interrupt's `responseSchema`.
    """
    entries = list(_entries(resume))
    asked = {interrupt.id: interrupt for interrupt in pending}
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


def _entries(resume: Resume | None) -> Iterable[ResumeEntry]:
    if resume is None:
        return ()
    if not isinstance(resume, Mapping):
        if isinstance(resume, list | tuple) and all(isinstance(entry, ResumeEntry) for entry in cast("Any", resume)):
            return resume
        raise InterruptsNotCoveredError(
            "resume is {interrupt_id: Resolve(...) or Cancel()}, or a list of ResumeEntry; nothing was sent"
        )
    return [_entry(interrupt_id, answer) for interrupt_id, answer in resume.items()]


def _entry(interrupt_id: str, answer: Answer) -> ResumeEntry:
    match answer:
        case Resolve(payload=payload, metadata=metadata):
            return ResumeEntry(interrupt_id=interrupt_id, status="resolved", payload=payload, metadata=metadata)
        case Cancel(metadata=metadata):
            return ResumeEntry(interrupt_id=interrupt_id, status="cancelled", metadata=metadata)
        case _:
            raise InterruptsNotCoveredError(
                f"the answer to interrupt {interrupt_id!r} is a {type(answer).__name__}; "
                "wrap it: Resolve(answer), or Cancel() to abandon the interrupt"
            )


def _missing(asked: Mapping[str, Interrupt], entries: Sequence[ResumeEntry]) -> list[str]:
    answered = {entry.interrupt_id for entry in entries}
    missing = [repr(interrupt_id) for interrupt_id in asked if interrupt_id not in answered]
    if not missing:
        return []
    return [
        (
            f"no answer to {', '.join(missing)}; answer with resume={{id: Resolve(...) or Cancel()}}, "
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
    if _is_expired(interrupt, now):
        return [f"{interrupt.id!r} expired at {interrupt.expires_at}; it can only be abandoned with Cancel()"]
    if interrupt.response_schema is None:
        return []
    return [f"the answer to {interrupt.id!r} {problem}" for problem in _schema_errors(interrupt.response_schema, entry)]


def _is_expired(interrupt: Interrupt, now: datetime) -> bool:
    """Whether `expiresAt` is a date that has come (INT-6); what is no ISO 8601 date never expires here."""
    if interrupt.expires_at is None:
        return False
    try:
        expires = datetime.fromisoformat(interrupt.expires_at)
    except ValueError:
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= now


def _schema_errors(schema: dict[str, Any], entry: ResumeEntry) -> list[str]:
    """What the answer's schema has against it; a schema that is none, or that points elsewhere, refuses nothing."""
    # Loaded when an interrupt carries a schema: few do, and the import is not small.
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    validator_class = validator_for({"$schema": schema.get("$schema", "")}, default=Draft202012Validator)
    # The agent wrote the schema, so it must not make this machine fetch anything: the registry is empty.
    validator = validator_class(schema, registry=Registry())
    try:
        validator_class.check_schema(schema)
        found = list(validator.iter_errors(entry.payload))
    except (SchemaError, Unresolvable):
        return []
    return [f"does not fit its responseSchema at {error.json_path}: {error.message}" for error in found]
