"""Answers to interrupts, and the resume entries that are sent for them (INT-1 … INT-8).

Decisions are written in the words of the interrupt's `responseSchema`, models as JSON. An answer is checked by the
schema before it is sent, as far as `json_schema.py` can; the agent checks it again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any, Literal, TypeAlias, cast

import anyio
from ag_ui.core import Interrupt, ResumeEntry
from pydantic import BaseModel, TypeAdapter

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.secrets import REDACTED, hidden_json, is_secret_schema
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.plain_json import members_as_json
from agui_client._core.protocol.problems import Refusal, summary
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.approval import Approve, Deny, check_metadata
from agui_client._core.tools.decisions import decision_payload, refusal, reviewed
from agui_client._core.tools.function import LEFT_IN_THREAD, call_function
from agui_client._core.tools.json_schema import schema_problems, without_unfit
from agui_client._core.tools.people import People, bounds_of, kind_of, person_asked
from agui_client._core.tools.questions import Action, GivenAnswer, ToolQuestion, UnansweredError
from agui_client.errors import InterruptsNotCoveredError, ToolError, UsageError

_logger = logging.getLogger("agui_client.tools")
_ANSWERS = "Resolve(answer), Approve(), Deny(reason) or Cancel()"
_HOW = f"answer with resume={{id: ...}}, {_ANSWERS}, or call abandon_interrupts() to continue without"
HOW_BY_ID = f"give each id its answer, {_ANSWERS}"
"""The advice where there is no agent whose interrupts could be abandoned."""


@dataclass(frozen=True, slots=True)
class Resolve(Record):
    """Answers an interrupt."""

    payload: Any = None
    """The answer: any JSON value, or a pydantic model or dataclass, sent as JSON by alias; None sends none."""
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Information about the answer that is not part of it."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)


@dataclass(frozen=True, slots=True)
class Cancel(Record):
    """Abandons an interrupt: the agent continues without an answer."""

    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    """Information about it, such as the reason."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)


Answer: TypeAlias = Resolve | Approve | Deny | Cancel
"""The answer to an interrupt: a payload, a decision in the words of its `responseSchema`, or nothing."""
Answerer: TypeAlias = Callable[[Interrupt], Answer | Awaitable[Answer | None] | None]
"""A function that answers an interrupt; None leaves it to the caller. A plain function runs in a worker thread."""
Resume: TypeAlias = Mapping[str, Answer] | Sequence[ResumeEntry]
"""Answers by interrupt id, or the protocol's own entries."""


@dataclass(frozen=True, slots=True)
class AnsweredInterrupt(Record):
    """An interrupt of the agent, and its answer."""

    interrupt: Interrupt
    """The interrupt; only its id is known of one that was answered by a caller who brought the conversation."""
    entry: ResumeEntry
    """The answer that was sent."""
    by: Literal["person", "caller", "nobody"]
    """The side that answered: a person, in `answer=`; the caller of the verb, with `resume=`; or nobody in time."""
    seconds: float | None = None
    """The seconds that the answer took; None for one that came with the call."""


def shown_payload(answered: AnsweredInterrupt) -> Any:
    """Return the answer to an interrupt without secrets: by their names, and by the schema that asked for them."""
    return without_secrets(answered.entry.payload, answered.interrupt.response_schema)


def without_secrets(value: Any, schema: Any) -> Any:
    """Return a JSON value without secrets: by their names, and by the schemas of its members."""
    shown, asked = hidden_json(value), schema.get("properties") if is_object(schema) else None
    if is_object(shown) and is_object(asked):
        shown = {name: REDACTED if is_secret_schema(asked.get(name)) else each for name, each in shown.items()}
    return shown


def answered_by_caller(asked: Iterable[Interrupt], entries: Iterable[ResumeEntry]) -> list[AnsweredInterrupt]:
    """Return the interrupts that a caller answers.

    Args:
        asked: The interrupts that wait for an answer.
        entries: The caller's answers.
    """
    by_id = {each.id: each for each in asked}
    known = [(by_id.get(each.interrupt_id) or Interrupt(id=each.interrupt_id, reason=""), each) for each in entries]
    return [AnsweredInterrupt(interrupt, entry, "caller") for interrupt, entry in known]


