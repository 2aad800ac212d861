"""Questions of runs that are kept: each is answered once, and the runs tell what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    ToolCallChunkEvent,
    ToolCallResultEvent,
)

from agui_client import (
    Approve,
    ConnectError,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    Resolve,
    RunFailedError,
    UsageError,
    tool,
)
from agui_client.asgi import ASGITransport, agent_app
from agui_client.store import Store
from support.stores import FOR_ALL

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0

paid: list[int] = []


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return "paid"


async def clerk(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    """Pay what the last user asks for; "break" fails behind the payment, and "book" has a question of its own."""
    ids: Any = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    prompts = [str(each.content) for each in run_input.messages if each.role == "user"]
    last, is_again = run_input.messages[-1], any(isinstance(each, AssistantMessage) for each in run_input.messages)
    yield RunStartedEvent(**ids)
    if run_input.thread_id == "silent":
        await anyio.sleep_forever()
    if last.role == "user" and prompts[-1] in ("pay", "break"):
        yield ToolCallChunkEvent(tool_call_id="call", tool_call_name="pay", delta='{"amount":3}')
    elif prompts[-1] == "book" and not run_input.resume:
        yield TextMessageChunkEvent(message_id="asking", role="assistant", delta="Hm.")
        asked = Interrupt(id="hotel", reason="input", message="Which hotel?")
        yield RunFinishedEvent(**ids, outcome=RunFinishedInterruptOutcome(interrupts=[asked]))
        return
    elif prompts[-1] in broken:
        broken.remove(prompts[-1])
        yield RunErrorEvent(message="broken")
        return
    else:
        assert is_again or prompts[-1] not in ("pay", "book")
        yield TextMessageChunkEvent(message_id=f"m-{run_input.run_id}", role="assistant", delta="Done.")
    yield RunFinishedEvent(**ids)


async def books_twice(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    """Ask for two hotels, one after the other and by one id."""
    ids: Any = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    yield RunStartedEvent(**ids)
    if run_input.resume and "book" in broken:
        broken.remove("book")
        yield RunErrorEvent(message="broken")
        return
    state: dict[str, list[str]] = run_input.state or {}
    booked = [*state.get("booked", []), *(str(each.payload) for each in run_input.resume or ())]
    yield StateSnapshotEvent(snapshot={"booked": booked})
    outcome = None
    if len(booked) < 2:
        outcome = RunFinishedInterruptOutcome(interrupts=[Interrupt(id="hotel", reason="input", message="Which?")])
    else:
        yield TextMessageChunkEvent(message_id="done", role="assistant", delta=f"{', '.join(booked)}.")
    yield RunFinishedEvent(**ids, outcome=outcome)


broken: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()
    broken.clear()


class Served:
    """A served agent and its kept runs."""

    def __init__(
        self,
        url: str | None,
        *,
        agent: FunctionAgent | None = None,
        threads: dict[str, Any] = FOR_ALL,
        **bounds: Any,
    ) -> None:
        self.store, self.agent = Store(url, **bounds), agent or FunctionAgent(clerk, tools=[pay])
        owners = {"owner_of": FOR_ALL["owner_of"], **threads}
        self.app = agent_app(self.agent, store=self.store, **owners, secret="a secret of these tests")

    def page(self, thread_id: str = "t") -> HttpAgent:
        return HttpAgent("http://app/", app=self.app, connect_url="http://app/connect", thread_id=thread_id)

    async def asking(self, prompt: str) -> tuple[HttpAgent, HttpAgent, str]:
        """Begin a run that asks; return two pages that show the question, and its id."""
        first, second = self.page(), self.page()
        result = await first.run_agent(prompt, run_id="asks")
        await second.connect_agent()
        [asked], [same] = result.interrupts, second.pending_interrupts
        assert asked.id == same.id
        return first, second, asked.id

    async def statuses(self) -> dict[str, str]:
        return {each.run_id: each.status.value for each in await self.store.runs.list()}


async def answered(page: HttpAgent, asked: str, answer: Any = None, run_id: str | None = None) -> str | int:
    """Answer a question on a page; return the text of the agent, or the status of the refusal."""
    options: Any = {} if run_id is None else {"run_id": run_id}
    try:
        with anyio.fail_after(_SECONDS):
            return (await page.run_agent(resume={asked: answer or Approve()}, **options)).text
    except HTTPStatusError as refused:
        return refused.status_code


async def test_a_question_that_was_answered_by_a_link_is_answered_on_no_page(runs_url: str | None) -> None:
    served = Served(runs_url)
    async with served.store as store:
        first, second, asked = await served.asking("pay")
        following = await store.runs.answer("asks", {asked: Approve()})
        assert [event.type.value async for _, event in store.runs.follow(following.run_id)][-1] == "RUN_FINISHED"
        assert [await answered(each, asked) for each in (first, second)] == [409, 409]
        with pytest.raises(HTTPStatusError, match="which was answered before; nothing was done"):
            await first.run_agent(resume={asked: Approve()})
        assert paid == [3]
        with pytest.raises(UsageError, match="waits for no answer: it was answered"):
            await store.runs.answer("asks", {asked: Approve()})
        # A new question, about another call of the same id, is one.
        assert (await second.connect_agent()).interrupts == []
        [again] = (await second.run_agent("pay")).interrupts
        assert (await answered(second, again.id), paid) == ("Done.", [3, 3])


async def test_of_answers_that_come_at_the_same_moment_one_is_carried_out(runs_url: str | None) -> None:
    served = Served(runs_url)
    async with served.store as store:
        first, second, asked = await served.asking("pay")
        answers = [answered(first, asked, run_id="one"), answered(second, asked, run_id="other")]
        assert sorted(map(str, await asyncio.gather(*answers))) == ["409", "Done."]
        late = served.page()
        await late.connect_agent()
        assert (len(await store.runs.list()), late.pending_interrupts, paid) == (2, [], [3])
        # The page that was refused still shows the question.
        still = first if first.pending_interrupts else second
        assert (await answered(still, asked), paid) == (409, [3])


async def test_an_answer_that_a_failed_run_has_not_used_may_be_given_again(runs_url: str | None) -> None:
    served = Served(runs_url)
    async with served.store:
        first, second, asked = await served.asking("book")
        broken.add("book")
        with pytest.raises(RunFailedError):
            await answered(first, asked, Resolve("Grand"))
        assert await answered(second, asked, Resolve("Grand")) == "Done."
        assert await answered(first, asked, Resolve("Grand")) == 409


@pytest.mark.parametrize("threads", [pytest.param({}, id="stored"), pytest.param(FOR_ALL, id="transcripts")])
async def test_a_question_that_is_asked_again_by_its_id_is_another_one(
    runs_url: str | None, threads: dict[str, Any]
) -> None:
    served = Served(runs_url, agent=FunctionAgent(books_twice), threads=threads)
    async with served.store:
        first, second, asked = await served.asking("book")
        [again] = (await first.run_agent(resume={asked: Resolve("Grand")})).interrupts
        assert again.id != asked
        # A page that shows the first question answers nothing of the second one.
        assert await answered(second, asked, Resolve("Grand")) == 409
        broken.add("book")
        third = served.page()
        await third.connect_agent()
        with pytest.raises(RunFailedError):
            await answered(third, again.id, Resolve("Ritz"))
        # The second answer was not used, though one to a question of the same id was.
        assert await answered(first, again.id, Resolve("Ritz")) == "Grand, Ritz."


@pytest.mark.parametrize("threads", [pytest.param({}, id="stored"), pytest.param(FOR_ALL, id="transcripts")])
async def test_a_question_whose_answer_failed_waits_again_for_pages_links_and_lists(
    runs_url: str | None, threads: dict[str, Any]
) -> None:
    served = Served(runs_url, threads=threads)
    async with served.store as store:
        first, _, asked = await served.asking("book")
        for number in range(2):
            broken.add("book")
            with pytest.raises(RunFailedError):
                await first.run_agent(resume={asked: Resolve("Grand")}, run_id=f"fails-{number}")
            assert [each.id for each in first.pending_interrupts] == [asked]
            late = served.page()
            await late.connect_agent()
            assert [each.id for each in late.pending_interrupts] == [asked]
            waiting = [each for each in await store.runs.list() if each.status.value == "waiting"]
            assert [(each.run_id, [asks.id for asks in each.interrupts]) for each in waiting] == [("asks", [asked])]
            first = late
        following = await store.runs.answer("asks", {asked: Resolve("Grand")})
        assert [event.type.value async for _, event in store.runs.follow(following.run_id)][-1] == "RUN_FINISHED"
        assert await served.statuses() == {
            "asks": "finished",
            "fails-0": "failed",
            "fails-1": "failed",
            following.run_id: "finished",
        }
        assert await answered(first, asked, Resolve("Grand")) == 409
        with pytest.raises(UsageError, match="it was answered"):
            await store.runs.answer("asks", {asked: Resolve("Grand")})


@pytest.mark.parametrize("threads", [pytest.param({}, id="stored"), pytest.param(FOR_ALL, id="transcripts")])
async def test_a_tool_that_is_gone_when_its_question_is_answered_is_a_result_that_says_so(
    runs_url: str | None, threads: dict[str, Any]
) -> None:
    served = Served(runs_url, threads=threads)
    async with served.store as store:
        first, second, asked = await served.asking("pay")
        # A new version of the program has no such tool.
        served.agent.tools = []
        following = await store.runs.answer("asks", {asked: Approve()})
        events = [event async for _, event in store.runs.follow(following.run_id)]
        gone = "There is no tool 'pay' here any more: the call was not carried out."
        results = [each.content for each in events if isinstance(each, ToolCallResultEvent)]
        assert (results, events[-1].type.value, paid) == ([gone], "RUN_FINISHED", [])
        assert [await answered(each, asked) for each in (first, second)] == [409, 409]


async def test_an_answer_that_was_withdrawn_before_its_run_had_begun_may_be_given_again_once(
    runs_url: str | None,
) -> None:
    served = Served(runs_url, at_once=1)
    async with served.store as store:
        first, second, asked = await served.asking("pay")
        async with served.page("silent").stream("wait") as going_on:
            await anext(aiter(going_on))
            withdrawn = asyncio.create_task(answered(first, asked, run_id="withdrawn"))
            while "withdrawn" not in await served.statuses():  # noqa: ASYNC110 - it is stored in a thread
                await anyio.sleep(0.01)
            await store.runs.stop("withdrawn")
            with pytest.raises(RunFailedError, match="stopped before it had begun"):
                await withdrawn
            assert (await served.statuses())["asks"] == "waiting"
            await store.runs.stop(going_on.run_id)
        assert [await answered(each, asked) for each in (second, first)] == ["Done.", 409]
        assert ((await served.statuses())["asks"], paid) == ("finished", [3])


@pytest.mark.parametrize("threads", [pytest.param({}, id="stored"), pytest.param(FOR_ALL, id="transcripts")])
async def test_a_payment_that_was_made_by_a_failed_run_is_not_made_again_and_its_page_goes_on(
    runs_url: str | None, threads: dict[str, Any]
) -> None:
    served = Served(runs_url, threads=threads)
    async with served.store:
        first, second, asked = await served.asking("break")
        broken.add("break")
        with pytest.raises(RunFailedError):
            await answered(first, asked)
        assert (await answered(second, asked), paid) == (409, [3])
        assert (first.pending_interrupts, (await first.run_agent()).text, paid) == ([], "Done.", [3])


async def test_a_question_that_a_new_prompt_has_passed_over_is_superseded(runs_url: str | None) -> None:
    served = Served(runs_url)
    async with served.store as store:
        first, second, asked = await served.asking("pay")
        stranger = served.page()
        assert (await stranger.run_agent("something else", run_id="else")).text == "Done."
        assert await served.statuses() == {"else": "finished", "asks": "superseded"}
        with pytest.raises(UsageError, match="waits for no answer: another run of its thread has begun instead"):
            await store.runs.answer("asks", {asked: Approve()})
        # Who still sees it may answer it, once.
        assert [await answered(each, asked) for each in (first, second)] == ["Done.", 409]
        assert paid == [3]


async def test_a_prompt_whose_answer_was_lost_is_asked_again_by_its_run_id_and_paid_once(runs_url: str | None) -> None:
    served = Served(runs_url)
    replies = [httpx.ReadError("reset")]

    class Losing(ASGITransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if replies:
                await response.aclose()
                raise replies.pop()
            return response

    async with served.store:
        agent = HttpAgent("http://app/", http_client=httpx.AsyncClient(transport=Losing(served.app)), thread_id="t")
        with pytest.raises(ConnectError) as lost:
            await agent.run_agent("Hi")
        assert (lost.value.may_have_started, agent.messages) == (True, [])
        assert lost.value.run_id is not None
        assert (await agent.run_agent("Hi", run_id=lost.value.run_id)).text == "Done."
        assert [each.run_id for each in await served.store.runs.list()] == [lost.value.run_id]


async def test_a_request_with_the_id_of_a_run_that_was_asked_for_something_else_is_refused(
    runs_url: str | None,
) -> None:
    served = Served(runs_url)
    async with served.store:
        assert (await served.page().run_agent("Hi", run_id="r")).text == "Done."
        assert (await served.page().run_agent("Hi", run_id="r")).text == "Done."
        with pytest.raises(HTTPStatusError, match="begun with other messages, tools or answers") as refused:
            await served.page().run_agent("Hello", run_id="r")
        assert refused.value.status_code == 409
