"""`agui run` and `agui events`: text and events on stdout, the rest on stderr, and a telling exit code."""

from __future__ import annotations

import errno
import io
import json
import math
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent, RunFinishedCancelledOutcome, TextPart, TokenUsage, UserMessage

from agui_client import attach
from agui_client.a2ui import show_surface
from agui_client.testing import (
    Answer,
    Gate,
    Reply,
    Request,
    ScriptedAgent,
    Step,
    interrupt,
    pause,
    reasoning,
    serve,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from support.programs import Program

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]

STORY = turn(
    reasoning("Look\nit up"),
    text("Let me look."),
    tool_call("get_weather", {"city": "Tromsø"}),
    tool_result("4 degrees\nand rain"),
    state({"city": "Tromsø"}),
    {"type": "FUTURE_EVENT"},
    text("4 degrees.\n"),
    usage=[TokenUsage(model="m-1", input_tokens=12)],
)
TOLD = (
    'tool get_weather({"city": "Tromsø"})\n'
    "tool get_weather -> 4 degrees and rain\n"
    "warning: unknown event type FUTURE_EVENT dropped (PROC-7)\n"
)


def half_of(request: Request) -> bytes:
    """A run that answers the request, up to the middle of its text."""
    input = RunAgentInput.model_validate(request.json())
    return sse(turn(text("Half a run")), input=input).partition(b'data: {"type":"TEXT_MESSAGE_END"')[0]


def test_a_page_of_a_tool_is_its_address_and_the_text_of_its_result(agui: Agui) -> None:
    result = {"content": [{"type": "text", "text": "A board\nat Oslo."}, {"type": "image", "data": "AAAA"}]}
    content = {"resourceUri": "ui://board/page", "serverHash": "h", "result": result, "toolInput": {}}
    pages = [
        {"type": "ACTIVITY_SNAPSHOT", "messageId": key, "activityType": "mcp-apps", "content": each}
        for key, each in {"a": content, "b": {**content, "result": None}, "c": {"resourceUri": 5}}.items()
    ]
    with serve(ScriptedAgent(turn(*pages, text("There.")))) as server:
        done = agui("run", server.url, "Show Oslo")
    assert (done.stdout, done.stderr) == ("There.\n", "page ui://board/page: A board at Oslo.\npage ui://board/page\n")


def test_the_answer_goes_to_stdout_and_everything_else_to_stderr(agui: Agui) -> None:
    with serve(ScriptedAgent(STORY)) as server:
        done = agui("run", server.url, "Weather in Tromsø?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Let me look.\n\n4 degrees.\n", TOLD)


