"""People at a terminal: what they are shown, what their keys decide, and that nothing else decides."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ag_ui.core import AssistantMessage, FunctionCall, Interrupt, Tool, ToolCall
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from agui_client import ApprovalRequest, Approve, Cancel, Deny, People, Resolve, ToolContext, tool
from agui_client.terminal import TerminalAnswerer, TerminalApprover
from agui_client.terminal._questions import Terminal
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.tool_rounds import results_in

ESC, CTRL_C, CTRL_D, CLEAR_LINE = "\x1b", "\x03", "\x04", "\x01\x0b"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    "required": ["path"],
}
RESUME: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class Seat:
    """A place at a keyboard, where one line after the other is typed."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.written = io.StringIO()
        self.console = Console(file=self.written, width=80, height=24)
        self.asked = threading.Event()
        """Set when a question is on the screen."""
        self._lines = iter(lines)
        self._send: Any = None

    @property
    def shown(self) -> str:
        return self.written.getvalue()

    @contextmanager
    def around(self) -> Generator[None]:
        """Type the next line when a question is there, as a person would."""
        self.asked.set()
        self._send(next(self._lines, ""))
        yield

    @contextmanager
    def taken(self) -> Generator[Seat]:
        with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
            self._send = source.send_text
            yield self


@pytest.fixture
def anyio_backend() -> str:
    """Run on one event loop: prompt_toolkit always has its own; `both_loops` is for how it is reached from ours."""
    return "asyncio"


both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture(autouse=True)
def somebody_sits_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def can_ask(terminal: Terminal) -> bool:
        return True

    monkeypatch.setattr(Terminal, "can_ask", can_ask)
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)


def request(arguments: dict[str, Any] | None = None, *, name: str = "delete_file", about: str = "") -> ApprovalRequest:
    return ApprovalRequest(
        tool_call_id="c1",
        tool=Tool(name=name, description=about, parameters=SCHEMA),
        arguments={"path": "/a"} if arguments is None else arguments,
        thread_id="t",
        run_id="r",
    )


async def decided(seat: Seat, asked: ApprovalRequest | None = None) -> Approve | Deny:
    with anyio.fail_after(20), seat.taken():
        return await TerminalApprover(console=seat.console, around=seat.around)(asked or request())


async def answered(seat: Seat, interrupt: Interrupt, messages: Sequence[Any] = ()) -> Any:
    answerer = TerminalAnswerer(console=seat.console, around=seat.around, messages=lambda: list(messages))
    with anyio.fail_after(20), seat.taken():
        return await answerer(interrupt)


# --- approval


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("typed", ["y\n", " YES \n"])
@both_loops
@pytest.mark.anyio
async def test_a_plain_yes_approves_the_arguments_as_they_are(typed: str) -> None:
    assert await decided(Seat([typed])) == Approve()


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("typed", ["\n", "n\n\n", "no\n" + CTRL_D, ESC, CTRL_D])
@pytest.mark.anyio
async def test_everything_else_denies(typed: str) -> None:
    assert await decided(Seat([typed])) == Deny()


@pytest.mark.anyio
async def test_a_no_may_have_a_reason_and_a_word_that_is_none_is_asked_again() -> None:
    seat = Seat(["sure\nn\nnot on Mondays\n"])
    assert await decided(seat) == Deny("not on Mondays")
    assert "type one of these words" in seat.shown


@pytest.mark.anyio
async def test_the_question_of_the_tool_its_description_and_its_arguments_are_shown() -> None:
    seat = Seat(["a\n"])
    asked = replace(request({"path": "/tmp/a", "times": 2}, about="Deletes a file."), message="Delete /tmp/a twice?")
    assert await decided(seat, asked) == Approve(always=True)
    assert seat.shown == (
        "? Delete /tmp/a twice?\n"
        f"{'  The agent wants to call delete_file':<80}\n"
        f"{'  Deletes a file.':<80}\n"
        f"{'  {':<80}\n"
        f"{'    ' + chr(34) + 'path' + chr(34) + ': ' + chr(34) + '/tmp/a' + chr(34) + ',':<80}\n"
        f"{'    ' + chr(34) + 'times' + chr(34) + ': 2':<80}\n"
        f"{'  }':<80}\n"
    )


