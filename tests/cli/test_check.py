"""`agui check`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agui_client.testing import sse

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.sse"
    path.write_bytes(sse(STARTED, FINISHED))
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.sse"
    path.write_bytes(sse(STARTED, {"type": "FUTURE", "key": "\x1b[31m"}, FINISHED, FINISHED))
    return str(path)


def test_faults_are_printed_with_file_line_event_and_remedy(agui: Agui, good: str, bad: str) -> None:
    done = agui("check", good, bad)
    assert (done.returncode, done.stderr) == (1, "")
    shown = done.stdout.splitlines()
    behind = "The run has already finished with 'RUN_FINISHED', and the producer continued without starting a new one"
    assert [line for line in shown if not line.startswith("  ")] == [
        f"{good}: no faults in 2 events",
        f"{bad}:3: warning PROC-7: unknown event type FUTURE dropped",
        f"{bad}:7: error LIFE-3: event 3 (RUN_FINISHED): {behind}",
        f"{bad}: 1 error and 1 warning in 4 events",
    ]
    assert shown[5] == '  {"type":"RUN_FINISHED","threadId":"t","runId":"r"}'
    assert shown[6] == "  fix: send nothing after RUN_FINISHED or RUN_ERROR, and each of them once"
    assert "\x1b" not in done.stdout


def test_faults_are_printed_as_json(agui: Agui, good: str, bad: str) -> None:
    assert json.loads(agui("check", "--json", good).stdout) == []
    found = json.loads(agui("check", "--json", good, bad).stdout)
    assert [(each["file"], each["rule"], each["severity"], each["line"]) for each in found] == [
        (bad, "PROC-7", "warning", 3),
        (bad, "LIFE-3", "error", 7),
    ]


def test_the_exit_code_is_that_of_the_worst_fault(agui: Agui, tmp_path: Path, good: str) -> None:
    light = tmp_path / "light.sse"
    light.write_bytes(sse(STARTED, {"type": "FUTURE"}, FINISHED))
    assert agui("check", good).returncode == 0
    assert agui("check", str(light)).returncode == 1
    assert agui("check", "--fail-on", "error", str(light)).returncode == 0


def test_stdin_is_checked_and_can_be_read_once(agui: Agui, bad: str) -> None:
    done = agui("check", "-", stdin=Path(bad).read_text(encoding="utf-8"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "-: 1 error and 1 warning in 4 events")
    twice = agui("check", "-", "-", stdin="")
    assert (twice.returncode, twice.stderr.split(";")[0]) == (2, "agui: stdin, -, can be read once only")


def test_a_stream_is_compared_with_the_input_that_it_answers(agui: Agui, good: str, tmp_path: Path) -> None:
    asked = tmp_path / "input.json"
    asked.write_text('{"threadId": "other", "runId": "r", "messages": []}', encoding="utf-8")
    done = agui("check", "--strict", "--input", str(asked), good)
    assert (done.returncode, done.stdout.split(": ")[1]) == (1, "error LIFE-12")
    asked.write_text("{}", encoding="utf-8")
    refused = agui("check", "--input", str(asked), good)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"agui: {asked} holds no RunAgentInput: Field required at /threadId\n",
    )


@pytest.mark.parametrize("given", [[], ["missing.sse"], ["--fail-on", "note", "."]], ids=["none", "missing", "option"])
def test_wrong_usage_has_exit_code_2(agui: Agui, given: list[str]) -> None:
    assert agui("check", *given).returncode == 2


@pytest.mark.parametrize(
    "content",
    [b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", b"\x89PNG\r\n\x1a\n:\0\0\0\rIHDR", b"<html>\n<body>Bad Gateway</body>\n"],
    ids=["PDF", "PNG", "HTML"],
)
def test_a_file_that_is_no_stream_is_wrong_usage(agui: Agui, good: str, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    done = agui("check", good, str(path))
    assert done.returncode == 2
    assert f"{path} is neither an event stream nor a recording" in done.stderr