def test_a_form_of_the_agent_is_written_with_how_to_fill_it_in(agui: Agui, tmp_path: Path) -> None:
    recording = str(tmp_path / "run.jsonl")
    form: list[dict[str, Any]] = [
        {"id": "root", "component": "Column", "children": ["name", "go"]},
        {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
        {"id": "go", "component": "Button", "child": "words", "action": {"event": {"name": "go"}}},
        {"id": "words", "component": "Text", "text": "Go"},
    ]
    with serve(ScriptedAgent(turn(text("Please:"), show_surface("trip", form, {"name": "Ann"})))) as server:
        done, as_json = agui("run", server.url, "Hi", "--record", recording), agui("run", server.url, "Hi", "--json")
    assert done.stdout == "Please:\n── trip\nName: Ann\n[ Go ]\n"
    assert done.stderr == "`agui chat` lets you fill in forms of the agent, and press their buttons\n"
    assert agui("replay", recording).stdout == done.stdout
    assert json.loads(as_json.stdout)["messages"][-1]["activityType"] == "a2ui-surface"


def test_text_is_written_as_it_arrives(start: Start) -> None:
    gate = Gate()
    with serve(ScriptedAgent(turn(text("Hello "), gate, text("Ada")))) as server:
        process = start("run", server.url, "Hi")
        assert process.stdout is not None
        assert process.stdout.read(6) == "Hello "
        gate.open()
        assert process.communicate(timeout=30) == ("\n\nAda\n", "")


def test_verbose_tells_reasoning_state_usage_and_timings(agui: Agui) -> None:
    with serve(ScriptedAgent(STORY)) as server:
        done = agui("run", "-v", server.url, "Weather?")
    lines = done.stderr.splitlines()
    assert done.stdout == "Let me look.\n\n4 degrees.\n"
    assert lines[0] == "thought: Look it up"
    assert 'state: {"city": "Tromsø"}' in lines
    assert "usage: m-1: 12 tokens in, ? out" in lines
    assert lines[-1].startswith("timings: connected ")


def test_json_is_the_result_with_the_protocols_names_inside(agui: Agui) -> None:
    with serve(ScriptedAgent(STORY)) as server:
        done = agui("run", "--json", "--thread-id", "t-1", server.url, "Weather?")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, TOLD)
    assert result["text"] == "4 degrees.\n"
    assert result["thread_id"] == "t-1"
    assert result["state"] == {"city": "Tromsø"}
    assert result["usage"] == [{"model": "m-1", "inputTokens": 12}]
    assert result["new_messages"][2]["toolCalls"][0]["function"]["name"] == "get_weather"
    assert [warning["rule"] for warning in result["warnings"]] == ["PROC-7"]
    assert "error" not in result


