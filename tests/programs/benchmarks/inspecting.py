"""The inspector's page of a long recording in Chromium: the time to open it, and the longest pause while one scrubs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agui_client.inspector import inspector_page
from agui_client.inspector._summary import summary_of
from agui_client.notebook import _elements as elements
from agui_client.notebook._recording_elements import of_recording
from agui_client.recording import Recording
from programs.benchmarks.measure import Row, best_times
from support.browser import FRAME, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

_EVENTS = 20_000
_OPEN_SECONDS, _PAUSE_SECONDS = 2.0, 0.1
_CALLS, _CALLS_SECONDS = 8_000, 5.0
_MOMENTS = 60
_SCRUB = """async (tab) => {
    const pauses = [];
    const last = page.recording.rows.length - 1;
    page.open(tab);
    for (let step = 0; step < MOMENTS; step++) {
        await FRAME;
        const began = performance.now();
        page.at = step ? (step * 7919) % last : last;
        page.showMoment();
        document.body.offsetHeight;
        pauses.push(performance.now() - began);
    }
    return pauses;
}""".replace("MOMENTS", str(_MOMENTS)).replace("FRAME", FRAME)


def long_recordings(repeat: int) -> list[Row]:
    """20 000 events in one run, and in ten; each moment counts with the best of its pauses."""
    return [row for runs in (1, 10) for row in _looked_at(runs, repeat)]


def many_calls(repeat: int) -> list[Row]:
    """8 000 calls in messages of their own, and in one message: the page, and the HTML of `result.inspect()`."""
    return [row for parent in ({}, {"parentMessageId": "m"}) for row in _called(parent, repeat)]


def _called(parent: dict[str, str], repeat: int) -> list[Row]:
    events: list[dict[str, Any]] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
    for number in range(_CALLS):
        call = {"toolCallId": f"c{number}"}
        events += [
            {"type": "TOOL_CALL_START", "toolCallName": "look", **call, **parent},
            {"type": "TOOL_CALL_ARGS", "delta": '{"a": 1}', **call},
            {"type": "TOOL_CALL_END", **call},
            {"type": "TOOL_CALL_RESULT", "messageId": f"{number}-result", "content": "{}", **call},
        ]
    events.append({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "calls.jsonl"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in _lines(1, events)), "utf-8")
        recording = Recording.read(file)
    works = {
        "page": lambda: inspector_page(recording),
        "inspect()": lambda: elements.page(of_recording(summary_of(recording), {})),
    }
    times = zip(works, best_times(repeat, *works.values()), strict=True)
    where = "one message" if parent else "messages of their own"
    return [
        Row(f"inspector, {_CALLS} calls in {where}: {name}", took / _CALLS_SECONDS, 1.0, "5 s", f"{took:.2f} s")
        for name, took in times
    ]


def _looked_at(runs: int, repeat: int) -> list[Row]:
    opened: list[float] = []
    scrubs: list[list[float]] = []
    complaints: list[str] = []

    def look(page: Page) -> None:
        """Scrub on each tab of a page that was just opened."""
        page.evaluate(FRAME)
        opened.append(page.evaluate("performance.now()") / 1000)
        scrubs.append([pause / 1000 for tab in ("messages", "state", "event") for pause in page.evaluate(_SCRUB, tab)])

    with TemporaryDirectory() as folder, chromium() as browser:
        recording, file = Path(folder) / "run.jsonl", Path(folder) / "page.html"
        recording.write_text("".join(f"{json.dumps(line)}\n" for line in _lines(runs)), "utf-8")
        file.write_bytes(inspector_page(Recording.read(recording)))
        for _ in range(repeat):
            complaints += browser.visit(file, look)[1]
    pauses = [min(each) for each in zip(*scrubs, strict=True)]
    work, size = f"inspector, {_EVENTS} events in {runs} runs", f"{len(pauses)} moments"
    return [
        Row(f"{work}: open", min(opened), _OPEN_SECONDS, "a second", f"{min(opened):.2f} s", len(complaints)),
        Row(f"{work}: scrub", max(pauses) * 10, 1.0, "0.1 s", f"{max(pauses) * 1000:.0f} ms the longest of {size}"),
    ]


def _lines(runs: int, events: Iterable[dict[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "protocol": "1.0", "package": "0", "session": "s", "time": "2026-01-01T00:00:00Z"}
    at = 0.0
    for run in range(runs):
        input: dict[str, Any] = {"threadId": "t", "runId": f"r{run}", "messages": [], "state": {"items": []}}
        request = {"request": f"s-{run}.1", "call": f"s-{run}", "at": at, "agent": {"agent_id": "a"}}
        yield {"kind": "request", **request, "input": {**input, "tools": [], "context": [], "forwardedProps": {}}}
        for event in _events(f"r{run}", _EVENTS // runs) if events is None else events:
            at += 0.01
            yield {"kind": "event", "request": f"s-{run}.1", "at": at, "event": event}
        at += 30


def _events(run: str, size: int) -> Iterator[dict[str, Any]]:
    """A run of messages, tool calls, subagents and patches of the state."""
    yield {"type": "RUN_STARTED", "threadId": "t", "runId": run}
    sent, turn = 2, 0
    while sent < size:
        turn += 1
        for event in _turn(run, turn):
            if sent < size:
                yield event
            sent += 1
    yield {"type": "RUN_FINISHED", "threadId": "t", "runId": run}


def _turn(run: str, turn: int) -> Iterator[dict[str, Any]]:
    message, call = {"messageId": f"{run}-m{turn}"}, {"toolCallId": f"{run}-c{turn}"}
    owner: dict[str, str] = {"subagentRunId": f"{run}-s{turn}"} if turn % 5 == 0 else {}
    if owner:
        yield {"type": "SUBAGENT_STARTED", "name": f"reader {turn % 3}", **owner}
    yield {"type": "TEXT_MESSAGE_START", **message, **owner}
    for number in range(40):
        yield {"type": "TEXT_MESSAGE_CONTENT", "delta": f"word {number} ", **message, **owner}
    yield {"type": "TEXT_MESSAGE_END", **message, **owner}
    yield {"type": "TOOL_CALL_START", "toolCallName": "look", **call, **owner}
    for piece in ('{"a": ', "1, ", '"b": ', "2}"):
        yield {"type": "TOOL_CALL_ARGS", "delta": piece, **call, **owner}
    yield {"type": "TOOL_CALL_END", **call, **owner}
    yield {"type": "TOOL_CALL_RESULT", "messageId": f"{call['toolCallId']}-result", "content": "{}", **call, **owner}
    item = {"op": "add", "path": "/items/-", "value": {"turn": turn, "place": "Oslo"}}
    yield {"type": "STATE_DELTA", "delta": [item, {"op": "add", "path": "/turn", "value": turn}]}
    if owner:
        yield {"type": "SUBAGENT_FINISHED", **owner}