@pytest.mark.requirement("SEC-8", "SEC-2")
@pytest.mark.anyio
async def test_what_is_decided_about_is_shown_without_markup_control_or_disguise() -> None:
    seat = Seat(["y\n"])
    await decided(seat, request({"path": "[red]a\x1b[2J\u202egnp.exe\u200b[/red]"}, name="f", about="[b]x[/b]\x9b"))
    assert '"path": "[red]a\\u001b[2J\\u202egnp.exe\\u200b[/red]"' in seat.shown
    assert "[b]x[/b]\\u009b" in seat.shown
    assert "\x1b" not in seat.shown


@pytest.mark.anyio
async def test_arguments_that_do_not_fit_the_screen_are_cut_and_shown_on_demand() -> None:
    long = {"path": "\n".join(f"line {number}" for number in range(500))}
    seat = Seat(["v\ny\n"])
    assert await decided(seat, request(long)) == Approve()
    before, _, after = seat.shown.partition("characters more: v shows them")
    assert ("line 499" in before, "line 499" in after) == (False, True)


@pytest.mark.anyio
async def test_arguments_are_edited_field_by_field_each_beginning_with_what_the_agent_asked_for() -> None:
    """What does not fit is there to be corrected, other fields stay as they were, and nested ones are fields, too."""
    to = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "zip": {"type": "integer"}},
        "required": ["name"],
    }
    sent = {"path": {"type": "string"}, "count": {"type": "integer", "maximum": 9}, "to": to}
    asked = replace(
        request({"path": "/a", "count": 4, "to": {"name": "Ann", "zip": 150}}),
        tool=Tool(name="send", description="", parameters={"type": "object", "properties": sent, "required": [*sent]}),
    )
    seat = Seat([f"e\n\n{CLEAR_LINE}99\n{CLEAR_LINE}2\n{CLEAR_LINE}Bob\n\ny\n"])
    assert await decided(seat, asked) == Approve({"path": "/a", "count": 2, "to": {"name": "Bob", "zip": 150}})
    assert "must be at most 9" in " ".join(seat.shown.split())
    left = Seat([f"e\n{CLEAR_LINE}/b\n{ESC}y\n"])
    assert await decided(left, asked) == Approve()
    assert "not changed" in left.shown


@pytest.mark.anyio
async def test_arguments_are_edited_as_json_in_a_line_where_there_is_no_editor() -> None:
    seat = Seat([f'j\n{CLEAR_LINE}{{"path": "/b"}}\ny\n'])
    assert await decided(seat) == Approve({"path": "/b"})
    assert '"path": "/b"' in seat.shown


@pytest.mark.requirement("SEC-3")
@pytest.mark.anyio
async def test_an_edit_of_1_into_true_is_an_edit() -> None:
    asked = replace(request({"amount": 1}), tool=Tool(name="pay", description="", parameters={}))
    decision = await decided(Seat([f'e\n{CLEAR_LINE}{{"amount": true}}\ny\n']), asked)
    assert isinstance(decision, Approve)
    assert decision.arguments is not None
    assert decision.arguments["amount"] is True


@pytest.mark.requirement("SEC-2")
@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ('{"path": 1}', "not changed: path: must be text"),
        ("{path}", "not changed: this is not JSON"),
        ("[]", "not changed: arguments are a JSON object"),
        (ESC, "not changed"),
    ],
)
@pytest.mark.anyio
async def test_an_edit_that_does_not_fit_changes_nothing(edited: str, told: str) -> None:
    line = edited if edited == ESC else f"{CLEAR_LINE}{edited}\n"
    seat = Seat([f"j\n{line}y\n"])
    assert await decided(seat) == Approve()
    assert told in " ".join(seat.shown.split())


@pytest.mark.anyio
async def test_arguments_are_edited_in_the_editor_that_was_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('/a', '/from-the-editor'))\n",
        "utf-8",
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    assert await decided(Seat(["j\ny\n"])) == Approve({"path": "/from-the-editor"})


@pytest.mark.anyio
async def test_an_editor_that_fails_is_told_and_the_question_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    seat = Seat(["j\nn\n\n"])
    assert await decided(seat) == Deny()
    assert "not changed: " in seat.shown


