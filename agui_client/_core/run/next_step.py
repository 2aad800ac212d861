"""The next step of a turn, decided by its conversation, which is saved, and by nothing else. Without effects.

    step = next_step(conversation, able)        # Ask, Work, Forget, Send or Stop
    ... the driver carries the step out, writes into the conversation what became of it, and asks again ...

Theory of operation. The conversation has every fact: a call's status and the decision about it in the ledger, an
answer to an interrupt in `kept_answers`, a result among the messages. What it does not have is in `Able`: what this
side can do, what nobody has answered, and whether a run is due.

    an interrupt      pending ──Ask──▶ kept answer ──Send──▶ (gone)
    a tool call       WAITING ──Work──▶ WAITING + decision ─▶ EXECUTING ──▶ ANSWERED ──Send──▶ (reported)
                                                              EXECUTING ──▶ ASKED ──▶ ASKED + answer ──Work──▶ EXECUTING
                      EXECUTING, in a process that is gone ──Forget──▶ EXECUTING + placeholder ──Send──▶

Each save but the one at the end of a turn is a place where another process can take the conversation up; it asks the
same question. Where the process ended, the last save says what follows for each call and each interrupt:

    saved as             by the save                              in the next process
    WAITING              before a rule or a person is asked       Work: they are asked, as they have not answered
    WAITING + approval   while the call waits for its turn        Work: its function is called, with the arguments that
                                                                  were approved; nobody is asked
    WAITING + denial     that came next, whatever it was for      Work: the agent gets the reason; nobody is asked
    EXECUTING            before the function is called            the effect is unknown: the agent is told so before
                                                                  anything else, and the function is not called
    ASKED                that came after the tool's question      Ask; without `answer=` the call waits for its caller
    ASKED + answer       when the person has answered             Work: the function is called again with the answer
    a result             of results, with the run that is next    Send
    an answer kept       when a person has answered in a run      Ask for those that are missing, and then Send
    an interrupt, and    of the run that was sent with answers    Ask: they may be given again, as the agent may not
    its answer sent      of the caller (`resume=`)                have got them

So a process that ends between an approval and its call leaves one of three: WAITING without the approval, if it ended
before that was saved, and the person is asked again; WAITING with the approval, and the function is called without a
question; or EXECUTING, and nobody knows whether it was called: the agent is told so, once. No function is called a
second time, but one that has asked a question itself. A durable run, which continues without its caller (`continuing`),
differs in two rows: a function that was begun is called again if its tool is idempotent and needs no approval, and a
run that was sent is sent again, with its answers.

A decision counts for the call as it was shown, and for no other: it goes when the call is cut off or changed
(`decision_about`), and when the turn is stopped before the function has begun. A wait that is cancelled takes
nothing back, as it may be the end of the process.

To change

- what happens between two runs of a call, or as a cut call continues: `role_of` and `next_step` here, which
  `tests/core/run/test_next_step.py` goes through; `between_runs` carries the steps out, and
  `tests/core/run/test_cut_ways.py` kills processes at each step
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from agui_client._core.conversation.ledger import CallStatus
from agui_client._core.conversation.pending import open_records

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, ToolCall

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.tools.questions import ToolQuestion
    from agui_client._core.tools.toolset import OfferedTool


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask people to answer interrupts of the agent, and questions of its tools, one after the other."""

    interrupts: tuple[Interrupt, ...]
    questions: tuple[ToolQuestion, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """Carry tool calls through side by side: each is decided about, if it was not, and its function called."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Tell the agent that the effect of calls is unknown: a process that is gone has begun them."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send the conversation, and take in the events of the run."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing is left to do here: the call has its reply, or only its caller can continue."""


Step: TypeAlias = Ask | Work | Forget | Send | Stop


class Role(Enum):
    """The part that a tool call without a result has in the next step."""

    OURS = "its function is called, once a person or a rule has decided about it"
    UNKNOWN = "a process that is gone has begun it"
    WAITS = "it waits for the caller, who alone can decide about it or give its result"
    NONE = "the agent gives its result, or it is set aside"


@dataclass(frozen=True, slots=True)
class Able:
    """The abilities of this side, and what it has to leave out."""

    offered: Mapping[str, OfferedTool]
    """The tools that the present run was offered, by name."""
    can_answer: bool = False
    """Whether there is a function that answers interrupts."""
    is_due: bool = True
    """Whether a run is to be sent once nothing waits any more: the caller asked for one, or something was answered."""
    aside: Collection[str] = ()
    """The ids of calls and interrupts that this call does not touch, and that keep no run from being sent."""
    tried: Collection[str] = ()
    """The ids of those that nobody answered, and that wait for the caller."""
    may_repeat: Callable[[ToolCallRecord], bool] | None = field(default=None)
    """Whether a call that was begun in a process that is gone is made again; None if this process made all calls."""


def role_of(record: ToolCallRecord, able: Able, *, is_offered: bool) -> tuple[Role, str]:
    """Return the part of a call in the next step, and why it waits, if that needs saying.

    Args:
        record: The record of the call, which has no result.
        able: What this side can do.
        is_offered: Whether the present run was offered its tool.
    """
    if record.tool_call_id in able.aside or not record.is_ours_to_answer:
        return Role.NONE, ""
    if record.tool_call_id in able.tried:
        return Role.WAITS, ""
    if record.is_begun:
        if able.may_repeat is None or not record.is_of_application:
            return Role.WAITS, "its function was called before"
        return (Role.OURS if able.may_repeat(record) else Role.UNKNOWN), ""
    if record.is_decided:
        return Role.OURS, ""
    if record.is_asked:
        return Role.WAITS, ""
    if not record.is_whole:
        return Role.WAITS, "its arguments never ended"
    if record.status is not CallStatus.WAITING:
        return Role.WAITS, "the run that made it did not finish"
    if record.is_of_application:
        return Role.OURS, ""
    # A call of a tool that nobody offered is taken for the agent's own, unless the agent says that it waits for it.
    return (Role.WAITS if is_offered or record.is_awaited else Role.NONE), ""


def next_step(conversation: Conversation, able: Able) -> Step:
    """Return what comes next; it is the same until the conversation has changed.

    Args:
        able: What this side can do.
    """
    open_interrupts = [each for each in conversation.pending_interrupts if each.id not in able.aside]
    records = open_records(conversation)
    if able.can_answer and (open_interrupts or records):
        left = {*able.aside, *able.tried}
        asked = [each for each in open_interrupts if each.id not in left]
        open_questions = (each.question for each in records if each.tool_call_id not in left)
        questions = [each for each in open_questions if each is not None and each.given is None]
        if asked or questions:
            return Ask(tuple(asked), tuple(questions))
    waits, unknown, ours = bool(open_interrupts), list["ToolCall"](), list["ToolCall"]()
    for record in records:
        call = conversation.tool_call(record.tool_call_id)
        if call is None:
            continue
        role = role_of(record, able, is_offered=call.function.name in able.offered)[0]
        if role is Role.UNKNOWN:
            unknown.append(call)
        elif role is Role.OURS:
            ours.append(call)
        elif role is Role.WAITS:
            waits = True
    if unknown:
        return Forget(tuple(unknown))
    if ours:
        return Work(tuple(ours))
    return Stop() if waits or not able.is_due else Send()
