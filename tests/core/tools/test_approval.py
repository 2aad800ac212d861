"""Approval: tools that wait for a person, who says yes, no, or yes with other arguments; silence is a no (SEC-3)."""

from __future__ import annotations

import inspect
import json
import posixpath
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr, StringConstraints

from agui_client import (
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    FunctionTool,
    HttpAgent,
    People,
    ToolError,
    ToolLimits,
    UsageError,
    tool,
)
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client.asgi import agent_app
from agui_client.testing import Gate, ScriptedAgent, serve, text, tool_call, turn
from agui_client.types import ApprovalRule
from support.leaks import nothing_left_behind
from support.programs import STRICT, run_program
from support.tool_rounds import results_in, results_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb
from support.waiting import LIMIT, until

DONE = turn(text("Done."))
DENIED = "The user denied this tool call."
CALL = turn(tool_call("pay", {"amount": 5}, tool_call_id="c1"))
TWO_CALLS = turn(tool_call("pay", {"amount": 5}, tool_call_id="c1"), tool_call("pay", {"amount": 7}, tool_call_id="c2"))


class Till:
    """A tool that wants approval, and what it was called with."""

    def __init__(self, approval: ApprovalRule = "always") -> None:
        self.paid: list[int] = []

        def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool: FunctionTool[..., Any] = tool(pay, approval=approval)


def raising(request: ApprovalRequest) -> bool:
    raise KeyError("the screen is broken")


async def async_false(request: ApprovalRequest) -> bool:
    await anyio.lowlevel.checkpoint()
    return False


async def async_true(request: ApprovalRequest) -> bool:
    await anyio.lowlevel.checkpoint()
    return True


async def async_raising(request: ApprovalRequest) -> bool:
    await anyio.lowlevel.checkpoint()
    raise KeyError("the screen is broken")


def returning_a_coroutine(request: ApprovalRequest) -> Awaitable[bool]:
    return async_true(request)


class Approver:
    """An object that is called like a coroutine function."""

    async def __call__(self, request: ApprovalRequest) -> bool:
        """Approve."""
        return await async_true(request)


# --- when somebody is asked

ASKS: dict[str, tuple[str | Callable[[ApprovalRequest], Any], bool]] = {
    "never": ("never", False),
    "always": ("always", True),
    "a yes": (lambda request: True, True),
    "a no": (lambda request: False, False),
    "never, in a word": (lambda request: "never", False),
    "an async yes": (async_true, True),
    "an async no": (async_false, False),
    "nothing": (lambda request: None, True),
    "zero": (lambda request: 0, True),
    "an exception": (raising, True),
    "an async exception": (async_raising, True),
}


@pytest.mark.parametrize(("rule", "asks"), ASKS.values(), ids=list(ASKS))
@every_result_verb
@pytest.mark.requirement("SEC-3")
def test_a_person_is_asked_unless_the_rule_plainly_says_no(verb: Verb, rule: Any, asks: bool) -> None:
    asked: list[ApprovalRequest] = []

    def deny(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    till = Till(rule)
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=deny)
    assert verb(agent, "Hi").error is None
    assert (len(asked), till.paid) == ((1, []) if asks else (0, [5]))


@every_kind_of_verb
def test_a_rule_and_an_approver_see_the_call_and_the_conversation(verb: Verb) -> None:
    requests: list[ApprovalRequest] = []

    def note(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    till = Till(note)
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=note, initial_state={"purse": 9})
    assert verb(agent, "Hi", run_id="r1").error is None
    first, second = requests
    assert first == second
    assert (first.tool_call_id, first.name, first.tool, first.arguments) == (
        "c1",
        "pay",
        till.tool.definition,
        {"amount": 5},
    )
    assert (first.thread_id, first.run_id, first.state) == (agent.thread_id, "r1", {"purse": 9})
    assert list(first.messages) == agent.messages[:2]