@both_loops
@pytest.mark.anyio
async def test_several_calls_are_asked_about_one_after_the_other() -> None:
    @tool(approval="always")
    def work(task: str) -> str:
        return f"{task} done"

    seat = Seat(["y\n", "n\nnot that\n", "y\n"])
    script = [turn(*(tool_call("work", {"task": each}) for each in "abc")), turn(text("ok"))]
    agent = ScriptedAgent(*script, tools=[work], approve=TerminalApprover(console=seat.console, around=seat.around))
    with anyio.fail_after(20), seat.taken():
        result = await agent.run_agent("Go")
    statuses = {each.arguments["task"]: each.status for each in result.tool_executions}
    # trio begins tasks in any order.
    in_order = sorted("abc", key=lambda task: seat.shown.index(f'"task": "{task}"'))
    assert [statuses[task] for task in in_order] == ["succeeded", "denied", "succeeded"]


@pytest.mark.requirement("SEC-3")
@pytest.mark.anyio
async def test_keys_that_were_pressed_before_a_question_was_there_do_not_answer_it() -> None:
    seat = Seat(["y\ny\n", "n\n\n"])
    approver = TerminalApprover(console=seat.console, around=seat.around)
    with anyio.fail_after(20), seat.taken():
        assert [await approver(request()), await approver(request())] == [Approve(), Deny()]


@both_loops
@pytest.mark.anyio
async def test_a_question_that_nobody_waits_for_any_more_leaves_the_keyboard_to_the_next() -> None:
    seat = Seat(["", "y\n"])
    approver = TerminalApprover(console=seat.console, around=seat.around)
    with anyio.fail_after(20), seat.taken():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver, request())
            await anyio.to_thread.run_sync(seat.asked.wait)
            tasks.cancel_scope.cancel()
        assert await approver(request()) == Approve()


@pytest.mark.anyio
async def test_an_approval_that_takes_too_long_is_a_denial_and_the_question_is_taken_back() -> None:
    @tool(approval="always")
    def work() -> str:
        raise AssertionError("nobody approved this")

    seat = Seat(["", "y\n"])
    approver = TerminalApprover(console=seat.console, around=seat.around)
    agent = ScriptedAgent(
        turn(tool_call("work", {})),
        turn(text("ok")),
        tools=[work],
        approve=approver,
        people=People(wait=0.05),
    )
    with anyio.fail_after(20), seat.taken():
        result = await agent.run_agent("Go")
        assert [each.status for each in result.tool_executions] == ["denied"]
        assert await approver(request()) == Approve()


@pytest.mark.anyio
async def test_where_there_is_no_terminal_the_call_is_denied_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    assert await TerminalApprover()(request()) == Deny(
        "There was nobody to ask, so this tool call was not carried out."
    )
    assert capsys.readouterr().err == (
        "agui: the call of delete_file is denied, because there is no terminal to ask on\n"
    )


# --- answers

FERRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "line": {"enum": ["B1", "B2"], "description": "Which ferry."},
        "tickets": {"type": "integer", "minimum": 1},
        "return_trip": {"type": "boolean", "title": "return trip"},
        "note": {"type": "string"},
        "seats": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["line", "tickets", "return_trip"],
}


def ferry(**changes: Any) -> Interrupt:
    asked = Interrupt(id="i", reason="input_required", message="Which?", response_schema=FERRY)
    return asked.model_copy(update=changes)


@pytest.mark.anyio
async def test_a_schema_becomes_a_form_and_what_is_optional_may_be_left_out() -> None:
    assert await answered(Seat(["2\n3\ny\n\n\n"]), ferry()) == Resolve(
        {"line": "B2", "tickets": 3, "return_trip": True}
    )
    assert await answered(Seat(["B1\n1\nno\nby the window\n[4, 5]\n"]), ferry()) == Resolve(
        {"line": "B1", "tickets": 1, "return_trip": False, "note": "by the window", "seats": [4, 5]}
    )


@pytest.mark.anyio
async def test_what_does_not_fit_is_asked_again() -> None:
    wrong_and_right = [("B7", "b1"), ("many", "0"), ("", "1"), ("perhaps", "yes")]
    typed = "".join(f"{wrong}\n{CLEAR_LINE}{right}\n" for wrong, right in wrong_and_right if wrong)
    typed = typed.replace("0\n", f"0\n{CLEAR_LINE}1\n") + f"\n{{\n{CLEAR_LINE}[1]\n"
    seat = Seat([typed])
    assert await answered(seat, ferry()) == Resolve({"line": "B1", "tickets": 1, "return_trip": True, "seats": [1]})
    for told in (
        "this is none of the 2 choices",
        "this is not a whole number",
        "must be at least 1",
        "say yes or no",
        "entry 1: this is not a whole number",
    ):
        assert told in seat.shown