def cover(
    pending: Sequence[Interrupt], resume: Resume | None, how: str = _HOW, now: datetime | None = None
) -> list[ResumeEntry]:
    """Turn answers into resume entries, if they answer every pending interrupt exactly once.

    Args:
        pending: The interrupts of the thread's most recent interrupted run.
        resume: The answers; None if there are none.
        how: The advice to a caller who left an answer out.
        now: The time by which interrupts expire; None for that of this machine.

    Returns:
        One entry per interrupt, in the order of the answers; empty if nothing is pending and nothing was answered.

    Raises:
        InterruptsNotCoveredError: An interrupt has no answer or two, an answer names no pending interrupt, an expired
            interrupt is resolved, an answer does not fit the interrupt's `responseSchema`, or has no JSON form.
    """
    by_id = {interrupt.id: interrupt for interrupt in pending}
    entries = [_json_entry(entry) for entry in _entries(by_id, resume or {})]
    # All at once: who answers ten questions should not learn of the mistakes one by one.
    if problems := dict.fromkeys(_problems(by_id, entries, how, now)):
        raise InterruptsNotCoveredError("; ".join(problems))
    return entries


def cancel_all(pending: Iterable[Interrupt]) -> list[ResumeEntry]:
    """Make entries that abandon every interrupt."""
    return [_entry(interrupt, Cancel()) for interrupt in pending]


async def answer_interrupts(
    answer: Answerer | None,
    people: People | None,
    interrupts: Sequence[Interrupt],
    keep: Callable[[Sequence[ResumeEntry]], Awaitable[None]],
) -> list[AnsweredInterrupt]:
    """Call the application's answerer for each interrupt.

    Args:
        answer: The answerer; None leaves all interrupts to the caller.
        people: The bounds of the wait for each answer; None for the usual ones.
        interrupts: The interrupts of the run.
        keep: Awaited with each answer at once, as the next question may go wrong.

    Returns:
        The answers that were given, in order; an interrupt without one is the caller's.

    Raises:
        InterruptsNotCoveredError: An answer is none, or does not fit.
    """
    answered: list[AnsweredInterrupt] = []
    if answer is None:
        return answered
    # One after the other: a person can read one question at a time, and the next may depend on the answer.
    for interrupt in interrupts:
        began_at = perf_counter()
        given, by = await _given(answer, people, interrupt, f"answer to interrupt {quoted(interrupt.id)}")
        seconds = perf_counter() - began_at
        entries = [] if given is None else cover([interrupt], {interrupt.id: given})
        await keep(entries)
        answered += [AnsweredInterrupt(interrupt, each, by, seconds) for each in entries]
    return answered


async def given_by_person(answer: Answerer, people: People | None, question: Interrupt) -> Answer | None:
    """Call the application's answerer for the question of a tool; return None if it leaves the question open."""
    return (await _given(answer, people, question, _about(question)))[0]


def _about(question: Interrupt) -> str:
    return f"answer to the question of tool call {quoted(question.tool_call_id or '')}"


async def _given(
    answer: Answerer, people: People | None, interrupt: Interrupt, what: str
) -> tuple[Answer | None, Literal["person", "nobody"]]:
    """Call the answerer; return the answer, None if it leaves the interrupt to the caller, and who gave it."""
    bounds = bounds_of(people, answer)
    with person_asked(), anyio.move_on_after(bounds.wait):
        given: Any = await call_function(partial(answer, interrupt), what, LEFT_IN_THREAD)
        if not isinstance(given, Resolve | Approve | Deny | Cancel | None):
            raise UsageError(f"answer= returned {kind_of(given)} as the {what}; it returns {_ANSWERS}, or None")
        return given, "person"
    _logger.warning("nobody gave the %s within %s", what, bounds.limit)
    is_left = bounds.fallback == "leave"
    return None if is_left else _refusal(interrupt, f"Nobody answered within {bounds.limit}."), "nobody"


