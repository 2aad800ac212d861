"""People at a notebook: widgets whose buttons decide, and `input()` where there are none."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from queue import Empty
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from ag_ui.core import Interrupt, Tool
from comm import DummyComm, get_comm_manager
from IPython.core.error import StdinNotImplementedError

from agui_client import ApprovalRequest, Approve, Cancel, CannotWaitError, Deny, Resolve, tool
from agui_client._rendering.forms import call_form
from agui_client.notebook import NotebookAnswerer, NotebookApprover
from agui_client.testing import ScriptedAgent, interrupt, tool_call, turn
from support.notebook_page import NotebookPage, leaves_of
from support.waiting import until

REQUEST = ApprovalRequest(
    tool_call_id="c1",
    tool=Tool(
        name="delete_file",
        description="Deletes a file.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    arguments={"path": "/a\u202e"},
    thread_id="t",
    run_id="r",
)
FERRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "line": {"enum": ["B1", "B2"]},
        "tickets": {"type": "integer", "minimum": 1},
        "return_trip": {"type": "boolean"},
        "seats": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["line", "tickets", "return_trip"],
}
ASKED = Interrupt(id="i", reason="input_required", message="Which\x1b?", response_schema=FERRY, metadata={"a": "<b>"})
DECISION = Interrupt(id="i", reason="confirmation", message="Really?")


class Page:
    """What is displayed, and how the person at the notebook uses it."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, str]] = []
        """What stands in the cell, by MIME type, the latest last."""
        self.questions: list[dict[str, Any]] = []
        """What each question showed when it was asked."""
        self.open_pages: list[NotebookPage] = []
        """The pages on which the notebook is open; the person is at the last one."""
        self.open()

    def open(self) -> None:
        """Open the notebook once more."""

        def send(comm_id: str, data: dict[str, Any]) -> None:
            """Send a message to a widget in this process."""
            comm: Any = get_comm_manager().get_comm(comm_id)
            comm.handle_msg({"content": {"data": data}, "buffers": []})

        self.open_pages.append(NotebookPage(send))

    def update(self, content: dict[str, str], *, raw: bool, display_id: str = "") -> Page:
        """Take the content of an output, as IPython's `display` and its handles do."""
        assert raw
        self.outputs.append(content)
        return self

    @property
    def left(self) -> str:
        """The text that stands in the cell."""
        return self.outputs[-1]["text/plain"]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of the latest question."""
        return leaves_of(self.questions[-1])

    async def asked(self) -> None:
        """Wait until a question is there; its form is made in a thread."""
        await until(lambda: bool(self.open_pages[-1].question))
        await anyio.wait_all_tasks_blocked()

    async def press(self, choice: str, *values: str) -> None:
        """Fill in the fields from the first on, and press a button."""
        await self.asked()
        page = self.open_pages[-1]
        self.questions.append(page.question)
        for field, value in zip(self.fields, values, strict=False):
            page.fill(field["label"], value)
        page.press(choice)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    displayed = Page()
    monkeypatch.setattr("IPython.display.display", displayed.update)

    def publish(comm: DummyComm, message_type: str, data: Any = None, *rest: Any, **keys: Any) -> None:
        """Bring a message of the kernel's to every page."""
        for each in displayed.open_pages:
            each.receive(message_type, {"comm_id": comm.comm_id, "data": data})

    monkeypatch.setattr(DummyComm, "publish_msg", publish)
    monkeypatch.setattr("agui_client.notebook._handlers._clock", lambda: "14:02")
    return displayed


@asynccontextmanager
async def asking(ask: Callable[[], Any]) -> AsyncGenerator[list[Any]]:
    """Ask a question beside the block; afterwards the list has the answer."""
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await ask())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            yield answers


async def decision(page: Page, *presses: Sequence[str]) -> Any:
    async with asking(lambda: NotebookApprover(widgets=True)(REQUEST)) as answers:
        for press in presses:
            await page.press(*press)
    return answers[0]