def test_nobody_is_asked_about_arguments_that_do_not_fit() -> None:
    asked: list[ApprovalRequest] = []

    def note(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    agent = ScriptedAgent(turn(tool_call("pay", {"amount": "much"})), DONE, tools=[Till().tool], approve=note)
    agent.run_agent_sync("Hi")
    assert asked == []


class Transfer(BaseModel):
    to: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
    express: bool = True


def in_scratch(request: ApprovalRequest) -> bool:
    return not str(request.arguments["path"]).startswith("/tmp/")


@every_result_verb
@pytest.mark.requirement("SEC-2", "SEC-3")
def test_a_rule_judges_what_the_function_gets(verb: Verb) -> None:
    deleted: list[Path] = []
    asked: list[Any] = []

    @tool(approval=in_scratch, ask="Delete {path}?")
    def delete(path: Annotated[Path, AfterValidator(lambda path: Path(posixpath.normpath(path)))]) -> str:
        deleted.append(path)
        return "done"

    def deny(request: ApprovalRequest) -> bool:
        asked.append((request.message, request.arguments))
        return False

    paths = ["/tmp/../etc/passwd", "/tmp/a/../b"]
    calls = [tool_call("delete", {"path": path}, tool_call_id=f"c{number}") for number, path in enumerate(paths)]
    agent = ScriptedAgent(turn(*calls), DONE, tools=[delete], approve=deny)
    result = verb(agent, "Hi").result
    assert result is not None
    assert asked == [("Delete /etc/passwd?", {"path": "/etc/passwd"})]
    assert deleted == [Path("/tmp/b")]
    assert [each.arguments["path"] for each in result.tool_executions] == ["/etc/passwd", str(deleted[0])]
    # The agent's own words stay in its message.
    calls_made = [call for _, call in tool_calls_in(agent.messages)]
    assert [json.loads(call.function.arguments)["path"] for call in calls_made] == paths


@every_result_verb
@pytest.mark.requirement("SEC-2", "SEC-3")
def test_an_argument_that_a_person_leaves_as_it_was_shown_is_validated_once(verb: Verb) -> None:
    paid: list[Any] = []
    shown: list[Any] = []

    @tool(approval="always")
    def pay(
        cents: Annotated[int, BeforeValidator(lambda euros: int(euros) * 100)],
        transfer: Transfer,
        key: SecretStr,
        n: int,
    ) -> str:
        paid.append((cents, transfer, key.get_secret_value(), n))
        return "done"

    def one_more(request: ApprovalRequest) -> Approve:
        shown.append(request.arguments)
        return Approve({**request.arguments, "n": "2"})

    sent = {"cents": 5, "transfer": {"to": " ANN "}, "key": "hunter2", "n": 1}
    result = verb(ScriptedAgent(turn(tool_call("pay", sent)), DONE, tools=[pay], approve=one_more), "Hi").result
    assert result is not None
    assert shown == [{"cents": 500, "transfer": {"to": "ann", "express": True}, "key": "hunter2", "n": 1}]
    assert paid == [(500, Transfer(to="ann"), "hunter2", 2)]
    assert result.tool_executions[0].arguments == {**shown[0], "n": 2}


# --- what an answer means

APPROVALS: dict[str, Callable[[ApprovalRequest], Any]] = {
    "True": lambda request: True,
    "Approve()": lambda request: Approve(),
    "async True": async_true,
    "an object's coroutine": Approver(),
    "a plain function's coroutine": returning_a_coroutine,
}
DENIALS: dict[str, Callable[[ApprovalRequest], Any]] = {
    "False": lambda request: False,
    "Deny()": lambda request: Deny(),
    "an async False": async_false,
}
FAILING: dict[str, Callable[[ApprovalRequest], Any]] = {
    "an exception": raising,
    "an async exception": async_raising,
}
RETURNED = "approve= returned {} for call 'c1'; it returns True, Approve(...), False or Deny(reason)"
MISTAKES: dict[str, tuple[Callable[[ApprovalRequest], Any], str]] = {
    "None": (lambda request: None, RETURNED.format("a NoneType")),
    "0": (lambda request: 0, RETURNED.format("an int")),
    "1": (lambda request: 1, RETURNED.format("an int")),
    "yes": (lambda request: "yes", RETURNED.format("a str")),
    "{'approved': True}": (lambda request: {"approved": True}, RETURNED.format("a dict")),
    "Approve, the class": (lambda request: Approve, RETURNED.format("the class Approve")),
    "Deny, the class": (lambda request: Deny, RETURNED.format("the class Deny")),
}
WRONG_ANSWERS: dict[str, Callable[[ApprovalRequest], Any]] = {
    "arguments without names": lambda request: Approve(5),  # type: ignore[arg-type]
    "arguments as text": lambda request: Approve('{"amount":3}'),  # type: ignore[arg-type]
    "arguments as no text": lambda request: Approve(""),  # type: ignore[arg-type]
    "arguments as a list": lambda request: Approve([]),  # type: ignore[arg-type]
    "arguments as pairs": lambda request: Approve([["amount", 3]]),  # type: ignore[arg-type]
    "arguments with a number for a name": lambda request: Approve({3: 3}),  # type: ignore[dict-item]
    "a reason without words": lambda request: Deny(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("approve", APPROVALS.values(), ids=list(APPROVALS))
@every_kind_of_verb
@pytest.mark.requirement("SEC-3")
def test_only_true_and_approve_approve(verb: Verb, approve: Any) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=approve)
    assert verb(agent, "Hi").error is None
    assert (till.paid, results_sent(agent)[1]) == ([5], [("c1", "paid 5", None)])


@pytest.mark.parametrize("approve", DENIALS.values(), ids=list(DENIALS))
@every_kind_of_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_only_false_and_deny_deny_and_the_agent_is_told(verb: Verb, approve: Any) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=approve)
    assert verb(agent, "Hi").error is None
    assert (till.paid, results_sent(agent)[1]) == ([], [("c1", DENIED, DENIED)])


@pytest.mark.parametrize("approve", FAILING.values(), ids=list(FAILING))
@every_kind_of_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_an_approver_who_fails_denies_in_nobodys_name(
    verb: Verb, approve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=approve)
    assert verb(agent, "Hi").error is None
    told = "The approval of this tool call failed, so it was not carried out."
    assert (till.paid, results_sent(agent)[1]) == ([], [("c1", told, told)])
    assert any(each.startswith("the approval of call 'c1' failed, so it is denied: ") for each in caplog.messages)
    assert "out of order" not in caplog.text


def refused(verb: Verb, approve: Any) -> tuple[str, ScriptedAgent, Till]:
    """The problem that a run of two calls ends with, of which the first is decided about by mistake."""
    till = Till()

    def first_only(request: ApprovalRequest) -> Any:
        return approve(request) if request.tool_call_id == "c1" else True

    agent = ScriptedAgent(TWO_CALLS, DONE, tools=[till.tool], approve=first_only)
    error = verb(agent, "Hi").error
    assert isinstance(error, UsageError)
    return error.problem, agent, till


@pytest.mark.parametrize(("approve", "problem"), MISTAKES.values(), ids=list(MISTAKES))
@every_kind_of_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_an_approver_that_returns_something_else_fails_the_run_and_decides_nothing(
    verb: Verb, approve: Any, problem: str
) -> None:
    told, agent, till = refused(verb, approve)
    assert told.startswith(problem)
    # The other call came to its end, which is not lost; this one waits for its decision.
    assert (till.paid, results_in(agent.messages)) == ([7], [("c2", "paid 7", None)])
    assert [each.id for each in agent.pending_tool_calls] == ["c1"]
    assert agent.run_agent_sync(tool_results={"c1": Approve()}).text == "Done."
    assert till.paid == [7, 5]


@pytest.mark.parametrize("approve", WRONG_ANSWERS.values(), ids=list(WRONG_ANSWERS))
@every_result_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_a_decision_that_cannot_be_made_fails_the_run_and_decides_nothing(verb: Verb, approve: Any) -> None:
    _, agent, till = refused(verb, approve)
    assert (till.paid, [each.id for each in agent.pending_tool_calls]) == ([7], ["c1"])


@every_kind_of_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_a_denial_says_why(verb: Verb) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=lambda request: Deny("too much; ask for 3"))
    assert verb(agent, "Hi").error is None
    assert (till.paid, results_sent(agent)[1]) == ([], [("c1", "too much; ask for 3", "too much; ask for 3")])