def test_files_and_urls_are_attached_to_the_prompt(agui: Agui, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"png")
    producer = ScriptedAgent(turn(text("Nice.")))
    with serve(producer) as server:
        done = agui("run", server.url, "Look", "--attach", str(photo), "--attach", "https://files.test/plan.pdf")
        absent = agui("run", server.url, "Look", "--attach", str(tmp_path / "photo"))
        (tmp_path / "photo").write_bytes(b"?")
        refused = agui("run", server.url, "Look", "--attach", str(tmp_path / "photo"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Nice.\n", "")
    content = producer.inputs[0].messages[0].content
    assert content == [TextPart(text="Look"), attach(photo), attach("https://files.test/plan.pdf")]
    assert (absent.returncode, refused.returncode) == (2, 2)
    assert "No such file or directory" in absent.stderr
    assert "cannot be guessed" in refused.stderr
    assert len(producer.inputs) == 1


def test_json_of_a_failed_run_has_the_error_and_what_arrived(agui: Agui) -> None:
    with serve(ScriptedAgent(turn(text("Half"), RunErrorEvent(message="over\nloaded", code="busy")))) as server:
        done = agui("run", "--json", server.url, "Hi")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "agui: over loaded (code busy)\n")
    assert result["error"] == {"type": "RunFailedError", "message": "over\nloaded (code busy)", "code": "busy"}
    assert result["text"] == "Half"


def test_events_are_one_json_object_a_line_as_an_application_sees_them(agui: Agui) -> None:
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi", "futureProp": 1}
    with serve(ScriptedAgent(turn(chunk))) as server:
        done = agui("events", server.url, "Hi", "--thread-id", "t")
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    run_id = events[0]["runId"]
    assert done.returncode == 0
    assert events == [
        {"type": "RUN_STARTED", "threadId": "t", "runId": run_id, "protocolVersion": "1.0"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": run_id},
    ]
    assert done.stderr.startswith("agui: warning: unknown property /futureProp ")
    assert done.stderr.endswith(" (PROC-8)\n")


def test_events_are_written_as_they_arrive(start: Start) -> None:
    gate = Gate()
    with serve(ScriptedAgent(turn(gate))) as server:
        process = start("events", server.url, "Hi")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "RUN_STARTED"
        gate.open()
        rest, _ = process.communicate(timeout=30)
        assert json.loads(rest)["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("verb", ["run", "events"])
@pytest.mark.parametrize(
    ("script", "code", "last_line"),
    [
        (turn(RunErrorEvent(message="no")), 1, "agui: no"),
        (text("no start"), 3, "agui: event 0 (TEXT_MESSAGE_START): First event must be"),
        (turn(outcome=interrupt("Proceed?")), 4, "waiting for an answer to 'interrupt-1': Proceed?"),
        (turn(tool_call("pick", {})), 4, "waiting for the result of pick (call-1)"),
        (turn(outcome=RunFinishedCancelledOutcome(type="cancelled")), 4, "the agent cancelled the run"),
    ],
)
def test_the_exit_code_says_how_the_run_ended(agui: Agui, verb: str, script: Step, code: int, last_line: str) -> None:
    with serve(ScriptedAgent(script)) as server:
        done = agui(verb, server.url, "Hi")
    assert done.returncode == code
    if verb == "run" or code in {1, 3}:
        assert done.stderr.splitlines()[-1].startswith(last_line)


def cut_short(request: Request) -> Reply:
    return Reply([half_of(request)], end="cut")


def without_an_end(request: Request) -> Reply:
    return Reply([half_of(request)])


NO_AGENT = "check the path of the address: a server responds there, but no agent"
ASK_AGAIN = "what arrived is kept; ask again to begin a new run"
UNUSABLE: list[tuple[Answer, str, str, bool]] = [
    (cut_short, "the connection to the agent broke in the middle of its response", ASK_AGAIN, True),
    (without_an_end, "the agent ended its response before the run was over", ASK_AGAIN, True),
    (Reply([b"<html>"], content_type="text/html"), "responded with 200 OK and text/html instead of ", NO_AGENT, True),
    (
        Reply([b"who?"], status=401, content_type="text/plain"),
        "responded with 401 Unauthorized: who?",
        "give creden",
        False,
    ),
    (Reply([b"no"], status=404, content_type="text/plain"), "responded with 404 Not Found", NO_AGENT, False),
    (Reply([b"no"], status=409, content_type="text/plain"), "responded with 409 Conflict", "if a run is in", False),
    (
        Reply([b"no"], status=502, content_type="text/plain"),
        "responded with 502 Bad",
        "the server failed; its log",
        True,
    ),
    (Reply([b"no"], status=503, content_type="text/plain"), "responded with 503 Service", "the server is busy", False),
    (Reply(end="reset"), "broke: ReadError", "the server's log says why; it may have begun the run", True),
]


@pytest.mark.parametrize(("reply", "happened", "advice", "has_ids"), UNUSABLE)
def test_what_is_no_whole_event_stream_exits_with_3_and_says_what_happened_then_what_to_do_then_the_ids(
    agui: Agui, reply: Answer, happened: str, advice: str, has_ids: bool
) -> None:
    with serve_bytes(reply) as server:
        done = agui("run", server.url, "Hi", "--thread-id", "t-1")
    run_id = server.requests[0].json()["runId"]
    first, second, *rest = done.stderr.splitlines()
    assert done.returncode == 3
    assert first.startswith("agui: ")
    assert happened in first
    assert second.startswith(f"      {advice}")
    assert len(rest) == has_ids
    assert all(line.startswith(f"      thread t-1, run {run_id}") for line in rest)


def test_nobody_listening_exits_with_3_and_says_what_to_do(agui: Agui) -> None:
    with serve_bytes(b"") as server:
        gone = server.url
    done = agui("run", gone, "Hi")
    assert (done.returncode, done.stdout) == (3, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("agui: ")
    assert gone in first
    assert second == "      start the agent, or check the address; `agui demo --serve` starts one to try"


def test_a_silent_agent_is_given_up_after_the_timeout_which_the_message_names(agui: Agui) -> None:
    with serve_bytes(Reply([b": hi\n\n"], end="stall")) as server:
        done = agui("run", "--timeout", "0.2", server.url, "Hi")
        assert done.returncode == 3
        assert "wait longer with --timeout" in done.stderr
        assert "Timeouts" not in done.stderr
        assert server.disconnected.wait(5)


def test_prompt_headers_state_and_thread_reach_the_agent(agui: Agui, tmp_path: Path) -> None:
    saved = tmp_path / "state.json"
    saved.write_text('{"city": "Tromsø"}', "utf-8")
    options = ("-H", "Authorization: Bearer t:1", "-H", "X-Team:a", "--state", str(saved), "--thread-id", "t-1")
    with serve_bytes(sse(turn())) as server:
        agui("run", *options, server.url, "-", stdin="From\na pipe\n")
    request = server.requests[0]
    asked = RunAgentInput.model_validate(request.json())
    assert (request.headers["authorization"], request.headers["x-team"]) == ("Bearer t:1", "a")
    assert (asked.thread_id, asked.state) == ("t-1", {"city": "Tromsø"})
    assert [message.content for message in asked.messages if isinstance(message, UserMessage)] == ["From\na pipe"]


def test_headers_come_from_files_and_from_the_environment_and_the_command_line_has_the_last_word(
    agui: Agui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, more = tmp_path / "headers", tmp_path / "more"
    kept.write_text("Authorization: Bearer t:1\n\nX-Team: a\n", "utf-8")
    more.write_text("X-Team: b\r\n", "utf-8")
    monkeypatch.setenv("AGUI_HEADERS", f"x-team: c\nX-Place: here\n@{kept}")
    with serve_bytes(sse(turn()), sse(turn())) as server:
        agui("run", server.url, "Hi")
        agui("run", server.url, "Hi", "-H", f"@{more}", "-H", "authorization: Basic e")
    names = ("authorization", "x-team", "x-place")
    assert [[request.headers[name] for name in names] for request in server.requests] == [
        ["Bearer t:1", "a", "here"],
        ["Basic e", "b", "here"],
    ]


def test_the_address_comes_from_the_environment_unless_one_is_given(
    agui: Agui, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(ScriptedAgent(*[turn(text("here"))] * 2)) as server, serve(ScriptedAgent(turn(text("there")))) as other:
        monkeypatch.setenv("AGUI_URL", server.url)
        assert agui("run", "Hi").stdout == "here\n"
        assert agui("run", other.url, "Hi").stdout == "there\n"
        assert agui("chat", stdin="Hi\n").stdout == "here\n"
        assert agui("run").stderr == "agui: Missing argument 'PROMPT'; see agui run --help\n"
    monkeypatch.setenv("AGUI_URL", "user:secret@localhost")
    said = "agui: Invalid value for 'URL': this is not an HTTP address; see agui run --help\n"
    assert agui("run", "Hi").stderr == said


def test_the_state_can_come_from_stdin(agui: Agui) -> None:
    agent = ScriptedAgent(turn())
    with serve(agent) as server:
        done = agui("events", "--state", "-", server.url, "Hi", stdin="[1, 2]")
    assert done.returncode == 0
    assert agent.inputs[0].state == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "Missing argument 'URL'; give one, or set AGUI_URL; see agui run --help"),
        (["run", "localhost:8000", "Hi"], "did you mean http://localhost:8000?"),
        (["run", "localhost:8000/?token=secret", "Hi"], "did you mean http://localhost:8000/?;"),
        (["run", "user:secret@localhost:8000", "Hi"], "this is not an HTTP address;"),
        (["run", "ftp://user:secret@localhost/", "Hi"], "this is not an HTTP address;"),
        (["run", "http://h", "Hi", "-H", "Bearer secret"], "a header reads 'Name: value', in ASCII"),
        (["run", "http://h", "Hi", "-H", "X: ø"], "a header reads 'Name: value', in ASCII"),
        (["run", "http://h", "Hi", "-H", "@nowhere"], "the headers of @nowhere cannot be read: nowhere: No such file"),
        (["run", "http://h"], "Missing argument 'PROMPT'; see agui run --help"),
        (["run", "Hi"], "Missing argument 'URL'; give one, or set AGUI_URL; see agui run --help"),
        (["run", "http://h", "Hi", "there"], "there are too many arguments; put the prompt into quotes"),
        (["events", "http://h", "Hi", "--state", "nowhere.json"], "'nowhere.json' does not exist"),
        (["run", "http://h", "Hi", "--state", "-"], "--state - is not JSON"),
        (["run", "http://h", "-", "--state", "-"], "cannot both be read from stdin"),
        (["run", "http://h", "Hi", "--timeout", "0"], "not in the range"),
        (["walk"], "No such command 'walk'; see agui --help"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_sentence(agui: Agui, arguments: list[str], sentence: str) -> None:
    done = agui(*arguments, stdin="{")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agui: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
    assert "secret" not in done.stderr


def test_the_scheme_of_an_address_may_be_written_in_capitals(agui: Agui) -> None:
    with serve(ScriptedAgent(turn(text("Hi")))) as server:
        assert agui("run", server.url.replace("http", "HTTP"), "Hi").stdout == "Hi\n"


ANSWER_OF_MANY_SCRIPTS = "Größe: 5 € → naïve — 日本 🎉"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", r"Gr\xf6\xdfe: 5 \u20ac \u2192 na\xefve \u2014 \u65e5\u672c \U0001f389"),
        ("latin-1", r"Größe: 5 \u20ac \u2192 naïve \u2014 \u65e5\u672c \U0001f389"),
        ("utf-8", ANSWER_OF_MANY_SCRIPTS),
    ],
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_characters_that_an_encoding_lacks_are_escaped(
    agui: Agui, monkeypatch: pytest.MonkeyPatch, command: str, encoding: str, shown: str
) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    monkeypatch.setattr(sys, "stdout", screen)
    with serve(ScriptedAgent(turn(text(ANSWER_OF_MANY_SCRIPTS)))) as server:
        done = agui(command, server.url, *(["Hi"] if command == "run" else []), stdin="Hi\nHo\n")
    assert done.returncode == 0
    assert shown in screen.buffer.getvalue().decode(encoding)


def test_a_state_that_cannot_be_read_is_told_in_a_sentence(
    agui: Agui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep, lost = tmp_path / "deep.json", tmp_path / "lost.json"
    deep.write_text("[" * 100_000, "utf-8")
    lost.touch()

    def fail(path: Path, *encoding: str) -> str:
        if path == lost:
            raise OSError(errno.EIO, "Input/output error")
        return path.read_bytes().decode()

    monkeypatch.setattr(Path, "read_text", fail)
    for path, told in (
        (deep, "is not JSON: it nests deeper than 200 levels"),
        (lost, "cannot be read: Input/output error"),
    ):
        done = agui("run", "http://h", "Hi", "--state", str(path))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"agui: --state {path} {told}" in done.stderr


def test_a_prompt_that_is_not_text_is_told_in_a_sentence(start: Start) -> None:
    process = start("run", "http://h", "-", stdin=subprocess.PIPE, errors="surrogateescape")
    told = process.communicate("caf\udce9", timeout=30)[1]
    assert process.returncode == 2
    assert told.startswith("agui: PROMPT cannot be read: 'utf-8' codec can't decode byte 0xe9")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("arguments", [["run"], ["events"], ["--help"], ["demo"]])
def test_a_full_disk_is_told_in_a_sentence(start: Start, arguments: list[str]) -> None:
    with serve(ScriptedAgent(turn(text("Hi")))) as server, Path("/dev/full").open("w") as full:
        asked = [server.url, "Hi"] if arguments[0] in {"run", "events"} else []
        process = start(*arguments, *asked, stdout=full)
        told = process.communicate(timeout=30)[1]
    assert (process.returncode, told) == (3, "agui: No space left on device\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no shell that closes streams")
@pytest.mark.parametrize(("closed", "told"), [("2>&- <&-", "Hi\n"), (">&- 2>&- <&-", "")])
def test_a_stream_that_was_closed_before_is_done_without(closed: str, told: str) -> None:
    with serve(ScriptedAgent(turn(text("Hi"), tool_call("f", {}), tool_result("")))) as server:
        program = [sys.executable, "-m", "agui_client", "run", server.url, "Hi"]
        shell = ["sh", "-c", f'exec "$0" "$@" {closed}', *program]
        done = subprocess.run(shell, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, told)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["run", "events"])
def test_ctrl_c_ends_the_run_at_once_and_without_a_traceback(start: Start, verb: str) -> None:
    with serve(ScriptedAgent(turn(text("Hello world"), pause(math.inf)))) as server:
        process = start(verb, server.url, "Hi")
        assert process.stdout is not None
        process.stdout.read(len("Hello world"))
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=30)
        assert (process.returncode, told) == (130, "agui: stopped\n")
        assert verb == "events" or rest == "\n", "the line that was begun is ended"
        assert server.disconnected.wait(5)


def test_a_reader_that_goes_away_ends_the_run_quietly(start: Start) -> None:
    async def endless(input: RunAgentInput) -> AsyncIterator[Step]:
        while True:
            yield turn(text("line\n" * 1000, chunk=1000))

    with serve(ScriptedAgent(endless)) as server:
        process = start("events", server.url, "Hi")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == ""
        assert server.disconnected.wait(5)


@pytest.mark.requirement("SEC-8")
def test_a_terminal_never_gets_an_agents_control_characters(on_terminal: Callable[..., Any], agui: Agui) -> None:
    script = turn(
        text("\x1b[31mred\x07\x9b1m\u061c\u200f\u2028!", chunk=100),
        tool_call("f\x1b[2J", '{"\x1b]0;x\x07": 1}'),
        tool_result(""),
    )
    with serve(ScriptedAgent(script)) as server:
        terminal = on_terminal("run", server.url, "Hi")
        assert terminal.finish() == 0
        assert terminal.output == '[31mred1m !\r\ntool f[2J({"]0;x": 1})\r\ntool f[2J ->\r\n'
        assert agui("run", server.url, "Hi").stdout == "\x1b[31mred\x07\x9b1m\u061c\u200f\u2028!\n"


@pytest.mark.requirement("SEC-8")
def test_nor_do_its_errors_its_warnings_and_its_questions_reach_a_terminal_as_codes(
    on_terminal: Callable[..., Any],
) -> None:
    evil = "\x1b[2J\x9b1m\u202e\x07"
    scripts = [
        turn({"type": f"NEWS{evil}"}, {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a", evil: 1}),
        turn(RunErrorEvent(message=evil, code=evil)),
        turn(outcome=interrupt(evil, interrupt_id=evil)),
        turn({"type": "TEXT_MESSAGE_END", "messageId": evil}),
        turn({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": f"/{evil}"}]}),
    ]
    page = Reply([evil.encode()], status=500, content_type="text/plain", headers={"X-Why": "no"})
    with serve(ScriptedAgent(*scripts)) as server, serve_bytes(page) as broken:
        for url in [server.url] * len(scripts) + [broken.url]:
            terminal = on_terminal("run", "-v", url, "Hi")
            terminal.finish()
            written = terminal.output.replace("\r\n", "")
            assert written
            assert [each for each in written if not each.isprintable()] == []


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("verb", [["events"], ["run", "--json"]])
def test_on_a_terminal_json_is_escaped_where_it_would_be_obeyed(
    on_terminal: Callable[..., Any], agui: Agui, verb: list[str]
) -> None:
    said = "\x1b[2J\x9b1m\u202e Tromsø"
    with serve(ScriptedAgent(turn(text(said, chunk=100)))) as server:
        terminal = on_terminal(*verb, server.url, "Hi")
        assert terminal.finish() == 0
        assert '"\\u001b[2J\\u009b1m\\u202e Tromsø"' in terminal.output
        assert "\u202e Tromsø" in agui(*verb, server.url, "Hi").stdout