@pytest.mark.anyio
async def test_ctrl_c_clears_a_line_that_has_text_and_the_form_says_how_to_leave_it() -> None:
    seat = Seat([f"junk{CTRL_C}b1\n1\ny\n\n\n"])
    assert await answered(seat, ferry()) == Resolve({"line": "B1", "tickets": 1, "return_trip": True})
    assert "Ctrl-D leaves the question." in seat.shown
    assert "reason:" not in seat.shown


@pytest.mark.anyio
async def test_a_form_whose_whole_does_not_fit_is_asked_again() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "dependentRequired": {"a": ["b"]},
    }
    seat = Seat(["x\n\n\ny\n"])  # what was typed stands there again
    assert await answered(seat, ferry(response_schema=schema)) == Resolve({"a": "x", "b": "y"})
    assert "is incomplete: with a, b is needed" in seat.shown


@pytest.mark.anyio
async def test_groups_are_asked_for_or_left_out_and_only_wrong_fields_again() -> None:
    street = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
    schema = {
        "type": "object",
        "properties": {"home": street, "work": {**street, "title": "Work"}, "more": street, "n": {"type": "integer"}},
        "required": ["home"],
        "if": {"required": ["work"]},
        "then": {"properties": {"n": {"minimum": 5}}},
    }
    seat = Seat([f"A\ny\nB\n\n1\n{CLEAR_LINE}7\n"])
    assert await answered(seat, ferry(response_schema=schema)) == Resolve(
        {"home": {"street": "A"}, "work": {"street": "B"}, "n": 7}
    )
    assert "n: must be at least 5" in seat.shown


@pytest.mark.anyio
async def test_a_default_stands_there_to_be_accepted() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}, "o": {"default": {"a": 1}}}}
    assert await answered(Seat(["\n\n"]), ferry(response_schema=schema)) == Resolve({"n": 7, "o": {"a": 1}})


@pytest.mark.anyio
@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200b", "\x1b[2K", "\x7f", "\u0085"])
async def test_a_default_that_a_screen_would_show_as_another_is_shown_escaped_and_not_put_in(hidden: str) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "default": f"bob{hidden}ecila"}}}
    seat = Seat(["ann\n"])
    assert await answered(seat, ferry(response_schema=schema)) == Resolve({"to": "ann"})
    assert f"default: bob{json.dumps(hidden)[1:-1]}ecila" in seat.shown
    assert f"bob{hidden}" not in seat.shown


@pytest.mark.parametrize("leaving", [ESC, CTRL_D, "\n"])
@both_loops
@pytest.mark.anyio
async def test_leaving_the_question_lets_the_agent_go_on_without_an_answer(leaving: str) -> None:
    assert await answered(Seat([f"{leaving}y\n"]), ferry()) == Cancel()


@pytest.mark.anyio
async def test_leaving_by_mistake_comes_back_to_the_question() -> None:
    assert await answered(Seat([f"{ESC}\n1\n1\ny\n\n\n"]), ferry()) == Resolve(
        {"line": "B1", "tickets": 1, "return_trip": True}
    )


CALL = AssistantMessage(
    id="m",
    tool_calls=[ToolCall(id="c1", function=FunctionCall(name="pay", arguments='{"amount": 100}'))],
)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", Approve()),
        ("n\ntoo dear\n", Deny("too dear")),
        (f'e\n{CLEAR_LINE}{{"amount": 5}}\ny\n', Approve({"amount": 5})),
        (ESC + "y\n", Cancel()),
    ],
)
@pytest.mark.anyio
async def test_an_interrupt_about_a_call_is_decided_like_one(typed: str, answer: Any) -> None:
    seat = Seat([typed])
    asked = ferry(reason="tool_call", message="Pay?", tool_call_id="c1", response_schema=RESUME)
    assert await answered(seat, asked, [CALL]) == answer
    assert "about its call of pay" in seat.shown
    assert '"amount": 100' in seat.shown