@every_result_verb
@pytest.mark.requirement("SEC-2", "SEC-3")
def test_an_approval_may_change_the_arguments(verb: Verb) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=lambda request: Approve({"amount": 3}))
    result = verb(agent, "Hi").result
    assert result is not None
    assert (till.paid, results_sent(agent)[1]) == ([3], [("c1", "paid 3", None)])
    assert result.tool_executions[0].arguments == {"amount": 3}


@pytest.mark.parametrize("edited", [{"amount": "much"}, {}, {"amount": 1, "tip": 1}], ids=str)
@every_kind_of_verb
@pytest.mark.requirement("SEC-2", "SEC-3")
def test_changed_arguments_that_do_not_fit_are_not_used(verb: Verb, edited: dict[str, Any]) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=lambda request: Approve(edited))
    assert verb(agent, "Hi").error is None
    [(_, content, error)] = results_sent(agent)[1]
    assert (till.paid, content) == ([], error)
    assert str(error).startswith(
        "tool call 'c1' was approved with other arguments, but the arguments do not fit: 'amount'"
        if "tip" not in edited
        else "tool call 'c1' was approved with other arguments, but the arguments do not fit: 'tip'"
    )


LATE = "Nobody approved this tool call within 0.2 seconds, so it was not carried out."


@pytest.mark.anyio
@pytest.mark.requirement("SEC-3")
async def test_an_approver_who_takes_too_long_denies() -> None:
    async def sleep(request: ApprovalRequest) -> bool:
        await anyio.sleep_forever()
        return True

    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=sleep, people=People(wait=0.2))
    with anyio.fail_after(LIMIT):
        async with nothing_left_behind():
            await agent.run_agent("Hi")
    assert (till.paid, results_sent(agent)[1]) == ([], [("c1", LATE, LATE)])