def _refusal(interrupt: Interrupt, reason: str) -> Deny | Cancel:
    """Return the denial of an interrupt, or a cancellation if its `responseSchema` has no words for a denial."""
    try:
        cover([interrupt], {interrupt.id: Deny(reason)})
    except InterruptsNotCoveredError:
        return Cancel()
    return Deny(reason)


async def answer_question(answer: Answerer | None, people: People | None, question: Interrupt) -> GivenAnswer:
    """Call the application's answerer for the question of a tool.

    Args:
        answer: The answerer; None if there is nobody to ask.
        people: The bounds of the wait for the answer; None for the usual ones.
        question: The question, as an interrupt with a `responseSchema`.

    Returns:
        The answer.

    Raises:
        ToolError: The answer does not fit; the message is for the agent.
        UnansweredError: There is no answer.
        UsageError: The answerer returned something else than an answer.
    """
    what = _about(question)
    given = None if answer is None else await given_by_person(answer, people, question)
    if given is None:
        raise UnansweredError(question)
    try:
        return given_answer(question, given)
    except InterruptsNotCoveredError as error:
        _logger.warning("an %s does not fit: %s", what, error.reason)
        raise ToolError(f"The person's answer could not be used: {error.reason}.") from error


def given_answer(question: Interrupt, given: Answer) -> GivenAnswer:
    """Check an answer to the question of a tool; a denial for which its schema has no words declines it.

    Raises:
        InterruptsNotCoveredError: The answer does not fit.
    """
    action: Action = "cancel" if isinstance(given, Cancel) else "accept"
    payload: Any = None
    try:
        payload = cover([question], {question.id: given})[0].payload
    except InterruptsNotCoveredError:
        if not isinstance(given, Deny):
            raise
        action = "decline"
    return GivenAnswer(
        question=question.message, response_schema=question.response_schema, action=action, payload=payload
    )


def answers_for_tools(
    questions: Sequence[ToolQuestion], resume: Resume | None
) -> tuple[dict[str, GivenAnswer], Resume | None]:
    """Take the answers to questions of tools out of the answers that a caller gave.

    Args:
        questions: The questions that wait for an answer.
        resume: The caller's answers.

    Returns:
        The answers to questions by interrupt id, and the answers for the agent.

    Raises:
        InterruptsNotCoveredError: The answers have another form, or one does not fit its question.
    """
    asked = {each.interrupt.id: each.interrupt for each in questions}
    if resume:
        _check_form(resume)
    if not asked or not resume:
        return {}, resume
    if isinstance(resume, Mapping):
        given: dict[str, Answer] = {key: answer for key, answer in resume.items() if key in asked}
        rest: Resume = {key: answer for key, answer in resume.items() if key not in asked}
    else:
        ours = [entry for entry in resume if entry.interrupt_id in asked]
        given = {each.interrupt_id: Cancel() if each.status == "cancelled" else Resolve(each.payload) for each in ours}
        rest = [entry for entry in resume if entry.interrupt_id not in asked]
    return {key: given_answer(asked[key], answer) for key, answer in given.items()}, rest or None


def is_expired(interrupt: Interrupt, now: datetime | None = None) -> bool:
    """Whether `expiresAt` is a date that has come (INT-6); a text that is not an ISO 8601 date never expires here.

    Args:
        now: The time; None for that of this machine.
    """
    return expires_before(interrupt, now or datetime.now(UTC))


def expires_before(interrupt: Interrupt, moment: datetime) -> bool:
    """Return whether `expiresAt` is a date that has come by some moment."""
    try:
        expires = datetime.fromisoformat(interrupt.expires_at or "")
    except ValueError:
        return False
    # A date without a zone is taken for UTC: the zone of this machine says nothing about the server's.
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= moment


def _entries(by_id: Mapping[str, Interrupt], resume: Resume) -> Sequence[ResumeEntry]:
    _check_form(resume)
    if not isinstance(resume, Mapping):
        return resume
    # An answer to an unknown interrupt has no schema to go by, and is refused in a moment.
    return [_entry(by_id.get(key) or Interrupt(id=key, reason=""), answer) for key, answer in resume.items()]