@pytest.mark.anyio
async def test_arguments_without_an_end_are_shown_as_text() -> None:
    endless = '{"a":' * 50_000
    call = ToolCall(id="c1", function=FunctionCall(name="pay", arguments=endless))
    seat = Seat(["y\n"])
    asked = ferry(reason="tool_call", message="Pay?", tool_call_id="c1", response_schema=RESUME)
    assert await answered(seat, asked, [AssistantMessage(id="m", tool_calls=[call])]) == Approve()
    assert "with arguments that are not a JSON object" in seat.shown


@pytest.mark.anyio
async def test_without_a_schema_any_text_answers_and_json_is_json() -> None:
    open_question = ferry(response_schema=None)
    assert await answered(Seat(["Oslo [b]\n"]), open_question) == Resolve("Oslo [b]")
    assert await answered(Seat(['{"a": 1}\n']), open_question) == Resolve({"a": 1})
    assert await answered(Seat(["{later}\n"]), open_question) == Resolve("{later}")


@pytest.mark.anyio
async def test_a_confirmation_without_a_schema_is_yes_or_no() -> None:
    assert await answered(Seat(["y\n"]), ferry(reason="confirmation", response_schema=None)) == Approve()
    assert await answered(Seat(["n\n"]), ferry(reason="confirmation", response_schema=None)) == Deny()


@pytest.mark.requirement("INT-5")
@pytest.mark.anyio
async def test_an_expired_question_can_only_be_left() -> None:
    expired = ferry(expires_at="2020-01-01T00:00:00Z")
    assert await answered(Seat(["y\n"]), expired) == Cancel()
    assert await answered(Seat(["\n"]), expired) is None


@pytest.mark.requirement("SEC-1", "SEC-8")
@pytest.mark.anyio
async def test_what_the_agent_says_besides_is_shown_as_text() -> None:
    raw = {"draft": "[link=http://evil]click[/link]\x1b]8;;x\x07"}
    seat = Seat(["ok\n"])
    await answered(
        seat,
        ferry(
            message="[red]Send it?[/red]\x1b[2J",
            reason="x\x07",
            response_schema=None,
            expires_at="later",
            metadata={"langgraph": {"raw": raw}},
        ),
    )
    assert "? [red]Send it?[/red]\\u001b[2J" in seat.shown
    assert "reason: x\\u0007" in seat.shown
    assert json.dumps(raw["draft"]) in seat.shown
    assert "langgraph" not in seat.shown
    assert "\x1b" not in seat.shown
    assert "\x07" not in seat.shown


@pytest.mark.anyio
async def test_without_a_terminal_the_question_is_left_to_the_caller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    assert await TerminalAnswerer()(ferry()) is None
    assert capsys.readouterr().err == (
        "agui: 'Which?' is left without an answer, because there is no terminal to ask on\n"
    )


@pytest.mark.parametrize("name", [None, "The Clerk"])
@pytest.mark.anyio
async def test_a_question_names_the_subagent_that_asks(name: str | None) -> None:
    def name_of(subagent_run_id: str | None) -> str:
        return f"{name} ({subagent_run_id})"

    seat = Seat(["2\n3\ny\n\n\n"])
    answerer = TerminalAnswerer(console=seat.console, around=seat.around, name_of=name_of if name else None)
    with anyio.fail_after(20), seat.taken():
        await answerer(ferry(subagent_run_id="office/clerk-0f312a46.0"))
    shown = "The Clerk (office/clerk-0f312a46.0)" if name else "office > clerk"
    assert f"? {shown}: Which?" in seat.shown


@pytest.mark.anyio
async def test_a_question_of_a_tool_looks_like_one_of_the_agent() -> None:
    @tool
    async def pay(ctx: ToolContext) -> str:
        return f"paid from {await ctx.ask('Which account?')}"

    seat = Seat(["savings\n"])
    answerer = TerminalAnswerer(console=seat.console, around=seat.around)
    agent = ScriptedAgent(turn(tool_call("pay")), turn(text("Done.")), tools=[pay], answer=answerer)
    with anyio.fail_after(20), seat.taken():
        await agent.run_agent("Pay!")
    assert "? Which account?" in seat.shown
    assert results_in(agent.messages) == [("call-1", "paid from savings", None)]


def test_the_people_of_the_terminal_say_what_they_need() -> None:
    program = "import sys; sys.modules.update(rich=None); from agui_client.terminal import TerminalApprover"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.stderr.endswith("ImportError: agui_client.terminal needs its extra: pip install 'agui-client[cli]'\n")
