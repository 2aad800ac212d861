"""Tools that ask the person at the application: `await ctx.ask(...)`, and `ctx.ask_sync(...)` in plain functions."""

from __future__ import annotations

import logging
import threading
from typing import Any, Literal

import anyio
import pytest
from ag_ui.core import Interrupt
from pydantic import BaseModel, field_validator

from agui_client import Approve, Cancel, Deny, Resolve, ToolContext, ToolError, UsageError, tool
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.tool_rounds import results_in, results_sent
from support.verbs import Verb, every_kind_of_verb
from support.waiting import LIMIT

CALL = turn(tool_call("pay", {"amount": 5}, tool_call_id="c1"))
DONE = turn(text("Done."))
NOBODY = "Nobody is here to answer this tool's question; ask the user in your reply."


class Account(BaseModel):
    name: str
    balance: int = 0

    @field_validator("name")
    @classmethod
    def is_known(cls, name: str) -> str:
        if name == "unknown":
            raise ValueError("no such account")
        return name


@tool
async def pay(ctx: ToolContext, amount: int) -> str:
    """Pays."""
    account = await ctx.ask("Which account?", Account)
    return f"paid {amount} from {account.name}"


@tool(name="pay")
def pay_in_thread(ctx: ToolContext, amount: int) -> str:
    """Pays."""
    account = ctx.ask_sync("Which account?", Account)
    return f"paid {amount} from {account.name}"


both_kinds = pytest.mark.parametrize("payer", [pay, pay_in_thread], ids=["coroutine", "thread"])


@both_kinds
@every_kind_of_verb
def test_a_question_of_a_tool_goes_to_the_answerer(verb: Verb, payer: Any) -> None:
    asked: list[Interrupt] = []

    async def answer(interrupt: Interrupt) -> Resolve:
        asked.append(interrupt)
        return Resolve(Account(name="savings"))

    agent = ScriptedAgent(CALL, DONE, tools=[payer], answer=answer)
    assert verb(agent, "Pay!").error is None
    assert results_sent(agent)[1] == [("c1", "paid 5 from savings", None)]
    [question] = asked
    assert (question.message, question.tool_call_id, question.reason) == ("Which account?", "c1", "tool_question")
    assert question.response_schema is not None
    assert question.response_schema["required"] == ["name"]


@both_kinds
@every_kind_of_verb
def test_with_nobody_to_ask_the_agent_is_told_to_ask(verb: Verb, payer: Any) -> None:
    agent = ScriptedAgent(CALL, DONE, tools=[payer])
    assert verb(agent, "Pay!").error is None
    assert results_sent(agent)[1] == [("c1", NOBODY, NOBODY)]


ANSWERS: dict[str, tuple[Any, str]] = {
    "none": (None, NOBODY),
    "cancelled": (Cancel(), "The user did not want to answer this tool's question."),
    "denied": (Deny(), "The user did not want to answer this tool's question."),
    "no account": (Resolve({"balance": 1}), 'responseSchema at $: needs "name"'),
    "refused by the model": (Resolve({"name": "unknown"}), "does not fit: Value error, no such account."),
    "a decision": (Approve(), "has no place for a decision"),
}


@pytest.mark.parametrize(("given", "said"), ANSWERS.values(), ids=list(ANSWERS))
@both_kinds
def test_an_answer_that_is_none_fails_the_call_with_a_sentence(payer: Any, given: Any, said: str) -> None:
    agent = ScriptedAgent(CALL, DONE, tools=[payer], answer=lambda interrupt: given)
    agent.run_agent_sync("Pay!")
    [(_, content, error)] = results_sent(agent)[1]
    assert said in content
    assert error == content


@both_kinds
@pytest.mark.parametrize("given", ["savings", {"name": "savings"}, True, Resolve])
def test_an_answer_that_is_not_wrapped_fails_the_run_as_a_mistake_of_the_program(payer: Any, given: Any) -> None:
    agent = ScriptedAgent(CALL, DONE, tools=[payer], answer=lambda interrupt: given)
    with pytest.raises(UsageError, match=r"answer= returned .* as the answer to the question of tool call"):
        agent.run_agent_sync("Pay!")
    # The function was at work, and cannot be called again: nobody has answered it.
    assert [(content, error) for _, content, error in results_in(agent.messages)] == [(NOBODY, NOBODY)]


KINDS: list[tuple[Any, Any, Any]] = [
    (None, "in words", "in words"),
    (str, "in words", "in words"),
    (int, 3, 3),
    (list[int], [1, 2], [1, 2]),
    (Literal["a", "b"], "a", "a"),
    ({"type": "object", "required": ["x"]}, {"x": None}, {"x": None}),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), KINDS, ids=repr)