def _check_form(resume: object) -> None:
    given: Any = resume
    if isinstance(given, Mapping):
        fits = all(isinstance(key, str) for key in cast("Iterable[object]", given))
    else:
        fits = isinstance(given, list | tuple) and all(isinstance(each, ResumeEntry) for each in cast("Any", given))
    if not fits:
        ways = f"resume is {{interrupt_id: answer}} with {_ANSWERS}, or a list of ResumeEntry"
        raise InterruptsNotCoveredError(ways)


def _entry(interrupt: Interrupt, answer: Answer) -> ResumeEntry:
    match answer:
        case Cancel(metadata=metadata):
            # The reviews of LangChain have no answer that abandons them: to cancel is to reject.
            payload = reviewed(interrupt, Deny())
            if payload is None:
                return ResumeEntry(interrupt_id=interrupt.id, status="cancelled", metadata=metadata)
        case Resolve(metadata=metadata):
            payload = _json_payload(interrupt, answer.payload)
        case Approve() | Deny():
            payload, metadata = decision_payload(interrupt, answer), answer.metadata
        case _:
            raise refusal(interrupt.id, f"is a {type(answer).__name__}; wrap it: {_ANSWERS}")
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload, metadata=metadata)


def _problems(
    by_id: Mapping[str, Interrupt], entries: Sequence[ResumeEntry], how: str, now: datetime | None
) -> Iterator[str]:
    answered = Counter(entry.interrupt_id for entry in entries)
    if missing := [repr(each) for each in by_id if each not in answered]:
        yield f"no answer to {', '.join(missing)}; {how}"
    for entry in entries:
        interrupt = by_id.get(entry.interrupt_id)
        if interrupt is None:
            yield f"{entry.interrupt_id!r} is not among the pending interrupts{'' if by_id else ', as there are none'}"
        elif answered[interrupt.id] > 1:
            yield f"{interrupt.id!r} is answered twice"
        elif entry.status == "resolved" and is_expired(interrupt, now):
            yield f"{interrupt.id!r} expired at {interrupt.expires_at}; it can only be abandoned with Cancel()"
        elif entry.status == "resolved" and interrupt.response_schema is not None:
            for problem in schema_problems(interrupt.response_schema, entry.payload):
                yield f"the answer to {interrupt.id!r} does not fit its responseSchema at {problem}"


def _json_payload(interrupt: Interrupt, payload: Any) -> Any:
    """Write a pydantic model or dataclass as JSON, by alias; return anything else as it is.

    A None that is the field's default stands for a member that is absent: that is how an optional field of a model is
    left out. Any other default is sent if it fits the schema: nobody has answered what does not.
    """
    if isinstance(payload, type) or not (isinstance(payload, BaseModel) or is_dataclass(payload)):
        return payload
    try:
        # Without warnings of defaults that are not of their types: they are judged below.
        options: Any = {"mode": "json", "by_alias": True, "warnings": False}
        dump = partial(TypeAdapter[Any](type(payload)).dump_python, payload, **options)
        full = _without_absent(dump(), without := dump(exclude_defaults=True))
        # Only models know which of their defaults were given.
        given = dump(exclude_unset=True) if isinstance(payload, BaseModel) else without
    except Exception as error:
        kind = type(payload).__name__
        raise refusal(interrupt.id, f"is a {kind} that cannot be written as JSON: {error}") from error
    schema = interrupt.response_schema
    return full if schema is None else without_unfit(schema, given, full)


def _without_absent(full: Any, given: Any) -> Any:
    """Return a dumped model without those nulls that are also missing from its dump without defaults."""
    if is_object(full) and is_object(given):
        present = {key: value for key, value in full.items() if value is not None or key in given}
        return {key: _without_absent(value, given.get(key)) for key, value in present.items()}
    if is_array(full) and is_array(given):
        return [_without_absent(*pair) for pair in zip(full, given, strict=True)]
    return full


def _json_entry(entry: ResumeEntry) -> ResumeEntry:
    """Return an entry whose payload is JSON, so that this is what the schema checks."""
    refusals: list[Refusal] = []
    plain = members_as_json(entry, refusals)
    if refusals:
        raise refusal(entry.interrupt_id, f"cannot be sent as JSON: {summary(refusals)}")
    return entry.model_copy(update={"payload": plain.get("payload")})