async def answer(page: Page, interrupt: Interrupt, *presses: Sequence[str]) -> Any:
    async with asking(lambda: NotebookAnswerer(widgets=True)(interrupt)) as answers:
        for press in presses:
            await page.press(*press)
    return answers[0]


@pytest.mark.anyio
@pytest.mark.requirement("SEC-3")
async def test_a_click_approves_or_denies(page: Page) -> None:
    assert await decision(page, ["Approve"]) == Approve()
    assert page.questions[-1]["question"] == "The agent wants to call delete_file. Deletes a file."
    assert page.fields[0]["value"] == '{\n  "path": "/a\\u202e"\n}'
    assert page.left.splitlines()[0] == "Approved by you 14:02 · delete_file"
    assert await decision(page, ["Always in this thread"]) == Approve(always=True)
    assert page.left.splitlines()[0] == "Always approved by you 14:02 · delete_file"
    assert await decision(page, ["Deny"]) == Deny()
    assert await decision(page, ["Deny", "{}", "not today"]) == Deny("not today")
    assert page.left.splitlines()[0] == "Denied by you 14:02 · delete_file: not today"


@pytest.mark.anyio
async def test_a_question_that_no_page_draws_says_what_may_be_missing(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agui_client.notebook._question_panel.SECONDS_TO_APPEAR", 0.01)
    written = ""

    def is_said() -> bool:
        nonlocal written
        written += capsys.readouterr().out
        return bool(written)

    async with asking(lambda: NotebookApprover(widgets=True)(REQUEST)):
        await page.asked()
        page.open_pages[-1].appear()
        # The second question is asked later, and so its time is over later, too.
        async with asking(lambda: NotebookApprover(widgets=True)(REQUEST)):
            await until(is_said)
            await page.press("Deny")
        await page.press("Approve")
    assert written.count("the package anywidget is missing where Jupyter runs") == 1
    assert "pip install anywidget" in written


@pytest.mark.anyio
@pytest.mark.requirement("SEC-2")
async def test_edited_arguments_are_approved_once_they_fit(page: Page) -> None:
    assert await decision(page, ["Approve", '{"path": 1}'], ["Approve", '{"path": "/b"}']) == Approve({"path": "/b"})
    assert page.questions[-1]["problems"] == {"arguments": "path: must be text"}
    line = 'Approved by you 14:02 · delete_file, path "/a\\u202e" → "/b"'
    assert page.left.splitlines()[0] == line
    assert page.outputs[-1].keys() == {"text/html", "text/markdown", "text/plain"}, (
        "a notebook without a kernel shows it"
    )


@pytest.mark.anyio
async def test_fields_begin_with_the_defaults_of_the_schema(page: Page) -> None:
    properties = {
        "name": {"type": "string", "default": "Ann"},
        "seats": {"type": "integer", "default": 2},
        "line": {"enum": ["B1", 2], "default": 2},
        "return_trip": {"type": "boolean", "default": False},
        "stops": {"type": "array", "default": ["Å", "\u202e"]},
        "note": {"type": "string", "default": "a\nb"},
        "unseen": {"type": "string", "default": "\u202e"},
        "other": {"enum": ["B1"], "default": "B2"},
        "left_out": {"type": ["string", "null"], "default": None},
    }
    asked = Interrupt(id="i", reason="input_required", response_schema={"type": "object", "properties": properties})
    assert await answer(page, asked, ["Answer"]) == Resolve(
        {"name": "Ann", "seats": 2, "line": 2, "return_trip": False, "stops": ["Å", "\u202e"], "note": "a\nb"}
    )
    assert page.fields[4]["value"] == '["Å", "\\u202e"]'
    assert await answer(page, asked, ["Answer", "", "3", "", "yes", "", "", "x"]) == Resolve(
        {"seats": 3, "return_trip": True, "unseen": "x"}
    )


@pytest.mark.anyio
async def test_the_denial_of_an_agents_question_has_a_reason_where_the_agent_takes_one(page: Page) -> None:
    allowed = {"approved": {"type": "boolean"}, "reason": {"type": "string"}, "editedArgs": {"type": "object"}}
    asked = ASKED.model_copy(update={"response_schema": {"type": "object", "properties": allowed}})
    assert await answer(page, asked, ["Deny", "too late"]) == Deny("too late")
    assert page.left.splitlines()[0] == "Denied by you 14:02 · too late"
    assert await answer(page, asked, ["Approve", ""]) == Approve()
    # The arguments of the call are not known here, and so cannot be edited.
    assert [each["name"] for each in page.fields] == ["reason"]


@pytest.mark.anyio
async def test_what_stands_on_the_page_whose_button_is_pressed_is_sent(page: Page) -> None:
    line = ASKED.model_copy(update={"response_schema": None})
    page.open()
    async with asking(lambda: NotebookAnswerer(widgets=True)(line)) as answers:
        await page.asked()
        page.open_pages[0].fill("answer", "Bergen")
        await page.press("Answer", "Oslo")
    assert answers == [Resolve("Oslo")]


@pytest.mark.anyio
@pytest.mark.requirement("SEC-3")
async def test_the_last_press_counts_where_the_kernel_was_busy_meanwhile(page: Page) -> None:
    page.open()
    at_work, at_home = page.open_pages
    async with asking(lambda: NotebookApprover(widgets=True)(REQUEST)) as decisions:
        await page.asked()
        at_home.press("Approve")
        at_home.press("Always in this thread")
        at_work.press("Deny")
    assert decisions == [Deny()]
    line = ASKED.model_copy(update={"response_schema": None})
    async with asking(lambda: NotebookAnswerer(widgets=True)(line)) as answers:
        await page.asked()
        for name in ("Bob", "Zoe"):
            at_home.fill("answer", name)
            at_home.press("Answer")
    assert answers == [Resolve("Zoe")]


@pytest.mark.anyio
async def test_a_question_that_nobody_waits_for_any_more_takes_nothing_more(page: Page) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(NotebookApprover(widgets=True), REQUEST)
        await page.asked()
        tasks.cancel_scope.cancel()
    assert page.open_pages[0].question == {}
    assert page.left.splitlines()[0] == "No longer asked"


@pytest.mark.anyio
async def test_a_schema_becomes_fields_and_is_asked_until_they_fit(page: Page) -> None:
    presses = [["Answer"], ["Answer", "B2", "0", "yes"], ["Answer", "B2", "2", "yes", "[1]"]]
    assert await answer(page, ASKED, *presses) == Resolve(
        {"line": "B2", "tickets": 2, "return_trip": True, "seats": [1]}
    )
    assert page.questions[-1]["problems"] == {"/tickets": "must be at least 1"}
    assert page.left.splitlines()[0] == "Answered by you 14:02 · line: B2 · tickets: 2 · return_trip: yes · seats: 1"


@pytest.mark.anyio
async def test_the_page_has_a_field_of_its_own_for_each_kind_of_value(page: Page) -> None:
    text = {"type": "string"}
    properties: dict[str, Any] = {
        "day": {**text, "format": "date"},
        "at": {**text, "format": "date-time"},
        "mail": {**text, "format": "email"},
        "seats": {"type": "integer", "minimum": 2, "maximum": 6},
        "cabin": {"enum": ["economy", "first"]},
        "meals": {"type": "array", "items": {"enum": ["vegan", "halal"]}, "default": ["halal", "tofu"]},
        "tags": {"type": "array", "items": text, "default": ["a", "b"]},
        "home": {"type": "object", "properties": {"street": text}, "required": ["street"]},
        "more": {"type": "object"},
    }
    schema = {"type": "object", "properties": properties, "required": ["day", "seats", "cabin"]}
    asked = Interrupt(id="i", reason="input_required", response_schema=schema)
    presses = [["Answer", "", "", "", "7"], ["Answer", "2026-11-24", "", "", "3", "first", "[]", '["c"]']]
    assert await answer(page, asked, *presses) == Resolve(
        {"day": "2026-11-24", "seats": 3, "cabin": "first", "tags": ["c"]}
    )
    assert [
        (each["control"], each["type"], each["label"], each["stands"]) for each in page.questions[-1]["fields"]
    ] == [
        ("line", "date", "day", ""),
        ("line", "datetime-local", "at", ""),
        ("line", "email", "mail", ""),
        ("line", "text", "seats (2 to 6)", ""),
        ("radio", "text", "cabin", ""),
        ("boxes", "text", "meals", "[]"),  # a default that does not fit is no suggestion
        ("lines", "text", "tags (one per line)", "a\nb"),
        ("group", "text", "home", ""),
        ("json", "text", "more (JSON)", ""),
    ]
    assert page.fields[3]["mode"] == "numeric"
    assert [each["name"] for each in page.fields if each["is_needed"]] == ["/day", "/seats", "/cabin", "/home/street"]
    assert page.questions[-1]["problem"] == "3 fields need another look."
    assert page.questions[-1]["problems"] == {
        "/day": "this cannot be left out",
        "/seats": "must be at most 6",
        "/cabin": "this cannot be left out",
    }
    assert page.left.splitlines()[0] == "Answered by you 14:02 · day: 2026-11-24 · seats: 3 · cabin: first · tags: c"


@pytest.mark.anyio
async def test_a_password_is_hidden_on_the_page_and_left_out_of_what_stays(page: Page) -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
    asked = Interrupt(id="i", reason="input_required", response_schema=schema)
    assert await answer(page, asked, ["Answer", "sesame"]) == Resolve({"pin": "sesame"})
    assert page.fields[0]["type"] == "password"
    assert page.left.splitlines()[0] == "Answered by you 14:02 · pin: •••"
    assert not any("sesame" in content for content in page.outputs[-1].values())


@pytest.mark.anyio
async def test_a_question_of_yes_or_no_is_a_choice(page: Page) -> None:
    asked = Interrupt(id="i", reason="question", response_schema={"type": "boolean"})
    assert await answer(page, asked, ["Answer", "no"]) == Resolve(False)
    assert page.fields[0]["choices"] == ["yes", "no"]


@pytest.mark.anyio
@pytest.mark.requirement("SEC-8")
async def test_what_the_agent_says_is_shown_without_its_markup(page: Page) -> None:
    titled = {"type": "object", "properties": {"a": {"title": "$x$ <b>\u202e", "description": '"&'}}, "required": ["a"]}
    await answer(page, ASKED.model_copy(update={"response_schema": titled}), ["Continue without"])
    assert page.questions[-1]["question"] == 'Which\\u001b?\n{\n  "a": "<b>"\n}'
    assert (page.fields[0]["label"], page.fields[0]["description"]) == ("$x$ <b>\\u202e (JSON)", '"&')
    assert page.left.startswith("Left without an answer by you 14:02\n")
    assert "<b>" not in page.outputs[-1]["text/html"]


@pytest.mark.anyio
async def test_a_decision_is_buttons_and_a_question_without_a_schema_a_line(page: Page) -> None:
    assert await answer(page, DECISION, ["Approve"]) == Approve()
    assert await answer(page, DECISION, ["Deny"]) == Deny()
    assert await answer(page, DECISION, ["Continue without"]) == Cancel()
    line = ASKED.model_copy(update={"response_schema": None})
    assert await answer(page, line, ["Answer", "Oslo"]) == Resolve("Oslo")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("typed", "decided"),
    [("y\n", Approve()), ("\n\n", Deny()), ("n\nnot today\n", Deny("not today"))],
)
async def test_without_widgets_a_call_is_decided_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, decided: Any
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert await NotebookApprover(widgets=False)(REQUEST) == decided
    assert '"path": "/a\\u202e"' in capsys.readouterr().out


