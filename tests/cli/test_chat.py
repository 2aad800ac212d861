"""`agui chat`: a conversation on a terminal, and the same where nobody types."""

from __future__ import annotations

import errno
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import ActivitySnapshotEvent, RunAgentInput, RunErrorEvent, TextPart, ToolMessage, UserMessage

from agui_client import ConversationSnapshot, HttpAgent, attach, tool
from agui_client.a2ui import action_in, change_surface, show_surface
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Server,
    Step,
    interrupt,
    reasoning,
    serve,
    state,
    text,
    tool_call,
    turn,
)
from support.model_server import model_server

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
OnTerminal = Callable[..., Any]

PROMPT = "\n>"
"""The chat's, without the space after it, which a terminal moves over."""

TOOLS = '''
from ag_ui.core import RunAgentInput
from agui_client import ToolContext, tool

@tool
def get_weather(ctx: ToolContext, city: str) -> str:
    """Current weather for a city."""
    ctx.report("looking outside")
    return f"18 degrees in {city}"

@tool(approval="always")
def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"

@tool
def fail() -> str:
    raise ValueError("no such table")

tools = [send_mail, fail]
number = 7
twice = [send_mail, send_mail]

def choose(asked: "RunAgentInput"):
    return [get_weather] if asked.state.get("outside") else []

def choose_nothing(asked: RunAgentInput):
    pass

def choose_once(asked: RunAgentInput):
    if len(asked.messages) > 1:
        raise LookupError("no tools left")
    return []

def choose_to_leave(asked: RunAgentInput):
    raise SystemExit(3)

async def choose_later(asked: RunAgentInput):
    return []

def forgotten(path):
    raise AssertionError("this is no function that chooses")
'''
FERRY = {
    "type": "object",
    "properties": {"line": {"enum": ["B1", "B2"]}, "tickets": {"type": "integer"}},
    "required": ["line", "tickets"],
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with tools."""
    path = tmp_path / "my_tools.py"
    path.write_text(TOOLS, "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return str(path)


async def secretary(input: RunAgentInput) -> AsyncIterator[Step]:
    """Does what the last message says, with the tools of whoever asks."""
    said = next(message.content for message in reversed(input.messages) if isinstance(message, UserMessage))
    last = input.messages[-1]
    if input.resume:
        yield turn(text(f"Booked {json.dumps(input.resume[0].payload)}."), state({"booked": True}))
    elif isinstance(last, ToolMessage):
        yield turn(text(f"It came to: {last.content}"))
    elif said == "mail":
        yield turn(reasoning("A mail it is."), tool_call("send_mail", {"to": "ada"}))
    elif said == "weather":
        yield turn(tool_call("get_weather", {"city": "Oslo"}))
    elif said == "fail":
        yield turn(tool_call("fail", {}))
    elif said == "ferry":
        yield turn(outcome=interrupt("Which ferry?", interrupt_id="ferry", response_schema=FERRY))
    elif said == "error":
        yield turn(RunErrorEvent(message="overloaded"))
    else:
        yield turn(text(f"You said {said} ({len(input.messages)})."), state({"said": said}))


@contextmanager
def served() -> Generator[Server]:
    with serve(ScriptedAgent(secretary)) as server:
        yield server


# --- where nobody types


def test_each_line_is_a_prompt_of_one_conversation(agui: Agui) -> None:
    with served() as server:
        done = agui("chat", server.url, stdin="Hello\n\n//slash\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "You said Hello (1).\n\nYou said /slash (3).\n"


FORM: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "return", "book"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "return", "component": "CheckBox", "label": "Return", "value": {"path": "/return"}},
    {
        "id": "book",
        "component": "Button",
        "child": "said",
        "action": {"event": {"name": "book", "context": {"who": {"path": "/name"}, "back": {"path": "/return"}}}},
    },
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]


async def harbour(input: RunAgentInput) -> AsyncIterator[Step]:
    """Sends a form, and says on it what was entered."""
    if (action := action_in(input)) is None:
        yield turn(show_surface("ferry", FORM, {"said": "Book"}))
    else:
        yield turn(change_surface("ferry", path="/said", data=f"{action.context['who']}, {action.context['back']}"))


def test_a_form_of_the_agent_is_shown_filled_in_and_pressed(agui: Agui) -> None:
    lines = "A ferry, please\n/set name Ann\n/set return yes\n/press book\n/surfaces\n/set nobody x\n"
    with serve(ScriptedAgent(harbour)) as server:
        done = agui("chat", server.url, stdin=lines)
    usage = "/set name|return VALUE · /press book\n"
    booked = f"── ferry\nName: Ann\n[x] Return\n[ Ann, True ]\n{usage}"
    assert done.stdout == f"── ferry\nName: …\n[ ] Return\n[ Book ]\n{usage}{booked}{booked}"
    assert done.returncode == 2
    assert "no surface of the agent has 'nobody': /surfaces shows them" in done.stderr


def test_a_form_is_filled_in_in_one_chat_and_pressed_in_another(agui: Agui, tmp_path: Path) -> None:
    kept = ("--threads", str(tmp_path / "threads.db"), "--thread-id", "t")
    agent = ScriptedAgent(harbour)
    with serve(agent) as server:
        agui("chat", server.url, *kept, stdin="A ferry, please\n/set name Ann\n/set return yes\n")
        done = agui("chat", server.url, *kept, stdin="/surfaces\n/press book\n")
    assert done.stdout.startswith("── ferry\nName: Ann\n")
    assert "[ Ann, True ]" in done.stdout
    # Without the official middleware in front of it, an agent is told of the press in messages, too.
    told = agent.inputs[-1].messages[-1]
    assert str(told.content).startswith('User performed action "book" on surface "ferry" (component: book).')


def test_a_choice_is_set_by_what_the_form_shows_of_it(agui: Agui) -> None:
    options = [{"label": "At dawn", "value": "a"}, {"label": "At dusk", "value": "u"}]
    ferry = {"id": "root", "component": "ChoicePicker", "options": options, "value": {"path": "/ferry"}}
    with serve(ScriptedAgent(turn(show_surface("s", [ferry], {"ferry": ["a"]})))) as server:
        done = agui(
            "chat", server.url, stdin="Hi\n/set root At dusk\n/surfaces\n/set root 1\n/surfaces\n/set root noon\n"
        )
    assert "( ) At dawn\n  (x) At dusk\n" in done.stdout
    assert done.stdout.endswith("(x) At dawn\n  ( ) At dusk\n/set root VALUE\n")
    assert done.stderr == "agui: this is none of the 2 choices\n"


def test_where_nobody_types_a_form_is_not_asked_for(agui: Agui) -> None:
    with serve(ScriptedAgent(harbour)) as server:
        done = agui("chat", server.url, stdin="/fill\n")
        asked = agui("chat", server.url, stdin="A ferry, please\n/fill\n")
    assert (done.returncode, done.stderr) == (
        2,
        "agui: the agent has sent no surface with fields or buttons; /surfaces shows what there is\n",
    )
    assert "there is no terminal to ask on: /set FIELD VALUE and /press BUTTON do without one" in asked.stderr


def test_a_surface_that_cannot_be_drawn_is_said_once(agui: Agui) -> None:
    old = ActivitySnapshotEvent(
        message_id="m", activity_type="a2ui-surface", content={"a2ui_operations": [{"beginRendering": {}}]}
    )
    with serve(ScriptedAgent(turn(old), turn(text("Sorry.")))) as server:
        done = agui("chat", server.url, stdin="One\nTwo\n")
    said = "! beginRendering is of A2UI v0.8, which is not drawn here: the agent has to send v0.9"
    assert done.stdout == f"{said}\nSorry.\n"


def test_state_and_history_can_be_looked_at(agui: Agui, tools: str) -> None:
    with served() as server:
        lines = "/history\nmail\n/state\n/history\n/quit\nnever said\n"
        done = agui("chat", server.url, "--tools", f"{tools}:send_mail", stdin=lines)
    denied = "There was nobody to ask, so this tool call was not carried out."
    assert done.returncode == 0
    assert done.stdout == (
        "there are no messages yet\n"
        f"It came to: {denied}\n"
        "{}\n"
        "you: mail\n"
        "thought: A mail it is.\n"
        'call-1 = send_mail({"to": "ada"}), denied by nobody\n'
        f"call-1 -> {denied}\n"
        f"agent: It came to: {denied}\n"
    )


@pytest.mark.requirement("SEC-3")
def test_a_tool_that_wants_approval_is_denied_where_nobody_can_be_asked(agui: Agui, tools: str) -> None:
    with served() as server:
        done = agui("chat", server.url, "--tools", f"{tools}:tools", stdin="mail\n")
    assert done.returncode == 0
    assert done.stderr == (
        'tool send_mail({"to": "ada"})\n'
        "agui: the call of send_mail is denied, because there is no terminal to ask on\n"
        "tool send_mail denied by nobody: There was nobody to ask, so this tool call was not carried out.\n"
    )


def test_tools_run_and_tell_how_far_they_are(agui: Agui, tools: str) -> None:
    with served() as server:
        done = agui("chat", server.url, "--tools", f"{tools}:get_weather", stdin="weather\n")
    assert (done.returncode, done.stdout) == (0, "It came to: 18 degrees in Oslo\n")
    assert done.stderr == (
        'tool get_weather({"city": "Oslo"})\n'
        "tool get_weather running: looking outside\n"
        "tool get_weather -> 18 degrees in Oslo\n"
    )


def test_what_a_tool_raised_is_told_here_and_not_to_the_agent(agui: Agui, tools: str) -> None:
    with served() as server:
        done = agui("chat", server.url, "--tools", f"{tools}:fail", stdin="fail\n")
    assert "no such table" not in done.stdout
    assert re.search(
        r"^error: tool fail failed in call .call-1.: ValueError: no such table$", done.stderr, re.MULTILINE
    )


def test_tools_may_be_chosen_by_a_function_and_come_from_several_places(agui: Agui, tools: str, tmp_path: Path) -> None:
    start = tmp_path / "state.json"
    start.write_text('{"outside": true}', "utf-8")
    places = ("--tools", f"{tools}:choose", "--tools", f"{tools}:fail")
    with served() as server:
        inside = agui("chat", server.url, *places, stdin="weather\n")
        outside = agui("chat", server.url, *places, "--state", str(start), stdin="weather\n")
    assert inside.stderr == (
        'tool get_weather({"city": "Oslo"})\n'
        "warning: a call to 'get_weather', which was not offered, is taken for the agent's own (TOOL-11)\n"
        "no tool here executes the call of get_weather (call-1)\n"
    )
    assert (inside.returncode, outside.returncode) == (4, 0)
    assert outside.stdout == "It came to: 18 degrees in Oslo\n"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("{}", "write MODULE:NAME or FILE.py:NAME"),
        ("{}:", "write MODULE:NAME or FILE.py:NAME"),
        ("{}:nothing", "there is no nothing in {}"),
        ("{}:number", "this is a int; name a @tool, a list of them, or a function that chooses"),
        ("{}:twice", "two tools are named 'send_mail'"),
        ("/no/such.py:tools", "there is no file /no/such.py"),
        ("no_such_module:tools", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("{}:forgotten", "did you forget @tool?"),
        ("{}:choose_later", "did you forget @tool?"),
        ("os:system", "did you forget @tool?"),
        ("builtins:dict", "did you forget @tool?"),
    ],
)
def test_tools_that_are_not_there_are_told_in_a_sentence(agui: Agui, tools: str, place: str, told: str) -> None:
    done = agui("chat", "--tools", place.replace("{}", tools))
    assert (done.returncode, done.stdout) == (2, "")
    assert told.replace("{}", tools) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_of_tools_that_fails_is_told_with_its_line(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "broken_tools.py"
    path.write_text("import os\n\nos.no_such_thing\n", "utf-8")
    done = agui("chat", "--tools", f"{path}:tools")
    assert done.returncode == 2
    assert "AttributeError: module 'os' has no attribute 'no_such_thing' (broken_tools.py, line 3)" in done.stderr


def test_a_file_of_tools_that_leaves_the_program_is_told(agui: Agui, tmp_path: Path) -> None:
    path = tmp_path / "leaving_tools.py"
    path.write_text("import sys\nsys.exit(7)\n", "utf-8")
    done = agui("chat", "--tools", f"{path}:tools")
    assert done.returncode == 2
    assert "SystemExit: 7 (leaving_tools.py, line 2)" in done.stderr


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("choose_nothing", "the function returned no list of tools, but a NoneType\n"),
        ("choose_once", "choosing tools failed: LookupError: no tools left (my_tools.py, line "),
        ("choose_to_leave", "choosing tools failed: SystemExit: 3 (my_tools.py, line "),
    ],
)
def test_a_function_that_chooses_no_tools_is_told_in_a_sentence(
    agui: Agui, tools: str, function: str, told: str
) -> None:
    with served() as server:
        done = agui("chat", server.url, "--tools", f"{tools}:{function}", stdin="Hello\nHello\n")
    assert done.returncode == 2
    assert f"agui: --tools {tools}:{function}: {told}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_that_nobody_can_answer_ends_the_chat(agui: Agui) -> None:
    with served() as server:
        done = agui("chat", server.url, stdin="ferry\nHello\n")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "agui: 'Which ferry?' is left without an answer, because there is no terminal to ask on\n"


@pytest.mark.parametrize(
    ("lines", "code", "told"),
    [
        ("error\nHello\n", 1, "agui: overloaded\n"),
        ("/nothing\nHello\n", 2, "there is no /nothing; /help lists what there is"),
        ("/retry\n", 2, "there is no prompt yet"),
        ("/edit\n", 2, "/edit takes the new text of the last prompt"),
        ("/edit Hi\n", 2, "there is no prompt yet"),
        ("/save\n", 2, "/save takes the name of a file"),
        ("/attach\n", 2, "/attach takes the name of a file, or a URL"),
        ("/attach /no/such/photo.png\n", 2, "photo.png' cannot be attached: No such file or directory"),
        ("/load /no/such/file\n", 2, "cannot read /no/such/file: No such file or directory"),
    ],
)
def test_the_first_line_that_fails_ends_the_chat(agui: Agui, lines: str, code: int, told: str) -> None:
    with served() as server:
        done = agui("chat", server.url, stdin=lines)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored by the server", "by the caller"])
def test_the_last_prompt_is_edited_and_answered_again(agui: Agui, *, is_stored: bool) -> None:
    store = Store()
    scripted = ScriptedAgent(*(turn(text(f"Answer {number}.")) for number in range(1, 5)))

    def chosen(_: object, given: RunAgentInput) -> Any:
        """Open the thread of the caller."""
        return store.threads.open(given.thread_id, scripted) if is_stored else scripted

    with store, serve(agent_app(chosen, on_divergence="rewind")) as server:
        done = agui("chat", server.url, stdin="First\n/edit Other\nSecond\n/retry\n/history\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == [
        "you: Other",
        "agent: Answer 2.",
        "you: Second",
        "agent: Answer 4.",
    ]
    sent = [[each.content for each in given.messages] for given in scripted.inputs]
    assert sent == [["First"], ["Other"], ["Other", "Answer 2.", "Second"], ["Other", "Answer 2.", "Second"]]


@pytest.mark.skipif(sys.platform == "win32", reason="other names are impossible there")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/save /no/such/file", "cannot write /no/such/file: No such file or directory"),
        ("/load ~nosuchuser/file", "~nosuchuser/file names no file: Could not determine home directory"),
        ("/save ~nosuchuser/file", "~nosuchuser/file names no file: Could not determine home directory"),
        (f"/load {'x' * 300}", "cannot read xxx"),
        (f"/save {'x' * 300}", "cannot write xxx"),
        ("/load a\0b", "cannot read a\\x00b: embedded null byte"),
        ("/save a\0b", "cannot write a\\x00b: embedded null byte"),
        ("/load /dev/zero", "/dev/zero is not a saved conversation"),
        ("/save /dev/zero", "/dev/zero is not a saved conversation"),
    ],
)
def test_a_file_that_cannot_be_is_told_in_a_sentence(agui: Agui, line: str, told: str) -> None:
    done = agui("chat", "http://127.0.0.1:9/", stdin=f"{line}\n")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_an_agent_that_is_not_there_is_told_in_a_sentence(agui: Agui) -> None:
    done = agui("chat", "http://127.0.0.1:9/", stdin="Hello\n")
    assert done.returncode == 3
    assert done.stderr.startswith("agui: ")
    assert done.stderr.endswith("start the agent, or check the address; `agui demo --serve` starts one to try\n")


def test_a_conversation_is_saved_and_gone_on_with(agui: Agui, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with served() as server:
        first = agui("chat", server.url, "--thread-id", "t1", stdin=f"Hello\n/save {kept}\n/save {kept}\n")
        second = agui("chat", server.url, stdin=f"/load {kept}\nAgain\n/new\n/state\nAnew\n")
    assert first.stderr == f"saved 2 messages to {kept}\n" * 2
    assert ConversationSnapshot.model_validate_json(kept.read_text("utf-8")).thread_id == "t1"
    assert second.stdout == "You said Again (3).\n{}\nYou said Anew (1).\n"
    assert second.stderr.startswith("loaded 2 messages of thread t1\na new conversation, thread ")


def test_files_are_attached_to_the_next_prompt_and_to_no_other(agui: Agui, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"png")
    producer = ScriptedAgent(turn(text("Nice.")))
    with serve(producer) as server:
        done = agui("chat", server.url, stdin=f"/attach {photo}\n/attach https://files.test/a.pdf\nLook\nAnd?\n")
    assert done.stderr == "attached to the next prompt: 1\nattached to the next prompt: 2\n"
    sent = [message.content for message in producer.inputs[1].messages if isinstance(message, UserMessage)]
    assert sent == [[TextPart(text="Look"), attach(photo), attach("https://files.test/a.pdf")], "And?"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("my notes", "is not a saved conversation"),
        ('{"version": 1, "thread_id": "t"}', "has another version than 2, the only one that this agui_client reads"),
    ],
)
def test_only_a_saved_conversation_is_written_over_or_loaded(
    agui: Agui, tmp_path: Path, content: str, why: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text(content, "utf-8")
    with served() as server:
        for word in ("/save", "/load"):
            done = agui("chat", server.url, stdin=f"Hello\n{word} {notes}\n")
            assert (done.returncode, done.stderr) == (
                2,
                f"agui: {notes} {why}\n",
            )
    assert notes.read_text("utf-8") == content


@pytest.mark.skipif(sys.platform == "win32", reason="files there have other permissions")
def test_a_conversation_is_saved_for_its_owner_alone(agui: Agui, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with served() as server:
        assert agui("chat", server.url, stdin=f"Hello\n/save {kept}\n").returncode == 0
    assert kept.stat().st_mode & 0o077 == 0


def test_what_was_saved_stays_if_it_cannot_be_written_anew(
    agui: Agui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.json"
    before = ConversationSnapshot(thread_id="t1").model_dump_json()
    kept.write_text(before, "utf-8")

    def fail(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with served() as server:
        done = agui("chat", server.url, stdin=f"Hello\n/save {kept}\n")
    assert (done.returncode, done.stderr) == (2, f"agui: cannot write {kept}: No space left on device\n")
    assert kept.read_text("utf-8") == before
    assert list(tmp_path.iterdir()) == [kept]


def test_questions_that_were_abandoned_are_not_asked_again(agui: Agui, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with served() as server:
        agent = HttpAgent(server.url)
        agent.run_agent_sync("ferry")
        agent.abandon_interrupts()
        kept.write_text(agent.snapshot().model_dump_json(), "utf-8")
        done = agui("chat", server.url, stdin=f"/load {kept}\nHello\n")
    assert (done.returncode, done.stdout) == (0, "Booked null.\n")


def test_a_line_that_is_not_text_ends_the_chat_with_a_sentence(start: Callable[..., Any]) -> None:
    with served() as server:
        process = start("chat", server.url, stdin=subprocess.PIPE, errors="surrogateescape")
        told = process.communicate("caf\udce9\n", timeout=30)[1]
    assert (process.returncode, told.count("\n")) == (2, 1)
    assert told.startswith("agui: a line of stdin cannot be read: 'utf-8' codec can't decode byte 0xe9")


def test_the_state_cannot_come_from_where_the_lines_come_from(agui: Agui) -> None:
    done = agui("chat", "--state", "-")
    assert done.returncode == 2
    assert "--state cannot be read from stdin" in done.stderr


# --- on a terminal


def test_a_chat_goes_on_after_a_failure_of_the_applications(on_terminal: OnTerminal, tools: str) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url, "--tools", f"{tools}:choose_once")
        terminal.await_sight(PROMPT)
        terminal.send("Hello\r")
        terminal.await_sight("You said Hello (1).", PROMPT)
        terminal.send("Again\r")
        terminal.await_sight("LookupError: no tools left (my_tools.py, line", PROMPT)
        terminal.send("/history\r")
        terminal.await_sight("you: Hello", "agent: You said Hello (1).", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_a_terminal_that_was_at_a_question_is_put_right_when_the_program_is_terminated(on_terminal: OnTerminal) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("ferry\r")
        terminal.await_sight("? Which ferry?", "line:")
        assert not terminal.is_cooked()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.finish() == 143
    assert terminal.is_cooked()
    assert terminal.output.count("\x1b[?25l") <= terminal.output.count("\x1b[?25h"), "the cursor is shown again"


def test_a_password_in_the_address_is_not_shown(on_terminal: OnTerminal) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url.replace("//", "//user:secret@") + "?token=secret")
        terminal.await_sight(f"talking with {server.url};", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert "secret" not in terminal.output


def test_on_a_terminal_a_tool_is_approved_and_another_denied(on_terminal: OnTerminal, tools: str) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url, "--tools", f"{tools}:tools")
        terminal.await_sight("/help lists the slash commands", PROMPT)
        terminal.send("mail\r")
        terminal.await_sight("The agent wants to call send_mail", '"to": "ada"', "Allow it?")
        terminal.send("y\r")
        terminal.await_sight("tool send_mail, approved by a person -> sent to ada", "It came to: sent to ada", PROMPT)
        terminal.send("mail\r")
        terminal.await_sight("Allow it?")
        terminal.send("n\r")
        terminal.await_sight("Why?")
        terminal.send("no mails today\r")
        terminal.await_sight("tool send_mail denied by a person: no mails today", "It came to: no mails today", PROMPT)
        terminal.send("/quit\r")
        assert terminal.finish() == 0
    assert terminal.output.count("\x1b[?25l") <= terminal.output.count("\x1b[?25h"), "the cursor is shown again"


def test_on_a_terminal_an_interrupt_is_answered_in_a_form(on_terminal: OnTerminal) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("ferry\r")
        terminal.await_sight("? Which ferry?", "1  B1", "line:")
        terminal.send("2\r")
        terminal.await_sight("tickets (whole number):")
        terminal.send("3\r")
        terminal.await_sight('Booked {"line": "B2", "tickets": 3}.', PROMPT)
        terminal.send("/state\r")
        terminal.await_sight('"booked": true', PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_a_ferry_is_booked_on_a_form_that_an_agent_of_pydantic_ai_sends(on_terminal: OnTerminal) -> None:
    pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")
    from support.ferry_booking import Bookings

    bookings = Bookings()
    with serve(bookings.app) as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("A ferry, please\r")
        terminal.await_sight("Name: …", "(x) At dawn", "[ Book ]", "Nothing is booked yet.", PROMPT)
        terminal.send("/fill\r")
        terminal.await_sight("Name:")
        terminal.send("\r")
        terminal.await_sight("1  At dawn", "2  At dusk", "Ferry: At dawn")
        terminal.send("\x153\r")  # Ctrl-U empties the line
        terminal.await_sight("this is none of the 2 choices", "Ferry: 3")
        terminal.send("\x152\r")
        terminal.await_sight("1  Book", "Press (empty: none):")
        terminal.send("1\r")
        terminal.await_sight("'book' cannot be pressed yet: Who is going?", "Name:")
        terminal.send("Ann\r")
        terminal.await_sight("Press (empty: none):")
        terminal.send("book\r")
        terminal.await_sight("Name: Ann", "(x) At dusk", "Booked dusk for Ann.", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert bookings.made == [("Ann", "dusk")]


def test_what_is_typed_into_a_hidden_field_is_not_shown(on_terminal: OnTerminal) -> None:
    pin = {"id": "root", "component": "TextField", "label": "Pin", "variant": "obscured", "value": {"path": "/pin"}}
    with serve(ScriptedAgent(turn(show_surface("door", [pin], {"pin": ""})))) as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("Open\r")
        terminal.await_sight("Pin: …", PROMPT)
        terminal.send("/fill door\r")
        terminal.await_sight("Pin:")
        terminal.send("4711\r")
        terminal.await_sight(PROMPT)
        terminal.send("/surfaces\r")
        terminal.await_sight("Pin: ••••", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert "4711" not in terminal.output


def test_a_failed_run_leaves_the_chat_open_and_can_be_tried_again(on_terminal: OnTerminal) -> None:
    async def moody(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text(f"Half {len(input.messages)}"), RunErrorEvent(message="overloaded"))

    async def recovered(input: RunAgentInput) -> AsyncIterator[Step]:
        users = sum(isinstance(message, UserMessage) for message in input.messages)
        yield turn(text(f"Said {users} time."))

    with serve(ScriptedAgent(moody, recovered)) as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("Hello\r")
        terminal.await_sight("Half 1", "agui: overloaded", "/retry continues from here", PROMPT)
        terminal.send("/retry\r")
        terminal.await_sight("Said 1 time.", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_a_line_that_is_typed_while_the_agent_works_steers_the_run(on_terminal: OnTerminal) -> None:
    gate = Gate()

    async def planner(input: RunAgentInput) -> AsyncIterator[Step]:
        prompts = [message.content for message in input.messages if message.role == "user"]
        yield turn(text("Museums, "), gate, text("monuments.")) if len(prompts) == 1 else turn(text(f"Got {prompts}."))

    with serve(ScriptedAgent(planner)) as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("Plan a trip\r")
        terminal.await_sight("Museums,")
        terminal.send("No museums.\n/state\n")
        terminal.await_sight("the agent gets this when it has come to a stop: No museums.")
        gate.open()
        terminal.await_sight("Got ['Plan a trip', 'No museums.'].", "{}", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_ctrl_c_stops_the_run_that_is_going_on_and_leaves_where_none_is(on_terminal: OnTerminal) -> None:
    gate = Gate()

    async def slow(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text("Once upon "), gate, text("a time"))

    with serve(ScriptedAgent(slow)) as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("Tell me a story\r")
        terminal.await_sight("Once upon")
        terminal.press_ctrl_c()
        terminal.await_sight("agui: stopped", "/retry continues from here", PROMPT)
        assert server.disconnected.wait(10)
        terminal.send("half a prompt\x03")
        terminal.await_sight("half a prompt", PROMPT)
        terminal.send("\x03")
        assert terminal.finish() == 130
    assert terminal.output.endswith("agui: stopped\r\n")
    assert "Traceback" not in terminal.output


@pytest.mark.parametrize("key", [True, False])
def test_ctrl_c_at_a_question_stops_the_run_and_the_question_comes_again(
    on_terminal: OnTerminal, tools: str, key: bool
) -> None:
    with served() as server:
        terminal = on_terminal("chat", server.url, "--tools", f"{tools}:tools")
        terminal.await_sight(PROMPT)
        terminal.send("mail\r")
        terminal.await_sight("Allow it?")
        if key:
            terminal.send("\x03")
        else:
            terminal.press_ctrl_c()
        terminal.await_sight("agui: stopped", "/retry continues from here", PROMPT)
        terminal.send("/retry\r")
        terminal.await_sight("The agent wants to call send_mail", "Allow it?")
        terminal.send("y\r")
        terminal.await_sight("It came to: sent to ada", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert "Traceback" not in terminal.output


def test_what_a_tool_had_done_before_the_run_was_stopped_is_not_done_again(
    on_terminal: OnTerminal, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    path = tmp_path / "counting_tools.py"
    path.write_text(
        f"""
from pathlib import Path
from agui_client import tool

@tool
def pay() -> str:
    with Path({str(log)!r}).open("a") as log:
        log.write("paid once\\n")
    return "paid"

@tool(approval="always")
def send() -> str:
    return "sent"

tools = [pay, send]
""",
        "utf-8",
    )

    async def agent(input: RunAgentInput) -> AsyncIterator[Step]:
        results = sorted(str(message.content) for message in input.messages if isinstance(message, ToolMessage))
        if results:
            yield turn(text(f"Results: {', '.join(results)}."))
        else:
            yield turn(tool_call("pay", {}), tool_call("send", {}))

    with serve(ScriptedAgent(agent)) as server:
        terminal = on_terminal("chat", server.url, "--tools", f"{path}:tools")
        terminal.await_sight(PROMPT)
        terminal.send("Pay, and tell them\r")
        terminal.await_sight("Allow it?")
        terminal.send("\x03")
        terminal.await_sight("tool pay -> paid", "agui: stopped", PROMPT)
        terminal.send("/retry\r")
        terminal.await_sight("The agent wants to call send", "Allow it?")
        terminal.send("y\r")
        terminal.await_sight("Results: paid, sent.", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert log.read_text("utf-8") == "paid once\n"


@pytest.mark.parametrize(
    ("typed", "told", "is_killed"),
    [("receipt 7", "receipt 7", True), ("receipt 7", "receipt 7", False), ("", "was given up", False)],
    ids=["killed", "timed out", "timed out, and nobody knows"],
)
def test_the_result_of_a_tool_that_was_stopped_is_asked_for_once(
    on_terminal: OnTerminal, tmp_path: Path, typed: str, told: str, *, is_killed: bool
) -> None:
    kept, documents = tmp_path / "kept.json", list[ConversationSnapshot]()

    @tool(timeout=None if is_killed else 0.01)
    async def pay() -> str:
        documents.append(first.snapshot())
        if not is_killed:
            await anyio.sleep_forever()
        return "paid"

    async def agent(input: RunAgentInput) -> AsyncIterator[Step]:
        results = [str(message.content) for message in input.messages if isinstance(message, ToolMessage)]
        yield turn(text(f"Results: {', '.join(results)}.") if results else tool_call("pay", {}))

    with serve(ScriptedAgent(agent)) as server:
        first = HttpAgent(server.url, tools=[pay])
        first.run_agent_sync("Pay")
        kept.write_text((documents[0] if is_killed else first.snapshot()).model_dump_json(), "utf-8")
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send(f"/load {kept}\r")
        terminal.await_sight("loaded", PROMPT)
        terminal.send("And now?\r")
        terminal.await_sight("The tool pay {} was stopped; it may", "Its result, if you know it (Enter: unknown):")
        terminal.send(f"{typed}\r")
        terminal.await_sight("Results:", told, PROMPT)
        terminal.send("And then?\r")
        terminal.await_sight("Results:", told, PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert terminal.output.count("it may have had its effect or not") == 1


def test_a_question_of_a_loaded_conversation_is_asked_before_anything_is_sent(
    on_terminal: OnTerminal, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    with served() as server:
        agent = HttpAgent(server.url)
        agent.run_agent_sync("ferry")
        kept.write_text(agent.snapshot().model_dump_json(), "utf-8")
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send(f"/load {kept}\r")
        terminal.await_sight(
            "loaded 1 messages", "waits for an answer: Which ferry?", "/retry continues from here", PROMPT
        )
        terminal.send("And a coffee\r")
        terminal.await_sight("? Which ferry?", "line:")
        terminal.send("1\r")
        terminal.await_sight("tickets (whole number):")
        terminal.send("1\r")
        terminal.await_sight('Booked {"line": "B1", "tickets": 1}.', PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_a_chat_that_goes_on_with_a_thread_says_what_waits_and_retry_asks_again(
    on_terminal: OnTerminal, tmp_path: Path
) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra threads: pip install 'agui-client[threads]'")
    with served() as server:
        command = ("chat", "--threads", str(tmp_path / "kept.db"), "--thread-id", "t", server.url)
        terminal = on_terminal(*command)
        terminal.await_sight(PROMPT)
        terminal.send("ferry\r")
        terminal.await_sight("? Which ferry?", "line:")
        terminal.send("\x04")
        terminal.await_sight("Let the agent continue without an answer?")
        terminal.send("\x04")
        terminal.await_sight("line:")
        terminal.send("\x03")
        terminal.await_sight("waits for an answer: Which ferry?", "/retry continues from here", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
        terminal = on_terminal(*command)
        terminal.await_sight(
            "thread t continues", "waits for an answer: Which ferry?", "/retry continues from here", PROMPT
        )
        terminal.send("/retry\r")
        terminal.await_sight("? Which ferry?", "line:")
        terminal.send("1\r")
        terminal.await_sight("tickets (whole number):")
        terminal.send("1\r")
        terminal.await_sight('Booked {"line": "B1", "tickets": 1}.', PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0


def test_what_was_typed_is_remembered_from_chat_to_chat(on_terminal: OnTerminal, tmp_path: Path) -> None:
    with served() as server:
        for keys, answer in (("Hello\r", "You said Hello (1)."), ("\x1b[A\r", "You said Hello (1).")):
            terminal = on_terminal("chat", server.url)
            terminal.await_sight(PROMPT)
            terminal.send(keys)
            terminal.await_sight(answer, PROMPT)
            terminal.send("\x04")
            assert terminal.finish() == 0
    history = tmp_path / "agui" / "chat_history"
    assert history.stat().st_mode & 0o077 == 0, "only its owner reads it"


def test_a_chat_does_without_a_history_that_cannot_be_kept(on_terminal: OnTerminal, tmp_path: Path) -> None:
    history = tmp_path / "agui" / "chat_history"
    history.mkdir(parents=True)
    with served() as server:
        terminal = on_terminal("chat", server.url)
        terminal.await_sight(PROMPT)
        terminal.send("Hello\r")
        terminal.await_sight("You said Hello (1).", PROMPT)
        history.rmdir()
        history.parent.rmdir()
        terminal.send("Again\r")
        terminal.await_sight("You said Again (3).", PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert history.stat().st_mode & 0o077 == 0, "only its owner reads it"


def test_without_a_url_the_demo_agent_answers(on_terminal: OnTerminal) -> None:
    terminal = on_terminal("chat", is_hurried=True)
    terminal.await_sight("talking with http://127.0.0.1:", PROMPT)
    terminal.send("Please book\r")
    terminal.await_sight("A day in Oslo", "Buy two ferry tickets for 94 NOK?", "Allow it? [y]es, [n]o:")
    terminal.send("y\r")
    terminal.await_sight("two tickets for the 12:10 ferry", PROMPT)
    terminal.send("\x04")
    assert terminal.finish() == 0


def test_a_language_model_in_this_process_is_talked_with_and_calls_tools(
    agui: Agui, tools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai.models.ollama", reason="needs pydantic-ai: pip install 'agui-client[llm]'")
    with model_server() as model:
        monkeypatch.setenv("OLLAMA_BASE_URL", model.url)
        options = ("-H", "X-Team: a", "--timeout", "5", "--tools", f"{tools}:get_weather")
        done = agui("chat", "--model", "ollama:llama3.2", *options, stdin="Weather?\n")
    assert (done.returncode, done.stdout) == (0, "18 degrees.\n")
    assert "18 degrees in Oslo" in json.dumps(model.requests[-1][1])


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--model", "openai:gpt-5"), 2, "OPENAI_API_KEY"),
        (("--model", "nothing"), 2, "'nothing' cannot be used"),
        (("http://127.0.0.1:1/", "--model", "openai:gpt-5"), 2, "a URL or --model, not both"),
        (("--model", "ollama:llama3.2"), 1, "ollama serve"),
    ],
)
def test_a_language_model_that_cannot_be_used_is_an_error_that_says_why(
    agui: Agui, arguments: tuple[str, ...], code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai.models.ollama", reason="needs pydantic-ai: pip install 'agui-client[llm]'")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("OLLAMA_BASE_URL", f"http://127.0.0.1:{port}/v1")
    done = agui("chat", *arguments, stdin="Hi\n")
    assert done.returncode == code
    assert told in done.stderr
