"""`agui inspect URL`: runs pass through as they are, are recorded, and are shown on a page while they go on."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from agui_client import HttpAgent, HTTPStatusError, IncompleteRunError
from agui_client._cli.inspection_server import InspectorApp
from agui_client.inspector._live_rows import LiveRows
from agui_client.recording import Recording, record
from agui_client.testing import Gate, Reply, ScriptedAgent, serve, serve_bytes, state, text, turn
from support.browser import Chromium
from support.programs import Program
from support.waiting import LIMIT

if TYPE_CHECKING:
    from playwright.sync_api import Page

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]
STORY = turn(text("18 degrees."), state({"city": "Oslo"}))


@contextmanager
def inspected(url: str, path: Path) -> Generator[str]:
    """Serve the inspector of an agent while the block lasts; gives its address."""
    recorder = record(path)
    with serve(InspectorApp(url, recorder)) as front:
        yield front.url
    recorder.close()


def test_a_run_passes_through_and_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serve(ScriptedAgent(STORY)) as remote, inspected(remote.url, path) as front:
        agent = HttpAgent(front, thread_id="mine")
        result = agent.run_agent_sync("Weather?")
    assert (result.text, result.state, result.warnings) == ("18 degrees.", {"city": "Oslo"}, [])
    (exchange,) = Recording.read(path).exchanges
    assert exchange.input.thread_id == "mine"
    assert exchange.request.agent.url == remote.url
    assert [each.status for each in exchange.responses] == [200]
    assert exchange.end is not None
    assert exchange.end.reason == "ended"


def test_what_breaks_the_protocol_passes_through_as_it_came(tmp_path: Path) -> None:
    frames: list[dict[str, Any]] = [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "novelty": None},
        {"type": "NOVELTY", "a": [1, None]},
        {"type": "TEXT_MESSAGE_END", "messageId": "nobody's"},
    ]
    body = b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)
    request: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [], "state": {}, "tools": [], "context": []}
    with serve_bytes(Reply([body])) as remote, inspected(remote.url, tmp_path / "run.jsonl") as front:
        answer = httpx.post(front, json={**request, "forwardedProps": {}})
    sent = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert sent == frames
    assert [line.event for line in Recording.read(tmp_path / "run.jsonl").exchanges[0].events] == frames


def test_credentials_pass_on_and_are_not_recorded(tmp_path: Path) -> None:
    path, page = tmp_path / "run.jsonl", ""
    with serve_bytes(Reply([b""])) as remote:
        url = remote.url.replace("http://", "http://user:swordfish@") + "?key=swordfish"
        with inspected(url, path) as front:
            with pytest.raises(IncompleteRunError):
                HttpAgent(front, headers={"X-Api-Key": "sesame"}).run_agent_sync("Hi")
            page = httpx.get(front).text
    (request,) = remote.requests
    assert (request.path, request.headers["x-api-key"]) == ("/?key=swordfish", "sesame")
    assert request.headers["authorization"].startswith("Basic ")
    assert not [secret for secret in ("swordfish", "sesame") if secret in path.read_text("utf-8") + page]


def test_a_refusal_passes_through_with_its_status(tmp_path: Path) -> None:
    refusal = Reply([b'{"why": "no"}'], status=401, content_type="application/json")
    with serve_bytes(refusal) as remote, inspected(remote.url, tmp_path / "run.jsonl") as front:  # noqa: SIM117
        with pytest.raises(HTTPStatusError) as refused:
            HttpAgent(front).run_agent_sync("Hi")
    assert refused.value.status_code == 401
    assert '{"why": "no"}' in refused.value.body
    with inspected("http://127.0.0.1:9/", tmp_path / "other.jsonl") as front, pytest.raises(HTTPStatusError) as failed:
        HttpAgent(front).run_agent_sync("Hi")
    assert failed.value.status_code == 502
    (exchange,) = Recording.read(tmp_path / "other.jsonl").exchanges
    assert exchange.end is not None
    assert exchange.end.reason == "failed"


def test_the_page_connects_to_its_own_server_only(tmp_path: Path) -> None:
    with inspected("http://agent.test/", tmp_path / "run.jsonl") as front:
        page = httpx.get(front)
    assert page.headers["cache-control"] == "no-store"
    assert "connect-src 'self'" in page.text


INPUT: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}}


def post(address: str, path: str) -> int:
    """Post a run to a path exactly as it is written, and return the status of the answer."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=LIMIT)
    with closing(connection):
        connection.request("POST", path, json.dumps(INPUT), {"content-type": "application/json"})
        return connection.getresponse().status


@pytest.mark.parametrize(
    ("asked", "posted"),
    [
        ("/", "/base/agent"),
        ("/x", "/base/agent/x"),
        ("/connect", "/base/agent/connect"),
        ("/a%2Fb%20c", "/base/agent/a%2Fb%20c"),
        ("/%3Fadmin=1", "/base/agent/%3Fadmin=1"),
        ("/%23x", "/base/agent/%23x"),
        ("/x%0d%0aHost:evil", "/base/agent/x%0d%0aHost:evil"),
        ("//evil.test/x", "/base/agent//evil.test/x"),
        ("/../../admin", None),
        ("/x/%2e%2E/%2e./admin", None),
        ("/..%2f..%2fadmin", None),
        ("/%252e%252e/admin", None),
        ("/..;a/admin", None),
        ("/..%5cadmin", None),
    ],
)
def test_a_path_stays_below_the_address_of_the_agent(asked: str, posted: str | None, tmp_path: Path) -> None:
    with (
        serve_bytes(Reply(status=404)) as remote,
        inspected(f"{remote.url}base/agent", tmp_path / "run.jsonl") as front,
    ):
        assert post(front, asked) == (400 if posted is None else 404)
        assert [request.path for request in remote.requests] == ([] if posted is None else [posted])