@pytest.mark.anyio
async def test_without_widgets_a_form_is_filled_in_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("2\nmany\n3\nno\n\n" + "\n" + "y\n"))
    answerer = NotebookAnswerer(widgets=False)
    assert await answerer(ASKED) == Resolve({"line": "B2", "tickets": 3, "return_trip": False})
    assert await answerer(ASKED) is None
    assert await answerer(DECISION) == Approve()
    told = capsys.readouterr().out
    assert "this is not a whole number" in told
    assert "left without an answer: nothing was typed where something is needed" in told


EXPIRED = ASKED.model_copy(update={"expires_at": "2020-01-01T00:00:00Z"})


@pytest.mark.anyio
async def test_in_marimo_no_form_is_drawn_and_a_sentence_says_what_works_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    monkeypatch.setattr("agui_client.notebook._handlers._clicks_arrive", lambda: True)
    assert await NotebookApprover()(REQUEST) == Approve()
    assert "marimo passes no click on while a cell runs; type the answer in the line below" in capsys.readouterr().out
    with pytest.raises(CannotWaitError, match="widgets=True draws a form that cannot be pressed: marimo"):
        await NotebookAnswerer(widgets=True)(ASKED)


@pytest.mark.anyio
async def test_what_a_form_needs_is_loaded_beside_the_event_loop_before_it_is_drawn(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in: list[int] = []

    def make(*given: Any) -> Any:
        made_in.append(threading.get_ident())
        return call_form(*given)

    monkeypatch.setattr("agui_client._rendering.call_fields.call_form", make)
    assert await decision(page, ["Approve"]) == Approve()
    assert len(made_in) == 1
    assert made_in != [threading.get_ident()]


@pytest.mark.anyio
@pytest.mark.parametrize("raised", [EOFError, StdinNotImplementedError])
async def test_where_nobody_can_type_nothing_is_approved_or_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raised: type[Exception]
) -> None:
    def cannot(prompt: str) -> str:
        raise raised

    monkeypatch.setattr("builtins.input", cannot)
    assert await NotebookApprover(widgets=False)(REQUEST) == Deny(
        "There was nobody to ask, so this tool call was not carried out."
    )
    for asked in (ASKED, DECISION, EXPIRED):
        assert await NotebookAnswerer(widgets=False)(asked) is None
    assert capsys.readouterr().out.count("left without an answer: there is nobody to ask\n") == 4


