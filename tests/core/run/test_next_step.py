"""What a call does next (TOOL-10, INT-7, SEC-3): the part of each call, and the step of a whole conversation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, Interrupt, ToolCall

from agui_client import tool
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.run.next_step import Able, Ask, Forget, Role, Send, Stop, Work, next_step, role_of
from agui_client._core.tools.questions import GivenAnswer, ToolQuestion
from agui_client.types import ToolDecision
from support.tool_calls import offered

_OURS, _CALLERS, _AGENTS = AnsweredBy
_QUESTION = ToolQuestion(interrupt=Interrupt(id="q", reason="r", tool_call_id="c"), arguments={})
_SAID: dict[str, dict[str, Any]] = {
    "": {},
    "decided": {"decision": ToolDecision("approved", "person")},
    "asking": {"question": _QUESTION},
    "answered": {"question": _QUESTION.model_copy(update={"given": GivenAnswer(payload=1)})},
    "not whole": {"is_whole": False},
}


@tool
def look() -> str:
    """Look."""
    return "seen"


def _call(key: str = "c") -> ToolCall:
    return ToolCall(id=key, function=FunctionCall(name="look", arguments="{}"))


def _record(status: CallStatus, side: AnsweredBy = _OURS, key: str = "c", **members: Any) -> ToolCallRecord:
    return ToolCallRecord(
        tool_call_id=key, message_id="m", status=status, answered_by=side, shown=_call(key), **members
    )


_ALL = [
    _record(status, side, **said) for status, side, said in itertools.product(CallStatus, AnsweredBy, _SAID.values())
]
_ABLES = {
    "": Able({}),
    "aside": Able({}, aside={"c"}),
    "tried": Able({}, tried={"c"}),
    "again": Able({}, may_repeat=lambda _: True),
    "unknown": Able({}, may_repeat=lambda _: False),
}


@pytest.mark.parametrize("able", _ABLES.values(), ids=_ABLES)
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_no_function_is_called_twice_nor_for_a_call_of_others_nor_for_half_a_call(able: Able) -> None:
    for record in _ALL:
        part, _ = role_of(record, able, is_offered=True)
        if part is Role.OURS:
            assert record.answered_by is not _AGENTS
            assert "c" not in {*able.aside, *able.tried}
            # Begun before: only where the process is gone, and the tool may be called again.
            assert not record.is_begun or able is _ABLES["again"]
            # Cut, or not whole: only on an approval.
            assert record.is_begun or record.is_decided or (record.status is CallStatus.WAITING and record.is_whole)
        if part is Role.UNKNOWN:
            assert record.is_begun
            assert (able, record.answered_by) == (_ABLES["unknown"], _OURS)


def test_there_is_a_way_to_each_part() -> None:
    found = {role_of(each, able, is_offered=True)[0] for each in _ALL for able in _ABLES.values()}
    assert found == set(Role)


_RECORDS = {
    "none": None,
    "waits": _record(CallStatus.WAITING),
    "caller": _record(CallStatus.WAITING, _CALLERS),
    "agent": _record(CallStatus.WAITING, _AGENTS),
    "cut": _record(CallStatus.CUT),
    "decided": _record(CallStatus.WAITING, **_SAID["decided"]),
    "asking": _record(CallStatus.ASKED, **_SAID["asking"]),
    "answered": _record(CallStatus.ASKED, **_SAID["answered"]),
    "begun": _record(CallStatus.EXECUTING),
}
_WORK, _FORGET = Work((_call(),)), Forget((_call(),))
_ASK = Ask((Interrupt(id="i", reason="r"),))
_STEPS: dict[str, tuple[object, object, object]] = {
    # The step after a run that left such a call; as a process takes it up; and after a run that left an interrupt, too.
    "none": (Send(), Send(), Stop()),
    "waits": (_WORK, _WORK, _WORK),
    "caller": (Stop(), Stop(), Stop()),
    "agent": (Send(), Send(), Stop()),
    "cut": (Stop(), Stop(), Stop()),
    "decided": (_WORK, _WORK, _WORK),
    "asking": (Stop(), Stop(), Stop()),
    "answered": (_WORK, _WORK, _WORK),
    "begun": (Stop(), _FORGET, Stop()),
}


@pytest.mark.parametrize("name", _RECORDS)
def test_the_next_step_is_what_the_table_says(name: str) -> None:
    conversation = Conversation("t", [AssistantMessage(id="m", tool_calls=[_call()] if name != "none" else None)])
    conversation.ledger = Ledger(filter(None, [_RECORDS[name]]))
    able: dict[str, Any] = {"offered": {"look": offered(look)}}
    reopened = Able(**able, may_repeat=lambda _: False)
    after, taken_up = next_step(conversation, Able(**able)), next_step(conversation, reopened)
    before = conversation.snapshot()
    conversation.pending_interrupts = [*_ASK.interrupts]
    assert (after, taken_up, next_step(conversation, Able(**able))) == _STEPS[name]
    # People first, whatever else waits; and never about what nobody has answered.
    questions = (_QUESTION,) if name == "asking" else ()
    assert next_step(conversation, Able(**able, can_answer=True)) == Ask(_ASK.interrupts, questions)
    tried: dict[str, Any] = {**able, "tried": {"i", "c"} if questions else {"i"}}
    assert next_step(conversation, Able(**tried, can_answer=True)) == _STEPS[name][2]
    conversation.pending_interrupts = []
    if questions:
        assert next_step(conversation, Able(**able, can_answer=True)) == Ask((), questions)
    assert conversation.snapshot() == before
    if after == Send():
        assert next_step(conversation, Able(**able, is_due=False)) == Stop()


def test_a_call_that_nobody_decides_about_holds_the_next_run_back_and_one_that_is_set_aside_does_not() -> None:
    calls = [_call("a"), _call("b")]
    conversation = Conversation("t", [AssistantMessage(id="m", tool_calls=calls)])
    conversation.ledger = Ledger(_record(CallStatus.WAITING, key=each.id) for each in calls)
    assert next_step(conversation, Able({})) == Work(tuple(calls))
    assert next_step(conversation, Able({}, tried={"a"})) == Work((calls[1],))
    assert next_step(conversation, Able({}, tried={"a"}, aside={"b"})) == Stop()
    assert next_step(conversation, Able({}, aside={"a", "b"})) == Send()


@pytest.mark.parametrize("can_answer", [True, False])
def test_an_interrupt_that_is_set_aside_is_not_asked_about_and_holds_no_run_back(*, can_answer: bool) -> None:
    conversation = Conversation("t", [AssistantMessage(id="m")])
    conversation.pending_interrupts = [*_ASK.interrupts]
    assert next_step(conversation, Able({}, can_answer=can_answer, aside={"i"})) == Send()
    assert next_step(conversation, Able({}, can_answer=can_answer, tried={"i"})) == Stop()
