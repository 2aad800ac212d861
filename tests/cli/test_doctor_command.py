"""`agui doctor`: reports, exit codes, and what is shown of an examination that is stopped."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ag_ui.core import CustomEvent, RunAgentInput

from agui_client.testing import Gate, ScriptedAgent, Server, Step, serve, text, turn
from cli.conftest import Agui, Start
from support.waiting import LIMIT, until_sync

HELLO = ("--only", "hello")


@pytest.fixture(scope="module")
def healthy() -> Iterator[Server]:
    with serve(ScriptedAgent(turn(text("Fine.")))) as server:
        yield server


@pytest.fixture(scope="module")
def ill() -> Iterator[Server]:
    with serve(ScriptedAgent([turn(text("Hm.")), CustomEvent(name="late", value=None)])) as server:
        yield server


def test_a_healthy_server_leads_to_exit_code_0_and_its_profile(agui: Agui, healthy: Server) -> None:
    done = agui("doctor", healthy.url, "--skip", "parallel", "--skip", "leave")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{healthy.url}: no findings (")
    assert "  + plain runs " in done.stdout
    assert done.stderr.startswith(f"asking {healthy.url} for about 6 short runs, at most 11\n  hello: passed (")


def test_findings_lead_to_exit_code_1_from_fail_on_upward(agui: Agui, ill: Server) -> None:
    done = agui("doctor", ill.url, *HELLO)
    assert (done.returncode, "ERROR LIFE-3: event 5 (CUSTOM)" in done.stdout) == (1, True)


def test_reports_go_to_files_and_one_of_them_to_stdout(agui: Agui, ill: Server, tmp_path: Path) -> None:
    junit, page = tmp_path / "doctor.xml", tmp_path / "doctor.html"
    done = agui("doctor", ill.url, *HELLO, "--json", "-", "--junit", str(junit), "--html", str(page))
    assert done.returncode == 1
    assert [finding["rule"] for finding in json.loads(done.stdout)["findings"]] == ["LIFE-3"]
    failures = [each.get("type") for each in ElementTree.parse(junit).iter("failure")]
    assert (failures, "LIFE-3" in page.read_text("utf-8")) == (["LIFE-3"], True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Missing argument 'URL'"),
        (("URL", "--only", "heart"), "there is no probe 'heart'"),
        (("URL", "-H", "Bearer sesame"), "a header reads 'Name: value', in ASCII"),
        (("URL", "--json", "-", "--html", "-"), "only one of --json, --junit and --html can be written to stdout"),
        (("URL", "--prompt", "error= "), "the prompt 'error' is not text"),
        (("URL", "--html", "/no/such/place.html"), "/no/such/place.html cannot be written: "),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_sent(
    agui: Agui, healthy: Server, arguments: tuple[str, ...], complaint: str
) -> None:
    done = agui("doctor", *(healthy.url if each == "URL" else each for each in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "sesame" not in done.stderr


@pytest.mark.parametrize(
    "only",
    [[], ["--only", "malformed"], ["--only", "newer"]],
    ids=["all", "what is no run", "a run that is judged by a second one"],
)
def test_nothing_at_the_address_leads_to_exit_code_2_without_credentials_in_sight(agui: Agui, only: list[str]) -> None:
    headers = ["-H", "Authorization: Bearer sesame"]
    done = agui("doctor", "http://user:sesame@127.0.0.1:1/x?key=sesame", *headers, *only)
    assert (done.returncode, done.stdout.partition(" (")[0]) == (
        2,
        "http://127.0.0.1:1/x: no server takes runs of this client at this address",
    )
    assert "skipped: no connection to http://127.0.0.1:1/x: nothing listens there" in done.stderr
    assert not any(outcome in done.stderr + done.stdout for outcome in ("passed", "findings", "DOC-1"))
    assert "sesame" not in done.stdout + done.stderr


def test_ctrl_c_prints_what_was_found_so_far(start: Start, tmp_path: Path) -> None:
    gate, page = Gate(), tmp_path / "doctor.html"
    asked: list[RunAgentInput] = []

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        asked.append(input)
        yield turn(text("Hm.")) if len(asked) == 1 else gate
        yield CustomEvent(name="late", value=None)

    with serve(ScriptedAgent(answer)) as server:
        process = start("doctor", server.url, "--html", str(page))
        until_sync(lambda: len(asked) == 2, 6 * LIMIT)  # a program has to start
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT)
        gate.open()
    assert (process.returncode, stderr.splitlines()[-1]) == (130, "agui: stopped")
    assert ": 1 error; the examination was stopped before its end (" in stdout
    assert "LIFE-3" in page.read_text("utf-8")