@every_result_verb
@pytest.mark.requirement("SEC-3")
def test_an_approver_in_a_thread_who_takes_too_long_is_left_there(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    may_end = threading.Event()

    def wait(request: ApprovalRequest) -> bool:
        may_end.wait()
        return True

    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=wait, people=People(wait=0.2))
    try:
        assert verb(agent, "Hi").error is None
    finally:
        may_end.set()
    assert (till.paid, results_sent(agent)[1]) == ([], [("c1", LATE, LATE)])
    left = "the approval of call 'c1' was left in its thread, where nobody waits for it any more"
    assert [each.name for each in caplog.records if each.getMessage() == left] == ["agui_client.tools"]


@pytest.mark.anyio
async def test_a_coroutine_that_an_approver_in_a_thread_makes_too_late_is_closed() -> None:
    may_end, made = threading.Event(), list[Coroutine[object, object, bool]]()

    async def decide() -> bool:
        return True

    def wait(request: ApprovalRequest) -> Coroutine[object, object, bool]:
        may_end.wait()
        made.append(decide())
        return made[0]

    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=wait, people=People(wait=0.2))
    try:
        await agent.run_agent("Hi")
    finally:
        may_end.set()
    await until(lambda: bool(made) and inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED)
    assert till.paid == []


@every_kind_of_verb
def test_several_calls_wait_for_approval_at_once(verb: Verb) -> None:
    are_all_asked, asked = Gate(), set[str]()

    async def approve(request: ApprovalRequest) -> bool:
        asked.add(request.tool_call_id)
        if len(asked) == 2:
            are_all_asked.open()
        await are_all_asked.wait()
        return request.tool_call_id == "c2"

    till = Till()
    agent = ScriptedAgent(TWO_CALLS, DONE, tools=[till.tool], approve=approve, tool_limits=ToolLimits(at_once=1))
    assert verb(agent, "Hi").error is None
    assert (till.paid, results_sent(agent)[1]) == ([7], [("c1", DENIED, DENIED), ("c2", "paid 7", None)])