@pytest.mark.parametrize("path", ["", "rows"])
def test_a_run_does_not_wait_for_the_page_of_a_long_recording(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reading, is_over = Event(), Event()

    def catch_up(rows: LiveRows) -> None:
        is_reading.set()
        assert is_over.wait(LIMIT)

    monkeypatch.setattr(LiveRows, "catch_up", catch_up)
    with ThreadPoolExecutor() as pool, serve(ScriptedAgent(STORY)) as remote:  # noqa: SIM117
        with inspected(remote.url, tmp_path / "run.jsonl") as front, httpx.Client(timeout=LIMIT) as client:
            view = pool.submit(lambda: client.stream("GET", f"{front}{path}").__enter__().close())
            assert is_reading.wait(LIMIT)
            assert HttpAgent(front, timeout=LIMIT).run_agent_sync("Weather?").text == "18 degrees."
            is_over.set()
            view.result(LIMIT)


def test_the_page_follows_a_run_while_it_goes_on(browser: Chromium, tmp_path: Path) -> None:
    gate = Gate()

    def look(page: Page) -> tuple[str, str, str]:
        page.get_by_text("live", exact=True).wait_for()
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(HttpAgent(front).run_agent_sync, "Weather?")
            try:
                page.locator("#messages .message.assistant", has_text="Well,").wait_for()
                going_on = page.locator("#messages .message.assistant").inner_text()
            finally:
                gate.open()
            page.locator("#rows").get_by_text("RUN_FINISHED").wait_for()
            page.locator("#messages .message.assistant", has_text="18 degrees.").wait_for()
            return going_on, page.locator("#facts").inner_text(), running.result(LIMIT).text

    script = turn(text("Well,"), gate, text("18 degrees."))
    with serve(ScriptedAgent(script)) as remote, inspected(remote.url, tmp_path / "run.jsonl") as front:
        (going_on, facts, answer), complaints = browser.visit(front, look)
    assert "18 degrees" not in going_on
    assert facts.startswith("1 request · 9 events")
    assert answer == "18 degrees."
    assert complaints == []


def test_a_page_that_is_opened_between_two_runs_follows_the_second(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> str:
        page.get_by_text("live", exact=True).wait_for()
        earlier = page.locator("#messages .message.assistant").inner_text()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(agent.run_agent_sync, "And now?").result(LIMIT)
        page.locator("#messages .message.assistant", has_text="Rain.").wait_for()
        return earlier

    script = ScriptedAgent(STORY, turn(text("Rain.")))
    with serve(script) as remote, inspected(remote.url, tmp_path / "run.jsonl") as front:
        agent = HttpAgent(front)
        agent.run_agent_sync("Weather?")
        earlier, complaints = browser.visit(front, look)
    assert "18 degrees." in earlier
    assert complaints == []


def test_the_command_serves_until_ctrl_c_and_writes_the_page(start: Start, tmp_path: Path) -> None:
    page, path = tmp_path / "page.html", tmp_path / "run.jsonl"
    with serve(ScriptedAgent(STORY)) as remote:
        process = start("inspect", remote.url, "--port", "0", "--out", str(page), "--record", str(path))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith(f" passes runs on to {remote.url}, and shows them in a browser, until Ctrl-C\n")
        front = line.split()[0]
        assert httpx.get(front, headers={"host": "evil.test"}).status_code == 403
        for origin in ("https://evil.test", "http://localhost.evil.test", "null"):
            refused = httpx.post(front, json={}, headers={"origin": origin})
            assert (refused.status_code, httpx.get(front, headers={"origin": origin}).status_code) == (403, 403)
        assert httpx.post(front, json={}, headers={"origin": "http://localhost:3000"}).status_code == 422
        assert HttpAgent(front).run_agent_sync("Weather?").text == "18 degrees."
        with httpx.stream("GET", f"{front}rows?after=0") as rows:  # a browser that is still open
            assert next(rows.iter_lines()).startswith('data: {"after":0,"rows":[')
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
    assert b'"delta":"degrees."' in page.read_bytes()
    assert b'"live":false' in page.read_bytes()
    assert len(Recording.read(path).exchanges) == 1


def test_a_port_that_is_taken_names_the_option_that_there_is(agui: Agui) -> None:
    with serve_bytes(b"") as taken:
        done = agui("inspect", "http://agent.test/", "--port", taken.url.rstrip("/").rpartition(":")[2])
    assert done.returncode == 2
    assert "Address already in use; name another with --port; see agui inspect --help" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("http://", "--port", "0"), "http://"),
        (("run.jsonl", "--port", "0"), "--port and --record are for a URL"),
        (("run.jsonl", "--record", "other.jsonl"), "--port and --record are for a URL"),
    ],
)
def test_what_cannot_be_inspected_is_an_error_in_one_sentence(
    agui: Agui, arguments: tuple[str, ...], told: str
) -> None:
    done = agui("inspect", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr
