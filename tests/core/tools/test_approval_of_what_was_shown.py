"""An approval is bound to what was shown: whatever changes a waiting call, nobody has approved that (SEC-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    Tool,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    UserMessage,
)

from agui_client import Approve, Cancel, ConversationSnapshot, Deny, Resolve, UsageError, tool
from agui_client.testing import ScriptedAgent, Step, interrupt, text, tool_call, turn
from support.tool_rounds import results_sent
from support.verbs import Verb, every_kind_of_verb

ASK_USER = Tool(name="ask_user", description="Asks the user.", parameters={"type": "object"})
ADA, MALLORY = '{"to": "Ada", "amount": 1}', '{"to": "Mallory", "amount": 1000000}'
PAY = tool_call("pay", {"to": "Ada", "amount": 1}, tool_call_id="c1")
WAITING = turn(PAY, tool_call("ask_user", tool_call_id="c2"))
DONE = turn(text("Done."))


class Bank:
    """A tool that wants approval, and what it paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    @property
    def tools(self) -> list[Any]:
        @tool(approval="always")
        def pay(to: str, amount: int) -> str:
            self.paid.append((to, amount))
            return "paid"

        @tool(approval="always")
        def burn(to: str, amount: int) -> str:
            raise AssertionError("nobody approved it")

        return [pay, burn, ASK_USER]


class Replaying(ScriptedAgent):
    """An agent whose next turn is also what it replays."""

    def connect(self, input: RunAgentInput) -> AsyncIterator[Any]:
        return self.run(input)


def restated(arguments: str, name: str = "pay") -> MessagesSnapshotEvent:
    """A snapshot in which the call is another."""
    call = ToolCall(id="c1", function=FunctionCall(name=name, arguments=arguments))
    messages: list[Message] = [UserMessage(id="u1", content="Hi"), AssistantMessage(id="c1", tool_calls=[call])]
    return MessagesSnapshotEvent(messages=messages)


def restarted(*deltas: str) -> list[Step]:
    """The call, begun again."""
    return [
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="pay"),
        *(ToolCallArgsEvent(tool_call_id="c1", delta=delta) for delta in deltas),
        ToolCallEndEvent(tool_call_id="c1"),
    ]


CHANGES: dict[str, list[Step]] = {
    "a snapshot": [restated(MALLORY)],
    "a snapshot with another tool": [restated(ADA, "burn")],
    "true for 1": [restated('{"to": "Ada", "amount": true}')],
}


def replayed(agent: ScriptedAgent) -> list[str]:
    """The thread is sent again; return the rules of the warnings."""
    return [each.rule for each in agent.connect_agent_sync().warnings]


@pytest.mark.parametrize("steps", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.requirement("SEC-3")
def test_a_call_that_was_changed_while_it_waited_is_not_carried_out(steps: list[Step]) -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(*steps), DONE, tools=bank.tools)
    agent.run_agent_sync("Pay!")
    assert "SEC-3" in replayed(agent)
    way_out = r"; give the arguments, as in Approve\(arguments=\{\.\.\.\}\), or Deny\(\); nothing was sent$"
    with pytest.raises(UsageError, match=rf"was approved, but it was shown as 'pay\(\{{\"to\":.*{way_out}"):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    assert (bank.paid, len(agent.inputs)) == ([], 2)


@pytest.mark.parametrize("steps", [[*restarted(MALLORY)], [restated(f"{ADA}, 5")]], ids=["whole", "more of it"])
@pytest.mark.requirement("SEC-3")
def test_a_call_that_starts_again_while_it_waits_is_not_carried_out(steps: list[Step]) -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(restated(ADA), *steps), DONE, tools=bank.tools)
    agent.run_agent_sync("Pay!")
    replayed(agent)
    with pytest.raises(UsageError):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    assert bank.paid == []


@every_kind_of_verb
@pytest.mark.requirement("SEC-3")
def test_it_is_approved_with_arguments_of_the_persons_own_or_denied(verb: Verb) -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(restated(MALLORY)), DONE, tools=bank.tools)
    verb(agent, "Pay!")
    replayed(agent)
    denying = agent.clone()
    assert isinstance(verb(agent, tool_results={"c1": Approve()}).error, UsageError)
    assert verb(agent, tool_results={"c1": Approve({"to": "Ada", "amount": 1})}).error is None
    assert bank.paid == [("Ada", 1)]
    assert verb(denying, tool_results={"c1": Deny("no")}).error is None
    assert results_sent(denying)[-1][0] == ("c1", "no", "no")