@every_result_verb
@pytest.mark.parametrize("text", ['{"force": true}', '{"force": "true"}', '{"force": 1}', "{}"])
@pytest.mark.requirement("SEC-3")
def test_a_rule_judges_what_the_function_would_be_called_with(verb: Verb, text: str) -> None:
    wiped: list[bool] = []

    @tool(approval=lambda request: request.arguments["force"] is True)
    def wipe(force: bool = True) -> None:
        wiped.append(force)

    agent = ScriptedAgent(turn(tool_call("wipe", text, tool_call_id="c1")), DONE, tools=[wipe])
    assert verb(agent, "Hi").error is None
    assert (wiped, [call.id for call in agent.pending_tool_calls]) == ([], ["c1"])


@every_kind_of_verb
@pytest.mark.requirement("SEC-3")
def test_an_approver_who_changes_what_he_is_shown_changes_nothing(verb: Verb) -> None:
    def approve(request: ApprovalRequest) -> bool:
        request.arguments["amount"] = 1000000  # type: ignore[index] # pyright: ignore[reportIndexIssue]
        request.tool.name = "steal"
        return True

    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool], approve=approve)
    assert verb(agent, "Hi").error is None
    assert (till.paid, till.tool.name) == ([5], "pay")


def test_a_crowd_of_calls_is_asked_about_in_turns() -> None:
    most = 0

    def approve(request: ApprovalRequest) -> bool:
        nonlocal most
        most = max(most, threading.active_count())
        return True

    till, before = Till(), threading.active_count()
    calls = [tool_call("pay", {"amount": 1}, tool_call_id=f"c{index}") for index in range(300)]
    result = ScriptedAgent(turn(*calls), DONE, tools=[till.tool], approve=approve).run_agent_sync("Hi")
    assert (len(till.paid), result.text) == (300, "Done.")
    assert most - before < 100


@pytest.mark.parametrize("reason", [None, 5, ["no"]])
def test_a_reason_is_text(reason: Any) -> None:
    with pytest.raises(UsageError, match="Deny takes the reason as text"):
        Deny(reason)


# --- without an approver


@every_result_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_without_an_approver_a_call_comes_back_pending(verb: Verb) -> None:
    till = Till(lambda request: bool(request.arguments["amount"] > 6))
    agent = ScriptedAgent(TWO_CALLS, DONE, tools=[till.tool])
    result = verb(agent, "Hi").result
    assert result is not None
    assert (till.paid, len(agent.inputs)) == ([5], 1)
    assert [call.id for call in result.pending_tool_calls] == ["c2"]
    assert agent.pending_tool_calls == result.pending_tool_calls
    assert agent.snapshot().pending_tool_call_ids == ["c2"]
    assert agent.clone().pending_tool_calls == result.pending_tool_calls
    assert [each.status for each in result.tool_executions] == ["succeeded", "waiting"]
    assert results_in(agent.messages) == [("c1", "paid 5", None)]


