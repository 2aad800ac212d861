"""The chat page of an app: who gets it, what it may load, and what people see and press there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    ToolCallChunkEvent,
)

from agui_client import FunctionAgent, UsageError, tool
from agui_client.a2ui import action_in, change_surface, show_surface
from agui_client.asgi import ASGITransport, agent_app
from agui_client.store import Store
from agui_client.testing import serve

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

    from agui_client.asgi import AgentApp
    from support.browser import Chromium

_MOST_BYTES = 400_000
_SECONDS = 20.0
_PIECES = 50
"""The pieces of a slow answer, one in a tenth of a second."""


@tool(approval="always", ask="Buy tickets?")
def buy_tickets(seats: int, to: Literal["Oslo", "Bergen"] = "Oslo", note: str = "") -> str:
    """Buy tickets for the ferry."""
    return f"{seats} seats to {to} bought, note {note!r}"


def nobody(caller: object) -> str:
    """The owner of what all callers have."""
    return ""


def planner_app(**options: Any) -> AgentApp:
    """An app whose agent numbers its answers, fails once, takes its time, or buys tickets, as its user says."""
    answers, failures = count(1), count(1)

    async def planner(input: RunAgentInput) -> AsyncIterator[Event]:
        """Answer one run."""
        last, name = input.messages[-1], f"{input.run_id}-{len(input.messages)}"
        asked = str(last.content) if last.role == "user" else ""
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        if "fail" in asked and next(failures) == 1:
            yield TextMessageChunkEvent(message_id=name, delta="Half of ")
            yield RunErrorEvent(message="the model is away")
            return
        if "ticket" in asked:
            yield StateSnapshotEvent(snapshot={"trip": {"city": "Oslo"}})
            yield ToolCallChunkEvent(tool_call_id=name, tool_call_name="buy_tickets", delta='{"seats": 2}')
        else:
            number = next(answers)
            for _ in range(_PIECES if "slow" in asked else 0):
                yield TextMessageChunkEvent(message_id=name, delta=".")
                await anyio.sleep(0.1)
            yield TextMessageChunkEvent(message_id=name, delta=f"Answer {number} to: {last.content}")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    given: dict[str, Any] = {"store": Store(), "owner_of": nobody, "on_divergence": "rewind", "page": True}
    return agent_app(FunctionAgent(planner, tools=[buy_tickets]), **given | options)


async def got(app: AgentApp, method: str = "GET", path: str = "/", **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app") as client:
        return await client.request(method, path, **options)


@pytest.mark.anyio
async def test_whom_authorize_refuses_gets_no_page() -> None:
    def authorize(method: str, path: str, headers: Mapping[str, str]) -> str | None:
        return "ann" if headers.get("cookie") == "user=ann" else None

    app = planner_app(authorize=authorize, owner_of=None)
    refused, page = await got(app), await got(app, headers={"cookie": "user=ann"})
    assert (refused.status_code, page.status_code, page.headers["content-type"]) == (
        401,
        200,
        "text/html; charset=utf-8",
    )
    assert "<html" not in refused.text


@pytest.mark.anyio
async def test_an_app_without_a_page_answers_a_get_as_before() -> None:
    answer = await got(planner_app(page=False))
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert (await got(planner_app(page=False), "POST", "/form", json={})).status_code == 422


def test_a_page_without_a_store_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"page=True needs store="):
        planner_app(store=None)


@pytest.mark.anyio
async def test_the_page_is_small_loads_nothing_and_runs_its_own_scripts_alone() -> None:
    page = await got(planner_app(name="</script><b>planner"))
    policy = dict(each.split(" ", 1) for each in page.headers["content-security-policy"].split("; "))
    assert len(page.content) <= _MOST_BYTES
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert all(re.fullmatch(r"'sha256-\S+'", each) for each in policy["script-src"].split())
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", page.text) == []
    assert "<b>planner" not in page.text


BOOLEAN: dict[str, Any] = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
EDITABLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        **BOOLEAN["properties"],
        "editedArgs": {"type": "object", "properties": {"seats": {"type": "integer"}, "note": {"type": "string"}}},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pressed", "values", "payload"),
    [
        ("Approve", {"/seats": "2", "/note": ""}, {"approved": True}),
        (
            "Approve",
            {"/seats": "3", "/note": ""},
            {"approved": True, "editedArgs": {"seats": 3, "note": "", "extra": [1]}},
        ),
        ("Deny", {"/seats": "x", "reason": "too dear"}, {"approved": False, "reason": "too dear"}),
    ],
)
async def test_an_approval_sends_what_was_changed_and_no_other_arguments(
    pressed: str, values: dict[str, str], payload: dict[str, Any]
) -> None:
    interrupt = {"id": "i", "reason": "tool_call", "toolCallId": "c", "responseSchema": EDITABLE}
    asked = {"interrupt": interrupt, "arguments": '{"seats": 2, "note": "", "extra": [1]}'}
    shown = (await got(planner_app(), "POST", "/form", json=asked)).json()
    assert [(each["name"], each["value"]) for each in shown["fields"]] == [
        ("/seats", "2"),
        ("/note", ""),
        ("reason", ""),
    ]
    answer = (await got(planner_app(), "POST", "/form", json={**asked, "pressed": pressed, "values": values})).json()
    assert answer == {"entry": {"interruptId": "i", "status": "resolved", "payload": payload}}


@pytest.mark.anyio
async def test_an_answer_that_does_not_fit_is_refused_at_its_field() -> None:
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}, "required": ["day"]}
    asked = {"interrupt": {"id": "i", "reason": "input", "responseSchema": schema}, "pressed": "Answer"}
    wrong = (await got(planner_app(), "POST", "/form", json={**asked, "values": {"/day": "soon"}})).json()
    right = (await got(planner_app(), "POST", "/form", json={**asked, "values": {"/day": "2026-11-28"}})).json()
    assert wrong["problems"].keys() == {"/day"}
    assert right["entry"]["payload"] == {"day": "2026-11-28"}


SEATS: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "pin", "seats", "book", "said"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "pin", "component": "TextField", "label": "Pin", "variant": "obscured", "value": {"path": "/pin"}},
    {"id": "seats", "component": "Slider", "label": "Seats", "max": 5, "weight": 2, "value": {"path": "/seats"}},
    {
        "id": "book",
        "component": "Button",
        "child": "words",
        "action": {"event": {"name": "book", "context": {each: {"path": f"/{each}"} for each in ("name", "pin")}}},
        "checks": [{"call": "required", "args": {"value": {"path": "/name"}}, "message": "Who is going?"}],
    },
    {"id": "words", "component": "Text", "text": "Book"},
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]


async def harbour(input: RunAgentInput) -> AsyncIterator[Event]:
    """Sends a form, and says on it what was entered."""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    if action := action_in(input):
        yield change_surface("ferry", path="/said", data=f"Booked for {action.context['name']}.")
        yield change_surface("ferry", path="/name", data="")
    else:
        yield show_surface("ferry", SEATS, {"name": "", "seats": 1})
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.anyio
async def test_a_surface_is_drawn_filled_in_and_pressed_by_requests_that_leave_nothing_in_the_app() -> None:
    app = planner_app()
    message: dict[str, Any] = {"id": "m", "role": "activity", "activityType": "a2ui-surface"}
    message["content"] = show_surface("ferry", SEATS, {"name": "", "seats": 1}).content
    asked: dict[str, Any] = {"messages": [message], "isLive": True, "typed": []}

    async def done(**act: Any) -> dict[str, Any]:
        answer: dict[str, Any] = (
            await got(app, "POST", "/surfaces", json={**asked, "surfaceId": "ferry", "at": "/", **act})
        ).json()
        asked["typed"] = answer["typed"]
        (answer["surface"],) = answer["surfaces"]
        return answer

    unused = await done(press="book")
    assert (unused["action"], "Who is going?" in unused["surface"]["html"]) == (None, True)
    assert "takes a number from 0 to 5, not 9" in (await done(set="seats", value=9))["surface"]["html"]
    await done(set="pin", value="4711")
    filled = (await done(set="name", value="Ann"))["surface"]
    assert ('value="Ann"' in filled["html"], "style=" in filled["html"], filled["messages"]) == (True, False, ["m"])
    action = (await done(press="book"))["action"]
    assert (action["name"], action["context"]) == ("book", {"name": "Ann", "pin": "4711"})
    assert (await got(app, "POST", "/surfaces", json={**asked, "typed": []})).json()["surfaces"][0]["html"] != filled


@pytest.mark.anyio
async def test_what_belongs_to_no_surface_is_said() -> None:
    old = {"a2ui_operations": [{"beginRendering": {"surfaceId": "s"}}]}
    building = {"status": "failed", "error": "no model"}
    messages = [
        {"id": str(at), "role": "activity", "activityType": "a2ui-surface", "content": each}
        for at, each in enumerate((old, building))
    ]
    shown = (await got(planner_app(), "POST", "/surfaces", json={"messages": messages})).json()
    assert [shown["surfaces"], len(shown["loose"])] == [[], 2]
    assert shown["loose"][0] == "surface failed · no model"
    assert "is of A2UI v0.8" in shown["loose"][1]


# --- in a browser


@contextmanager
def visited(browser: Chromium, look: Callable[[Chat], object], **options: Any) -> Generator[list[str]]:
    """Look at the page of an app; yield what the browser complained about."""
    with serve(planner_app(**options)) as server:
        _, complaints = browser.visit(server.url, lambda page: look(Chat(page)))
        yield complaints


class Chat:
    """The chat page, as a person uses it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(_SECONDS * 1000)

    def ask(self, text: str) -> None:
        """Write a message, and send it."""
        self.page.wait_for_selector("#send:enabled")
        self.page.locator("#prompt").fill(text)
        self.page.keyboard.press("Enter")

    def write_before_it_is_there(self, text: str, edit: str) -> None:
        """Load the page anew, and send a message and write on before the server sends the thread."""
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        self.page.route("**/connect", hold)
        with self.page.expect_request("**/connect"):
            self.page.reload()
        self.page.locator("#prompt").fill(text)
        self.page.keyboard.press("Enter")
        self.page.keyboard.type(edit)
        held.pop().continue_()
        self.page.unroute("**/connect")

    def press(self, name: str) -> None:
        """Press the last button of a name."""
        self.page.get_by_role("button", name=name, exact=True).last.click()

    def field(self, label: str) -> Locator:
        """The field of a question with a label."""
        return self.page.locator(".agui-field", has_text=label).locator("input, select").first

    def await_text(self, text: str) -> None:
        """Wait for a text."""
        self.page.get_by_text(text).last.wait_for()

    def await_idle(self) -> None:
        """Wait until the run has ended."""
        self.page.wait_for_selector("#send:enabled")

    @property
    def texts(self) -> list[str]:
        """What the messages say."""
        return self.page.locator(".agui-bubble").all_inner_texts()