@pytest.mark.parametrize("is_restored", [False, True], ids=["at once", "restored"])
@pytest.mark.parametrize("delta", [f"{ADA}, 5", MALLORY], ids=["no JSON", "whole"])
def test_only_the_run_that_changed_a_call_warns_of_it(delta: str, *, is_restored: bool) -> None:
    agent = Replaying(
        turn(PAY),
        turn(restated(delta)),
        turn(restated(delta)),
        tools=Bank().tools,
    )
    agent.run_agent_sync("Pay!")
    rules: list[list[str]] = []
    for _ in range(2):
        rules.append(replayed(agent))
        if is_restored:
            agent.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    assert [each.count("SEC-3") for each in rules] == [1, 0]


@pytest.mark.parametrize("same", ['{"amount": 1.0, "to": "Ada"}', ADA], ids=["in other words", "word for word"])
def test_a_call_that_is_restated_with_the_same_json_is_the_same(same: str) -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(restated(same)), DONE, tools=bank.tools)
    agent.run_agent_sync("Pay!")
    assert "SEC-3" not in replayed(agent)
    agent.run_agent_sync(tool_results={"c1": Approve()})
    assert bank.paid == [("Ada", 1)]


@pytest.mark.anyio
async def test_a_replay_that_changes_a_waiting_call_does_not_change_what_was_approved() -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(restated(MALLORY)), DONE, tools=bank.tools)
    await agent.run_agent("Pay!")
    result = await agent.connect_agent()
    assert "SEC-3" in [each.rule for each in result.warnings]
    with pytest.raises(UsageError, match="Mallory"):
        await agent.run_agent(tool_results={"c1": Approve()})
    assert bank.paid == []


def saved(agent: ScriptedAgent) -> ScriptedAgent:
    """The conversation in another process."""
    other = ScriptedAgent(DONE, tools=agent.tools)
    other.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    return other


@pytest.mark.parametrize("moved", [saved, ScriptedAgent.clone], ids=["saved and restored", "cloned"])
@pytest.mark.requirement("SEC-3")
def test_what_was_shown_goes_with_the_conversation(moved: Callable[[ScriptedAgent], ScriptedAgent]) -> None:
    bank = Bank()
    agent = Replaying(turn(PAY), turn(restated(MALLORY)), DONE, tools=bank.tools)
    agent.run_agent_sync("Pay!")
    before = moved(agent)
    replayed(agent)
    with pytest.raises(UsageError, match="Mallory"):
        moved(agent).run_agent_sync(tool_results={"c1": Approve()})
    assert bank.paid == []
    before.run_agent_sync(tool_results={"c1": Approve()})
    assert bank.paid == [("Ada", 1)]


@pytest.mark.requirement("SEC-3")
def test_a_prompt_that_goes_on_without_an_answer_takes_the_call_with_it() -> None:
    bank = Bank()
    agent = ScriptedAgent(WAITING, DONE, turn(restated(MALLORY)), tools=bank.tools)
    agent.run_agent_sync("Pay!")
    agent.run_agent_sync("What is the weather?")
    agent.run_agent_sync("And tomorrow?")
    with pytest.raises(UsageError):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    assert bank.paid == []


YES = {"approved": True}


@pytest.mark.parametrize(
    "yes",
    [{"i1": Approve()}, {"i1": Resolve(YES)}, [ResumeEntry(interrupt_id="i1", status="resolved", payload=YES)]],
    ids=["Approve", "Resolve", "an entry"],
)
@pytest.mark.anyio
async def test_an_interrupt_about_a_call_that_was_changed_is_not_approved(yes: Any) -> None:
    asked = interrupt("Pay?", interrupt_id="i1", tool_call_id="c1")
    agent = Replaying(
        turn(PAY, outcome=asked),
        turn(restated(MALLORY), outcome=asked),
        DONE,
    )
    await agent.run_agent("Pay!")
    assert "SEC-3" in [each.rule for each in (await agent.connect_agent()).warnings]
    with pytest.raises(UsageError, match=r"Ada.*Mallory"):
        await agent.run_agent(resume=yes)
    assert len(agent.inputs) == 2
    abandoning = agent.clone()
    assert (await agent.run_agent(resume={"i1": Deny()})).text == "Done."
    assert (await abandoning.run_agent(resume={"i1": Cancel()})).text == "Done."


@pytest.mark.parametrize("words", ["Pay 1?", "Pay 1000000?"])
@pytest.mark.anyio
async def test_a_replay_that_changes_the_words_of_a_waiting_interrupt_warns_of_it(words: str) -> None:
    agent = Replaying(
        turn(outcome=interrupt("Pay 1?", interrupt_id="i1")), turn(outcome=interrupt(words, interrupt_id="i1"))
    )
    await agent.run_agent("Pay!")
    rules = [each.rule for each in (await agent.connect_agent()).warnings]
    assert ("SEC-3" in rules) == (words != "Pay 1?")