ANSWERS: dict[str, tuple[Any, tuple[str, str | None]]] = {
    "a value": ({"paid": 4}, ('{"paid":4}', None)),
    "a denial": (Deny("not today"), ("not today", "not today")),
    "a failure": (ToolError("no money"), ("no money", "no money")),
    "an approval": (Approve(), ("paid 5", None)),
    "an approval with other arguments": (Approve({"amount": 2}), ("paid 2", None)),
}


@pytest.mark.parametrize(("answer", "told"), ANSWERS.values(), ids=list(ANSWERS))
@every_kind_of_verb
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_it_is_answered_later(verb: Verb, answer: Any, told: tuple[str, str | None]) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool])
    verb(agent, "Hi")
    ending = verb(agent, "And?", tool_results={"c1": answer})
    assert ending.error is None
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert results_sent(agent)[1] == [("c1", *told)]
    assert till.paid == ([int(told[0][-1])] if isinstance(answer, Approve) else [])
    if ending.result is not None:
        assert ending.result.warnings == []
        statuses = [(each.tool_call_id, each.status) for each in ending.result.tool_executions]
        assert statuses == ([("c1", "succeeded")] if isinstance(answer, Approve) else [])


@every_kind_of_verb
@pytest.mark.requirement("SEC-2", "SEC-3")
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(verb: Verb) -> None:
    till = Till()
    agent = ScriptedAgent(TWO_CALLS, DONE, tools=[till.tool])
    verb(agent, "Hi")
    error = verb(agent, "And?", tool_results={"c1": Approve({"amount": "much"}), "c2": Deny("no")}).error
    assert isinstance(error, UsageError)
    assert "tool_results approves 'c1', but the arguments do not fit: 'amount'" in str(error)
    assert (till.paid, len(agent.inputs), len(agent.messages)) == ([], 1, 3)
    assert verb(agent, "And?", tool_results={"c1": Approve({"amount": 3}), "c2": Deny("no")}).error is None
    assert (till.paid, results_sent(agent)[1]) == ([3], [("c1", "paid 3", None), ("c2", "no", "no")])


@every_kind_of_verb
def test_calls_approved_later_run_at_once_and_are_answered_in_the_order_of_the_approvals(verb: Verb) -> None:
    is_first_done = Gate()

    @tool(approval="always")
    async def pay(amount: int) -> int:
        await is_first_done.wait() if amount == 5 else is_first_done.open()
        return amount

    agent = ScriptedAgent(TWO_CALLS, DONE, tools=[pay])
    verb(agent, "Hi")
    assert verb(agent, tool_results={"c1": Approve(), "c2": Approve()}).error is None
    assert agent.pending_tool_calls == []
    assert results_sent(agent)[1] == [("c1", "5", None), ("c2", "7", None)]


@every_kind_of_verb
def test_an_approved_call_is_not_carried_out_a_second_time(verb: Verb) -> None:
    till = Till()
    agent = ScriptedAgent(CALL, DONE, tools=[till.tool])
    verb(agent, "Hi")
    verb(agent, tool_results={"c1": Approve()})
    error = verb(agent, tool_results={"c1": Approve()}).error
    assert isinstance(error, UsageError)
    assert str(error) == "tool_results names 'c1', a call that has a result already; nothing was sent"
    assert till.paid == [5]


@pytest.mark.parametrize("tools", [[], [Till().tool.definition]], ids=["not offered", "a definition"])
@every_kind_of_verb
@pytest.mark.requirement("SEC-4")
def test_a_call_without_a_function_cannot_be_approved(verb: Verb, tools: Any) -> None:
    agent = ScriptedAgent(CALL, DONE, tools=[Till().tool])
    verb(agent, "Hi")
    before = agent.snapshot()
    error = verb(agent, "And?", tools=tools, tool_results={"c1": Approve()}).error
    assert isinstance(error, UsageError)
    assert str(error) == (
        "tool_results approves 'c1', but there is no function for 'pay' in tools=; give its result instead"
    )
    assert (agent.snapshot(), len(agent.inputs), agent.is_running) == (before, 1, False)