def test_a_chat_survives_a_reload_in_a_run_and_shows_it_while_it_goes_on(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        chat.ask("slow")
        chat.await_text("..")
        chat.page.reload()
        chat.await_text("...")
        assert chat.page.locator("#stop").is_visible()
        chat.await_text("Answer 2 to: slow")
        chat.await_idle()
        assert chat.texts == ["one", "Answer 1 to: one", "slow", f"{'.' * _PIECES}Answer 2 to: slow"]

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_message_sent_before_the_chat_is_there_is_sent_as_soon_as_it_is(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        chat.write_before_it_is_there("two", "")
        chat.await_text("Answer 2 to: two")
        chat.write_before_it_is_there("three", "and a half")
        chat.await_text("Answer 2 to: two")
        chat.await_idle()
        assert chat.page.locator("#prompt").input_value() == "threeand a half"
        assert chat.texts == ["one", "Answer 1 to: one", "two", "Answer 2 to: two"]

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_message_sent_before_a_question_is_there_waits_in_the_composer(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("a ticket")
        approve = chat.page.get_by_role("button", name="Approve")
        approve.wait_for()
        chat.write_before_it_is_there("two", "")
        approve.wait_for()
        assert chat.page.locator("#prompt").input_value() == "two"
        assert chat.texts == ["a ticket"]

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_call_is_approved_with_other_arguments_after_a_reload(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("two tickets")
        approve, ground = (
            chat.page.get_by_role("button", name="Approve"),
            "each => getComputedStyle(each).backgroundColor",
        )
        before = approve.evaluate(ground)
        approve.hover()
        assert approve.evaluate(ground) == before, "its label could not be read on another ground"
        chat.page.set_viewport_size({"width": 600, "height": 500})
        edges = (
            "[document.querySelector('#top').getBoundingClientRect().bottom, document.querySelector('main').offsetTop]"
        )
        below, top = chat.page.evaluate(edges)
        assert top >= int(below), "a question does not push messages over the buttons of the page"
        chat.field("seats").fill("3")
        chat.page.reload()
        chat.field("seats").fill("")
        chat.press("Approve")
        chat.await_text("this cannot be left out")
        chat.field("seats").fill("4")
        chat.field("to").select_option("Bergen")
        chat.press("Approve")
        chat.await_text("4 seats to Bergen bought, note ''")
        chat.press("State")
        chat.page.locator("#state", has_text="trip").wait_for()

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_run_that_failed_says_why_and_is_tried_again(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("fail once")
        chat.await_text("The run failed: the model is away.")
        chat.press("Try again")
        chat.await_text("Answer 1 to: fail once")
        chat.await_idle()
        assert chat.texts == ["fail once", "Answer 1 to: fail once"]
        assert chat.page.locator("#problem").inner_text() == ""

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_question_is_edited_and_an_answer_made_again(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        chat.press("Answer again")
        chat.await_text("Answer 2 to: one")
        chat.press("Edit")
        chat.page.get_by_label("Edit the message").fill("two")
        chat.press("Send edited")
        chat.await_text("Answer 3 to: two")
        chat.await_idle()
        assert chat.texts == ["two", "Answer 3 to: two"]

    with visited(browser, look) as complaints:
        assert complaints == []


def test_versions_of_a_chat_are_looked_at_and_gone_on_with(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        chat.ask("two")
        chat.await_text("Answer 2 to: two")
        chat.await_idle()
        chat.press("Edit")
        chat.page.get_by_label("Edit the message").fill("three")
        chat.press("Send edited")
        chat.await_text("Answer 3 to: three")
        chat.press("Earlier version")
        chat.await_text("Answer 2 to: two")
        assert chat.page.get_by_role("button", name="Earlier version").last.is_disabled()
        chat.press("Show the latest")
        chat.await_text("Answer 3 to: three")
        chat.press("Earlier version")
        chat.await_text("Answer 2 to: two")
        chat.ask("four")
        chat.await_text("Answer 4 to: four")
        chat.await_idle()
        assert chat.texts == ["one", "Answer 1 to: one", "two", "Answer 2 to: two", "four", "Answer 4 to: four"]
        chat.page.reload()
        chat.await_text("2 of 2")
        chat.press("Earlier version")
        chat.await_text("Answer 3 to: three")

    with visited(browser, look) as complaints:
        assert complaints == []


def test_what_two_tabs_wrote_is_lost_in_neither(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        chat.await_idle()
        assert chat.page.context.browser is not None
        other = Chat(chat.page.context.browser.new_page())
        other.page.goto(chat.page.url)
        other.await_text("Answer 1 to: one")
        chat.ask("from A")
        chat.await_text("Answer 2 to: from A")
        other.ask("from B")
        other.await_text("Answer 3 to: from B")
        other.await_text("Another page had written messages")
        other.page.close()
        chat.ask("A again")
        chat.await_text("Answer 4 to: A again")
        chat.await_text("Another page had written messages")
        answers = ["Answer 1 to: one", "Answer 2 to: from A", "Answer 4 to: A again"]
        assert chat.texts == ["one", answers[0], "from A", answers[1], "A again", answers[2]]

    with visited(browser, look) as complaints:
        assert complaints == []


def test_a_message_that_another_page_was_faster_than_is_kept_and_sent_again(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("one")
        chat.await_text("Answer 1 to: one")
        assert chat.page.context.browser is not None
        other = Chat(chat.page.context.browser.new_page())
        other.page.goto(chat.page.url)
        other.await_text("Answer 1 to: one")
        other.ask("slow")
        other.await_text("..")
        chat.ask("two")
        chat.await_text("Another reply is being written in this chat")
        assert chat.page.locator("#prompt").input_value() == "two"
        chat.press("Try again")
        chat.await_text("Answer 3 to: two")
        assert "Answer 2 to: slow" in " ".join(chat.texts)
        other.page.close()

    with visited(browser, look) as complaints:
        assert all("409" in each for each in complaints)


def test_what_became_of_a_question_that_was_answered_elsewhere_is_shown(browser: Chromium) -> None:
    def look(chat: Chat) -> None:
        chat.ask("two tickets")
        chat.page.get_by_role("button", name="Deny", exact=True).wait_for()
        assert chat.page.context.browser is not None
        other = Chat(chat.page.context.browser.new_page())
        other.page.goto(chat.page.url)
        other.press("Approve")
        other.await_text("2 seats to Oslo bought")
        chat.press("Deny")
        chat.await_text("This answer did nothing.")
        chat.await_text("2 seats to Oslo bought")
        other.page.close()

    with visited(browser, look) as complaints:
        assert all("409" in each for each in complaints)


def test_a_form_of_the_agent_is_filled_in_and_pressed_on_the_page(browser: Chromium) -> None:
    from playwright.sync_api import expect

    def look(page: Page) -> None:
        chat = Chat(page)
        chat.ask("A ferry, please")
        chat.await_text("Seats")
        chat.await_idle()
        page.locator("[data-press=book]").click()
        chat.await_text("Who is going?")
        for field, text in (("pin", "4711"), ("name", "Bob")):
            page.locator(f"[data-set={field}]").fill(text)
            with page.expect_response(lambda got: got.url.endswith("/surfaces")):
                page.keyboard.press("Tab")
        page.reload()
        page.wait_for_selector("[data-set=name]")
        assert [page.locator(f"[data-set={each}]").input_value() for each in ("name", "pin")] == ["Bob", ""]
        assert "4711" not in page.evaluate("JSON.stringify(sessionStorage)")
        for name in ("Ann", "Ann"):  # the agent empties the field, and the same is entered again
            page.locator("[data-set=name]").fill(name)
            page.locator("[data-press=book]").click()
            chat.await_text("Booked for Ann.")
            chat.await_idle()
            expect(page.locator("[data-set=name]")).to_have_value("", timeout=_SECONDS * 1000)
        page.reload()
        chat.await_text("Booked for Ann.")
        assert page.locator(".agui-surface").count() == 1
        assert page.locator("[data-weight]").evaluate("each => each.style.flexGrow") == "2"

    given: dict[str, Any] = {"store": Store(), "owner_of": nobody, "on_divergence": "rewind", "page": True}
    with serve(agent_app(FunctionAgent(harbour), **given)) as server:
        _, complaints = browser.visit(server.url, look)
    assert complaints == []


def test_what_an_agent_writes_runs_nothing_and_loads_nothing(browser: Chromium) -> None:
    hostile = '<img src=x onerror="document.title=1"> ![p](http://127.0.0.1:9/p.png) [l](javascript:document.title=2)'

    def look(chat: Chat) -> None:
        chat.ask(hostile)
        chat.await_text("Answer 1 to")
        chat.await_idle()
        assert chat.page.title() == "agent"
        assert chat.page.locator("#log img, #log script, #log a[href^=javascript]").count() == 0
        assert chat.page.locator("#log a").all_inner_texts() == ["p"]

    with visited(browser, look) as complaints:
        assert complaints == []
