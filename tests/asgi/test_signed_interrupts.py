"""`secret=` of served agents: a caller answers only what it was asked, although the server keeps nothing."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import RunAgentInput

from agui_client import (
    Approve,
    ConversationSnapshot,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    Resolve,
    ToolContext,
    UsageError,
    tool,
)
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.warnings import WarningLog
from agui_client.asgi import agent_app, served_run_sync
from agui_client.testing import ScriptedAgent, events_of, interrupt, reasoning, text, tool_call, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ag_ui.core import Event

    from agui_client import AbstractAgent, UnrecognizedEvent

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
SECRET = "a secret of this server"
_SECONDS = 10.0

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    done.append(f"paid {amount}")
    return "paid"


@tool(approval="always")
def tip() -> str:
    """Tip."""
    done.append("tipped")
    return "tipped"


@tool
async def book(ctx: ToolContext) -> str:
    """Book a hotel."""
    if ctx.left is None:
        ctx.leave("asking")
    hotel = await ctx.ask("Which hotel?", str)
    done.append(f"booked {hotel}")
    return "booked"


def _paying() -> AbstractAgent:
    return ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay])


def _booking() -> AbstractAgent:
    return ScriptedAgent(turn(tool_call("book", {})), turn(text("Done.")), tools=[book])


def _asking() -> AbstractAgent:
    return ScriptedAgent(turn(outcome=interrupt("How many?")), turn(text("Done.")))


ASKING: list[tuple[Callable[[], AbstractAgent], Any, list[str]]] = [
    (_paying, Approve(), ["paid 3"]),
    (_booking, Resolve("Ritz"), ["booked Ritz"]),
    (_asking, Resolve(2), []),
]


def _caller(agent: AbstractAgent, secret: str | bytes | None = SECRET, thread_id: str = "t") -> HttpAgent:
    app = agent_app(agent, secret=secret, trust_caller=secret is None)
    return HttpAgent("http://app/", app=app, thread_id=thread_id)


async def _asked(caller: HttpAgent) -> str:
    with anyio.fail_after(_SECONDS):
        [question] = (await caller.run_agent("Go.")).interrupts
    return question.id


async def _answer(caller: HttpAgent, asked_of: HttpAgent, answer: Any, question_id: str) -> str:
    """Have a caller answer a question under an id, about the conversation of the caller that was asked."""
    document = json.loads(asked_of.snapshot().model_dump_json())
    document["thread_id"] = caller.thread_id
    for each in document["pending_interrupts"]:
        each["id"] = question_id
    caller.restore(ConversationSnapshot.model_validate(document))
    with anyio.fail_after(_SECONDS):
        return (await caller.run_agent(resume={question_id: answer})).text


@pytest.mark.parametrize(("make", "answer", "outcome"), ASKING)
async def test_a_question_that_was_asked_is_answered_in_any_process_with_the_secret(
    make: Callable[[], AbstractAgent], answer: Any, outcome: list[str]
) -> None:
    agent = make()
    caller = _caller(agent)
    question_id = await _asked(caller)
    # An app with the same secret stands for another process.
    assert await _answer(_caller(agent), caller, answer, question_id) == "Done."
    assert done == outcome


@pytest.mark.parametrize(("make", "answer", "outcome"), ASKING)
async def test_a_question_that_was_not_asked_is_not_answered(
    make: Callable[[], AbstractAgent], answer: Any, outcome: list[str]
) -> None:
    unsigned = _caller(make(), secret=None)
    forged = await _asked(unsigned)
    for question_id in (forged, f"{forged}.", f"{forged}.{'0' * 64}", f"{forged}.ü"):
        with pytest.raises(HTTPStatusError) as caught:
            await _answer(_caller(make()), unsigned, answer, question_id)
        assert caught.value.status_code == 422
    assert done == []


@pytest.mark.parametrize(("secret", "thread_id"), [("another secret of it", "t"), (SECRET, "another thread")])
async def test_an_answer_counts_neither_in_another_thread_nor_under_another_secret(secret: str, thread_id: str) -> None:
    agent = _paying()
    caller = _caller(agent)
    question_id = await _asked(caller)
    with pytest.raises(HTTPStatusError, match="422"):
        await _answer(_caller(agent, secret, thread_id), caller, Approve(), question_id)
    assert done == []


async def test_what_the_agent_of_one_path_asked_approves_no_call_of_another_ones() -> None:
    agents = {"/sandbox": _paying(), "/production": _paying()}
    app = agent_app(lambda request, input: agents[request.path.rstrip("/")], secret=SECRET)
    asked, other, same = (
        HttpAgent(f"http://app/{each}", app=app, thread_id="t") for each in ("sandbox", "production", "sandbox/")
    )
    question_id = await _asked(asked)
    with pytest.raises(HTTPStatusError, match="422"):
        await _answer(other, asked, Approve(), question_id)
    assert done == []
    assert await _answer(same, asked, Approve(), question_id) == "Done."


async def test_the_id_of_a_question_shows_nothing_that_is_encrypted() -> None:
    asked = ScriptedAgent(turn(reasoning("Hm.", encrypted_value="opaque-secret"), outcome=interrupt("How many?")))
    agent = ScriptedAgent(turn(tool_call("ask", {"prompt": "Buy."})), tools=[asked.as_tool("ask", "Asks.")])
    question_id = await _asked(_caller(agent))
    left = urlsafe_b64decode(question_id.partition(":")[2].partition(".")[0]).decode()
    assert "Hm." in left
    assert "opaque-secret" not in left


async def test_an_answer_to_the_question_of_one_tool_does_not_call_another() -> None:
    caller = _caller(ScriptedAgent(turn(tool_call("book", {})), turn(text("Done.")), tools=[book, tip]))
    question_id = await _asked(caller)
    renamed = caller.snapshot().model_dump_json().replace('"name":"book"', '"name":"tip"')
    caller.restore(ConversationSnapshot.model_validate_json(renamed))
    with anyio.fail_after(_SECONDS), pytest.raises(HTTPStatusError) as refused:
        await caller.run_agent(resume={question_id: Resolve("Ritz")})
    assert (refused.value.status_code, done) == (422, [])


@pytest.mark.parametrize("more", [{"more": 1}, {"answers": [{"more": 1}]}], ids=["the question", "an answer"])
async def test_an_id_with_a_member_that_no_question_has_is_refused(more: dict[str, Any]) -> None:
    caller = _caller(_booking(), secret=None)
    question = json.loads(urlsafe_b64decode((await _asked(caller)).removeprefix("question:")))
    forged = urlsafe_b64encode(json.dumps(question | more).encode()).decode()
    with pytest.raises(HTTPStatusError) as caught:
        await _answer(_caller(_booking(), secret=None), caller, Resolve("Ritz"), f"question:{forged}")
    assert caught.value.status_code == 422
    assert done == []


async def test_an_approval_passes_through_servers_with_secrets_of_their_own() -> None:
    caller = _caller(_caller(_paying()), b"a secret of the server between")
    question_id = await _asked(caller)
    with anyio.fail_after(_SECONDS):
        assert (await caller.run_agent(resume={question_id: Approve()})).text == "Done."
    assert done == ["paid 3"]


def test_a_sync_framework_signs_as_well() -> None:
    agent = _paying()

    async def answer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        for event in events_of(b"".join(served_run_sync(agent, input, secret=SECRET).sse())):
            yield Decoder(WarningLog()).feed(event.decode().removeprefix("data: ").strip())

    caller = FunctionAgent(answer)
    [question] = caller.run_agent_sync("Go.").interrupts
    assert question.id.rpartition(".")[0].startswith("approval:")
    assert caller.run_agent_sync(resume={question.id: Approve()}).text == "Done."
    assert done == ["paid 3"]


@pytest.mark.parametrize("secret", ["", "too short", b"too short", 16])
def test_a_secret_that_can_be_guessed_is_refused(secret: Any) -> None:
    with pytest.raises(UsageError, match="the secret must be text or bytes, at least 16 bytes long"):
        agent_app(_paying(), secret=secret)
    agent_app(_paying(), secret="ß" * 8)


async def test_a_secret_is_changed_while_questions_wait_by_giving_both() -> None:
    agent, new = _paying(), "the secret that is new"
    caller = _caller(agent)
    question_id = await _asked(caller)
    both: Any = [new, SECRET]
    assert await _answer(_caller(agent, both), caller, Approve(), question_id) == "Done."
    agent = _paying()
    asked_by_both = _caller(agent, both)
    question_id = await _asked(asked_by_both)
    assert await _answer(_caller(agent, new), asked_by_both, Approve(), question_id) == "Done."
    agent = _paying()
    asked_by_both = _caller(agent, both)
    with pytest.raises(HTTPStatusError, match="422"):
        await _answer(_caller(agent), asked_by_both, Approve(), await _asked(asked_by_both))
    assert done == ["paid 3", "paid 3"]


@pytest.mark.parametrize("make", [_paying, _booking])
async def test_a_tool_that_is_gone_when_its_question_is_answered_is_a_result_that_says_so(
    make: Callable[[], AbstractAgent],
) -> None:
    agent = make()
    caller = HttpAgent("http://app/", app=agent_app(agent, secret=SECRET))
    with anyio.fail_after(_SECONDS):
        [question] = (await caller.run_agent("Go.")).interrupts
        agent.tools = []
        answer = Approve() if make is _paying else Resolve("Grand")
        result = await caller.run_agent(resume={question.id: answer})
    [gone] = [str(each.content) for each in caller.messages if each.role == "tool"]
    assert gone.endswith("here any more: the call was not carried out.")
    assert (result.text, result.interrupts, done) == ("Done.", [], [])


@pytest.mark.parametrize("trust_caller", [True, False])
@pytest.mark.parametrize("interrupt_id", ["hotel", "hotel~1f3a9c2e77b0", "hotel~", "approval:hotel~1f3a9c2e77b0"])
async def test_an_agent_gets_the_answer_under_the_id_that_it_gave_whatever_that_looks_like(
    interrupt_id: str, trust_caller: bool
) -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Which hotel?", interrupt_id=interrupt_id)), turn(text("Booked.")))
    page = HttpAgent("http://agent/", app=agent_app(agent, trust_caller=trust_caller))
    with anyio.fail_after(_SECONDS):
        (question,) = (await page.run_agent("Book")).interrupts
        assert (await page.run_agent(resume={question.id: Resolve("Ritz")})).text == "Booked."
    assert [each.interrupt_id for each in agent.inputs[-1].resume or ()] == [interrupt_id]
