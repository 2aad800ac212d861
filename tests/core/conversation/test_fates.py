"""The fate of each tool call without a result when a call of a verb begins (TOOL-10): the whole table."""

from __future__ import annotations

import itertools

import pytest
from ag_ui.core import FunctionCall, Interrupt, ToolCall

from agui_client import Approve
from agui_client._core.conversation.fates import UNANSWERED, Brought, Fate, fate
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.tools.questions import GivenAnswer, ToolQuestion
from agui_client.errors import ToolError
from agui_client.types import ToolDecision

_CALL = ToolCall(id="c", function=FunctionCall(name="f", arguments="{}"))
_OURS, _CALLERS, _AGENTS = AnsweredBy
_OPEN = (CallStatus.CUT, CallStatus.WAITING, CallStatus.ASKED, CallStatus.EXECUTING)


def _record(status: CallStatus, side: AnsweredBy) -> ToolCallRecord:
    return ToolCallRecord(tool_call_id="c", message_id="m", status=status, answered_by=side, shown=_CALL)


_UNDECIDED = [_record(*each) for each in itertools.product(_OPEN, AnsweredBy)]
_DECIDED = [
    each.become(decision=made)
    for made in (ToolDecision("approved", "person"), ToolDecision("denied", "nobody"))
    for each in _UNDECIDED
]
_QUESTION = ToolQuestion(interrupt=Interrupt(id="i", reason="r", tool_call_id="c"), arguments={})
_ANSWERED = [
    _record(CallStatus.ASKED, side).become(question=each)
    for side in AnsweredBy
    for each in (_QUESTION, _QUESTION.model_copy(update={"given": GivenAnswer(payload=1)}))
]
_RECORDS = [None, *_UNDECIDED, *_DECIDED, *_ANSWERED]
_BROUGHT = [Brought(*each) for each in itertools.product((False, True), repeat=4)]


def _expected(record: ToolCallRecord | None, brought: Brought) -> Fate:
    """The same table, written from the other side: what has to hold for each fate of a call without an answer."""
    is_ours = record is not None and record.answered_by is not _AGENTS
    is_begun = record is not None and record.status is CallStatus.EXECUTING
    is_waiting = (
        record is not None
        and record.answered_by is _OURS
        and (
            record.status in (CallStatus.WAITING, CallStatus.ASKED)
            or (record.status is CallStatus.CUT and record.decision is not None)
        )
    )
    continues_here = brought.is_nothing and is_waiting
    ways = {
        Fate.LATER: not brought.continues and is_ours,
        Fate.RUN: brought.continues and continues_here,
        Fate.UNKNOWN: brought.continues and is_begun and (is_ours or not brought.resumes),
        Fate.WITHOUT: brought.continues
        and not (is_begun or brought.is_of_team or continues_here)
        and (is_ours or not brought.resumes),
    }
    (found,) = [each for each, holds in ways.items() if holds] or [Fate.LEFT]
    return found


@pytest.mark.parametrize(
    "record", _RECORDS, ids=lambda each: each and f"{each.status} {each.answered_by} {each.decision or ''}"
)
def test_a_call_without_an_answer_has_the_fate_that_the_table_says(record: ToolCallRecord | None) -> None:
    found = {brought: fate(record, UNANSWERED, brought) for brought in _BROUGHT}
    assert found == {brought: _expected(record, brought) for brought in _BROUGHT}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Approve(), Fate.RUN), (None, Fate.GIVEN), ("text", Fate.GIVEN), (ToolError("no"), Fate.GIVEN)],
)
def test_a_call_with_an_answer_has_the_fate_of_the_answer_whatever_came_before(answer: object, expected: Fate) -> None:
    assert {fate(record, answer, brought) for record in _RECORDS for brought in _BROUGHT} == {expected}


def test_there_is_a_way_to_each_fate_and_none_that_calls_a_function_twice() -> None:
    found = [(each, fate(each, UNANSWERED, some)) for each in _RECORDS for some in _BROUGHT]
    assert {each for _, each in found} | {Fate.RUN, Fate.GIVEN} == set(Fate)
    assert not [each for each, what in found if each and each.is_begun and what in (Fate.RUN, Fate.WITHOUT)]