# --- in another process

ASKING = """
import sys
from agui_client import HttpAgent, tool

@tool(approval="always")
def pay(amount: int) -> str:
    raise AssertionError("nobody approved it")

agent = HttpAgent(sys.argv[1], tools=[pay])
result = agent.run_agent_sync("Pay!")
assert [call.id for call in result.pending_tool_calls] == ["c1"]
print(agent.snapshot().model_dump_json())
"""
ANSWERING = """
import json, sys
from agui_client import Approve, ConversationSnapshot, Deny, HttpAgent, ToolError, tool

@tool(approval="always")
def pay(amount: int) -> str:
    return f"paid {amount}"

agent = HttpAgent(sys.argv[1], tools=[pay])
agent.restore(ConversationSnapshot.model_validate_json(sys.stdin.read()))
result = agent.run_agent_sync(tool_results={call.id: eval(sys.argv[2]) for call in agent.pending_tool_calls})
assert result.warnings == [], result.warnings
print(json.dumps([result.text, agent.snapshot().pending_tool_call_ids]))
"""


def program(source: str, *arguments: str, given: str = "", logged: str = "") -> str:
    """What a Python program prints that takes every warning for an error, and logs nothing but one thing."""
    printed, complaints, code = run_program("-c", source, *arguments, flags=STRICT, given=given)
    assert (code, complaints.partition(":")[0]) == (0, logged)
    return printed


@pytest.fixture(scope="module")
def saved() -> str:
    """A conversation that a process saved while a call waited for approval."""
    with serve(ScriptedAgent(CALL)) as server:
        return program(ASKING, server.url, logged="tool call 'c1' of 'pay' waits for approval")


@pytest.mark.parametrize(
    ("answer", "told"),
    [("Approve({'amount': 2})", ("paid 2", None)), ("Deny('no')", ("no", "no"))],
    ids=["approved", "denied"],
)
@pytest.mark.requirement("SEC-3", "TOOL-10")
def test_it_is_answered_by_another_process_from_the_saved_conversation(
    answer: str, told: tuple[str, str | None], saved: str
) -> None:
    producer = ScriptedAgent(DONE)
    with serve(producer) as server:
        ended = program(ANSWERING, server.url, answer, given=saved)
    assert json.loads(ended) == ["Done.", []]
    assert results_sent(producer) == [[("c1", *told)]]
    assert producer.inputs[0].thread_id == json.loads(saved)["thread_id"]


def _yes(_: ApprovalRequest) -> bool:
    """Approve each call."""
    return True


@pytest.mark.parametrize("where", ["alone", "served", "with approve=", "of another tool", "to be decided later"])
def test_an_approval_that_nobody_is_asked_for_is_warned_of_with_the_remedy(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"approve": _yes} if where == "with approve=" else {}
    if where == "to be decided later":
        options = {"people": People(fallback="leave")}
    agent = ScriptedAgent(CALL, DONE, tools=[Till().tool], **options)
    if where == "of another tool":
        agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), tools=[Till().tool])
    if where == "served":
        caller = HttpAgent("http://app/", app=agent_app(agent))
        assert [each.tool_call_id for each in caller.run_agent_sync("Pay").interrupts] == ["c1"]
        assert "approval" not in caplog.text
        return
    warned = agent.run_agent_sync("Pay").warnings
    expected = "tool call 'c1' of 'pay' waits for approval: nobody is asked without approve=; give it, or "
    if where == "alone":
        expected += 'run_agent(tool_results={call.id: Approve()}), which people=People(fallback="leave") announces'
        assert [each.message for each in warned] == [expected]
    else:
        assert [each for each in warned if "approv" in each.message] == []