@pytest.mark.anyio
@pytest.mark.requirement("INT-5")
async def test_an_expired_question_can_only_be_gone_on_without(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await answer(page, EXPIRED, ["Continue without"]) == Cancel()
    assert ([each["name"] for each in page.questions[-1]["choices"]], page.fields) == (["Continue without"], [])
    assert page.questions[-1]["question"].endswith("\nIt has expired, and cannot be answered.")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n\n"))
    assert await NotebookAnswerer(widgets=False)(EXPIRED) == Cancel()
    assert await NotebookAnswerer(widgets=False)(EXPIRED) is None


CELL = """
from agui_client import tool
from agui_client.notebook import NotebookApprover
from agui_client.testing import ScriptedAgent, text, tool_call, turn

@tool(approval="always")
def delete_file(path: str) -> str:
    return f"{path} deleted"

script = [turn(tool_call("delete_file", {"path": "/a"})), turn(text("Gone."))]
agent = ScriptedAgent(*script, tools=[delete_file], approve=NotebookApprover())
result = await agent.run_agent("Delete it")
print([each.status for each in result.tool_executions], result.text)
"""


BLOCKED = CELL.replace("await agent.run_agent(", "agent.run_agent_sync(")
OBSERVED = CELL.replace('await agent.run_agent("Delete it")', 'agent.observe("Delete it").run()')


@pytest.mark.parametrize("answering", ["approve", "answer"])
def test_under_a_sync_verb_a_question_that_no_click_could_answer_is_refused(answering: str) -> None:
    asking: Any = {"approve": NotebookApprover(widgets=True), "answer": NotebookAnswerer(widgets=True)}
    waiting = turn(tool_call("dig"), outcome=interrupt("Really?")) if answering == "answer" else turn(tool_call("dig"))

    @tool(approval="always")
    def dig() -> str:
        raise AssertionError("nobody approved it")

    agent = ScriptedAgent(waiting, tools=[dig], **{answering: asking[answering]})
    with pytest.raises(CannotWaitError, match=r"a click cannot reach a cell .* write `await agent\.run_agent"):
        agent.run_agent_sync("Delete it")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """A client of a kernel, which takes a second to start."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def messages_of(kernel: Any, cell: str) -> Iterator[Any]:
    """Execute a cell; yields what the kernel says of it."""
    executed = kernel.execute(cell, stop_on_error=False)  # or what comes right after an error is passed over
    while True:
        try:
            message = kernel.get_iopub_msg(timeout=30)
        except Empty:
            pytest.fail("nothing more came from the kernel")
        if message["parent_header"].get("msg_id") == executed or message["msg_type"] in {"comm_open", "status"}:
            yield message


@pytest.mark.parametrize(
    ("cell", "told"), [(BLOCKED, "await agent.run_agent(...)"), (OBSERVED, "await agent.observe(")]
)
def test_in_a_kernel_what_would_hang_says_at_once_what_to_write(kernel: Any, cell: str, told: str) -> None:
    told_first = next(each for each in messages_of(kernel, cell) if each["msg_type"] in {"stream", "error"})
    assert told_first["content"].get("ename") == "CannotWaitError"
    assert told in told_first["content"]["evalue"]


FORM = """
from agui_client import tool
from agui_client.notebook import NotebookAnswerer, NotebookApprover
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn

@tool(approval="always")
def book(seats: int) -> str:
    return f"{seats} booked"

properties = {
    "mail": {"type": "string"},
    "seats": {"type": "integer", "maximum": 9},
    "line": {"enum": ["B1", "B2"], "default": "B2"},
}
asked = interrupt("Who?", response_schema={"type": "object", "properties": properties, "required": ["mail", "seats"]})
script = [turn(outcome=asked), turn(tool_call("book", {"seats": 4})), turn(text("Ok."))]
agent = ScriptedAgent(*script, tools=[book], approve=NotebookApprover(), answer=NotebookAnswerer())
result = await agent.run_agent("Book it")
print([each.payload for given in agent.inputs for each in given.resume or []], result.tool_executions[0].arguments)
"""


def test_in_a_kernel_what_stands_on_the_page_is_sent_while_the_cell_waits(kernel: Any) -> None:
    def send(comm_id: str, data: dict[str, Any]) -> None:
        kernel.shell_channel.send(kernel.session.msg("comm_msg", {"comm_id": comm_id, "data": data}))

    page = NotebookPage(send)

    def answer_wrongly() -> None:
        page.fill("mail", "ann@example.org")
        page.fill("seats (at most 9)", "99")
        page.press("Answer")

    def answer_rightly() -> None:
        page.fill("seats (at most 9)", "9")
        page.press("Answer")

    def edit() -> None:
        page.fill("seats", "2")
        page.press("Approve")

    written = ""
    steps: list[tuple[str, dict[str, str], Callable[[], None]]] = [
        ("Answer", {}, answer_wrongly),
        ("Answer", {"/seats": "must be at most 9"}, answer_rightly),
        ("Approve", {}, edit),
    ]
    for message in messages_of(kernel, FORM):
        page.receive(message["msg_type"], message["content"])
        if steps and page.can_press(steps[0][0]) and page.question.get("problems", {}) == steps[0][1]:
            steps.pop(0)[2]()
        if message["msg_type"] == "error":
            pytest.fail("\n".join(message["content"]["traceback"]))
        if message["msg_type"] == "stream":
            written += message["content"]["text"]
            if written.endswith("\n"):
                break
    assert written == "[{'mail': 'ann@example.org', 'seats': 9, 'line': 'B2'}] {'seats': 2}\n"