@pytest.mark.anyio
async def test_an_answer_is_text_a_type_or_the_json_of_a_schema(kind: Any, payload: Any, expected: Any) -> None:
    got: list[Any] = []

    @tool(name="pay")
    async def look(ctx: ToolContext, amount: int) -> None:
        got.append(await ctx.ask("What?", kind))

    await ScriptedAgent(CALL, DONE, tools=[look], answer=lambda interrupt: Resolve(payload)).run_agent("Go")
    assert got == [expected]


@both_kinds
@every_kind_of_verb
def test_several_tools_ask_at_once(verb: Verb, payer: Any) -> None:
    both = anyio.Event()
    asked: list[str] = []

    async def answer(interrupt: Interrupt) -> Resolve:
        asked.append(interrupt.id)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return Resolve({"name": f"account of {interrupt.tool_call_id}"})

    calls = turn(*(tool_call("pay", {"amount": 5}, tool_call_id=each) for each in ("c1", "c2")))
    agent = ScriptedAgent(calls, DONE, tools=[payer], answer=answer)
    assert verb(agent, "Pay!").error is None
    assert len(set(asked)) == 2
    assert [each[1] for each in results_sent(agent)[1]] == ["paid 5 from account of c1", "paid 5 from account of c2"]


@pytest.mark.parametrize("is_sync", [False, True], ids=["coroutine", "thread"])
@every_kind_of_verb
def test_a_person_may_be_given_a_time(verb: Verb, is_sync: bool) -> None:
    @tool(name="pay")
    async def wait(ctx: ToolContext, amount: int) -> str:
        return await ctx.ask("Quick?", timeout=0.01)

    @tool(name="pay")
    def wait_in_thread(ctx: ToolContext, amount: int) -> str:
        return ctx.ask_sync("Quick?", timeout=0.01)

    async def answer(interrupt: Interrupt) -> None:
        await anyio.sleep_forever()

    agent = ScriptedAgent(CALL, DONE, tools=[wait_in_thread if is_sync else wait], answer=answer)
    assert verb(agent, "Pay!").error is None
    late = "Nobody answered this tool's question within 0.01 seconds."
    assert results_sent(agent)[1] == [("c1", late, late)]


@both_kinds
@pytest.mark.anyio
async def test_a_question_is_withdrawn_with_its_call(payer: Any) -> None:
    is_asked, is_withdrawn = anyio.Event(), anyio.Event()

    async def answer(interrupt: Interrupt) -> None:
        is_asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            is_withdrawn.set()

    agent = ScriptedAgent(CALL, DONE, tools=[payer], answer=answer)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.run_agent, "Pay!")
            await is_asked.wait()
            agent.abort_run()
        await is_withdrawn.wait()


@pytest.mark.anyio
async def test_a_thread_that_asks_when_its_call_is_over_gets_an_error() -> None:
    contexts: list[ToolContext] = []

    @tool(name="pay")
    def keep(ctx: ToolContext, amount: int) -> None:
        contexts.append(ctx)

    await ScriptedAgent(CALL, DONE, tools=[keep], answer=lambda interrupt: Resolve("late")).run_agent("Pay!")
    with pytest.raises(ToolError, match="over before its question was answered"):
        await contexts[0].ask("Still there?")


@pytest.mark.anyio
async def test_a_coroutine_function_cannot_block_the_loop_with_a_question(caplog: pytest.LogCaptureFixture) -> None:
    @tool(name="pay")
    async def block(ctx: ToolContext, amount: int) -> str:
        return ctx.ask_sync("Sure?")

    agent = ScriptedAgent(CALL, DONE, tools=[block], answer=lambda interrupt: Resolve("yes"))
    with caplog.at_level(logging.ERROR, "agui_client.tools"):
        await agent.run_agent("Pay!")
    assert "in a coroutine function use `await ctx.ask(...)`" in caplog.text


def test_a_tool_that_is_tested_by_itself_asks_nobody_or_a_function_of_the_test() -> None:
    async def answer(interrupt: Interrupt) -> Any:
        return {"name": interrupt.message}

    alone = ToolContext(tool_call_id="c1", name="pay", thread_id="t", run_id="r")
    given = ToolContext(tool_call_id="c1", name="pay", thread_id="t", run_id="r", on_ask=answer)
    with pytest.raises(ToolError, match="Nobody is here"):
        pay_in_thread(alone, 5)
    assert anyio.run(pay, given, 5) == "paid 5 from Which account?"


@pytest.mark.anyio
async def test_a_plain_answerer_is_called_in_a_thread_of_its_own() -> None:
    threads: list[bool] = []

    def answer(interrupt: Interrupt) -> Resolve:
        threads.append(threading.current_thread() is threading.main_thread())
        return Resolve({"name": "savings"})

    await ScriptedAgent(CALL, DONE, tools=[pay], answer=answer).run_agent("Pay!")
    assert threads == [False]