def test_a_saved_conversation_does_not_hold_what_was_never_said() -> None:
    agent = HttpAgent("http://localhost:9", tools=[Till().tool])
    document = json.loads(agent.snapshot().model_dump_json())
    agent.restore(ConversationSnapshot.model_validate(document))
    with pytest.raises(UsageError, match="'c1', a call that was never made"):
        agent.run_agent_sync(tool_results={"c1": Approve()})


@pytest.mark.anyio
async def test_an_approver_is_asked_in_the_task_of_the_run_if_it_is_async_and_in_a_thread_otherwise() -> None:
    threads: dict[str, bool] = {}

    async def approve_here(request: ApprovalRequest) -> bool:
        threads["async"] = threading.current_thread() is threading.main_thread()
        return True

    def approve_elsewhere(request: ApprovalRequest) -> bool:
        threads["sync"] = threading.current_thread() is threading.main_thread()
        return True

    approvers: list[Callable[[ApprovalRequest], bool | Awaitable[bool]]] = [approve_here, approve_elsewhere]
    for approve in approvers:
        await ScriptedAgent(CALL, DONE, tools=[Till().tool], approve=approve).run_agent("Hi")
    assert threads == {"async": True, "sync": False}


# --- the question, and approval for the whole thread


def shorter(arguments: Mapping[str, Any]) -> str:
    return f"{arguments['group']}?"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ask", "shown"),
    [
        ("Send {count} mails to {group} for {price:.2f}?", "Send 3 mails to all for 0.50?"),
        ("To {to}, {{all}}?", 'To ["a@b"], {all}?'),
        (shorter, "all?"),
        (None, ""),
        ("{group:.2f}", ""),  # a format that fits no text
    ],
    ids=["arguments", "braces", "function", "none", "misfit"],
)
async def test_the_person_reads_the_question_of_the_tool(ask: Any, shown: str) -> None:
    questions: list[str] = []

    @tool(approval="always", ask=ask)
    def send(count: int, group: str, to: list[str], price: float = 0.5) -> str:
        return "sent"

    def approve(request: ApprovalRequest) -> bool:
        questions.append(request.message)
        return True

    call = tool_call("send", {"count": 3, "group": "all", "to": ["a@b"]})
    agent = ScriptedAgent(turn(call), DONE, tools=[send], approve=approve)
    assert (await agent.run_agent("Hi")).text == "Done."
    assert questions == [shown]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ask": "Pay {sum}?"}, "ask of 'pay' names 'sum', which is not an argument; the tool takes amount"),
        ({"ask": "Pay {?"}, "ask of 'pay' cannot be read: expected '}' before end of string; write {{ for a brace"),
        ({"ask": 5}, "ask of 'pay' is a text or a function of the arguments, not 5"),
        (
            {"ask": "Pay?", "approval": "never"},
            "ask of 'pay' is the question of an approval: give approval=\"always\", too",
        ),
    ],
    ids=str,
)
def test_a_question_that_cannot_be_asked_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        cast("Any", tool)(**{"approval": "always", **options})(pay_at_once)
    assert str(refused.value).replace("pay_at_once", "pay") == problem


def pay_at_once(amount: int) -> str:
    return f"paid {amount}"


@pytest.mark.anyio
@pytest.mark.requirement("SEC-3")
async def test_always_approves_the_tool_for_this_thread_and_no_other() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Approve:
        asked.append(f"{request.name} {request.arguments['amount']}")
        return Approve(always=True)

    till = Till()
    once = turn(tool_call("pay", {"amount": 1}))
    agent = ScriptedAgent(once, once, DONE, once, DONE, once, DONE, once, DONE, tools=[till.tool], approve=approve)
    await agent.run_agent("Hi")
    agent.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    await agent.run_agent("Again")
    assert (asked, agent.approved_tools) == (["pay 1"], {"pay"})
    await agent.clone(thread_id="other").run_agent("Hi")
    assert len(asked) == 2
    agent.approved_tools.discard("pay")
    await agent.run_agent("Once more")
    assert (len(asked), len(till.paid)) == (3, 6)
