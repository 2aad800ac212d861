"""The cost of a file is in proportion to its size: recordings, reproductions, journals, conversations; also hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agui_client import AGUIError, ConversationSnapshot, HttpAgent
from agui_client.batch import run_many
from agui_client.batch._journal import Journal, read_journal
from agui_client.evaluation import Reproduction
from agui_client.inspector import inspector_page
from agui_client.recording import Recording, ReplayAgent, record
from agui_client.recording._reading import lines_of_call
from agui_client.testing import ScriptedAgent, text, turn
from support.bodies import memory_agent
from support.proportion import GROWING, Growing, Wire, body, equal, lines_of, other, stream

_VERSIONS: Wire = {"format": 1, "protocol": "1.0", "package": "0"}
_HEADER: Wire = {"kind": "header", **_VERSIONS, "session": "s", "time": "2026-01-01T00:00:00Z"}
_AT: Wire = {"request": "s-1.1", "at": 0}
_EMPTY: Wire = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}}
_SAID: Wire = {"kind": "event", **_AT, "event": {"type": "RAW", "event": 1}}


def _request(key: str, call: str = "s-1", **members: Any) -> Wire:
    empty: Wire = {**_EMPTY, "forwardedProps": {}}
    return {
        "kind": "request",
        "request": key,
        "call": call,
        "at": 0,
        "agent": {"agent_id": "a"},
        "input": empty,
        **members,
    }


def _wide(n: int) -> Wire:
    return _request("s-1.0", input={"messages": [], **{f"m{at}": 1 for at in range(n)}})


def _user(at: int) -> Wire:
    return {"id": f"u{at}", "role": "user", "content": "Hi"}


_REST: Wire = {"input": {"messages": []}}
HOSTILE: dict[str, Callable[[int], list[Wire]]] = {
    "one key for all requests": lambda n: [_request("s-1.1") for _ in range(n)],
    "events of one request": lambda n: [_request("s-1.1"), *[_SAID] * n],
    "events of lost requests": lambda n: [{**_SAID, "request": f"lost{at}"} for at in range(n)],
    "headers": lambda n: [_HEADER] * n,
    "requests": lambda n: [_request(f"s-{at}.1", f"s-{at}") for at in range(n)],
    "calls inside each other": lambda n: [_request(f"s-{at}.1", f"s-{at}", parent=f"s-{at - 1}") for at in range(n)],
    "references to a wide input": lambda n: [
        _wide(n),
        *(_request(f"s-1.{at + 1}", base="s-1.0", same=["m0"], **_REST) for at in range(n)),
    ],
    "one name again and again": lambda n: [_wide(n), _request("s-1.1", base="s-1.0", same=["m0"] * n, **_REST)],
    "all names": lambda n: [_wide(n), _request("s-1.1", base="s-1.0", same=[f"m{at}" for at in range(n)], **_REST)],
    "references to messages": lambda n: [
        _request("s-1.0", input={"messages": [_user(at) for at in range(n)]}),
        *(_request(f"s-1.{at + 1}", base="s-1.0", input={"messages": [[0, 1]] * 3}) for at in range(n)),
    ],
    "steps of one tool": lambda n: [
        _request("s-1.1"),
        *[{"kind": "tool", "call": "s-1", **_AT, "tool_call_id": "c", "name": "x", "status": "running"}] * n,
    ],
    "outcomes": lambda n: [_request("s-1.1"), *[{"kind": "outcome", "call": "s-1", **_AT, "run_id": "r"}] * n],
    "scenarios": lambda n: [{"kind": "scenario", "scenario": {"name": f"x{at}", "prompt": "Hi"}} for at in range(n)],
    "lines of a later version": lambda n: [{"kind": "later", "x": at} for at in range(n)],
}
"""The lines of recordings that no recorder writes."""
READERS: dict[str, Callable[[Path], object]] = {
    "read": Recording.read,
    "page": lambda path: inspector_page(Recording.read(path)),
    "replay": lambda path: ReplayAgent(path).run_agent_sync("Hi"),
    "call": lambda path: lines_of_call(Recording.read(path).lines, "s-1"),
    "reproduction": lambda path: Reproduction.read(path).replay(),
}
"""What reads a recording."""


def in_proportion(work: Callable[[int], Callable[[], object]], least: int = 1) -> None:
    """Hold the lines of the package that are run for n and for 4 n of something against each other."""

    def lines(n: int) -> int:
        done = work(n)

        def attempt() -> None:
            with suppress(AGUIError):
                done()

        return lines_of(attempt)

    lines(2)
    none, little, much = (lines(least + more) for more in (0, 16, 64))
    # Texts are read in pieces, whose number is rounded; what grows as a square would be at four times three.
    assert much - little <= 1.2 * 3 * (little - none) + 500


def _written(path: Path, lines: list[Wire]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    return path


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_four_times_as_long_a_hostile_recording_takes_four_times_the_work(
    hostile: Callable[[int], list[Wire]], reader: Callable[[Path], object], tmp_path: Path
) -> None:
    in_proportion(lambda n: lambda: reader(_written(tmp_path / f"{n}.jsonl", [_HEADER, *hostile(n)])))


@pytest.mark.parametrize("growing", GROWING.values(), ids=GROWING)
def test_four_times_as_much_is_recorded_replayed_and_shown_with_four_times_the_work(
    growing: Growing, tmp_path: Path
) -> None:
    def kept(n: int) -> Callable[[], None]:
        received, path = body(stream(growing, n, equal)), tmp_path / f"{n}.jsonl"

        def keep() -> None:
            path.unlink(missing_ok=True)
            with suppress(AGUIError):
                memory_agent(received).use(record(path)).run_agent_sync("Hi")
            inspector_page(Recording.read(path))
            ReplayAgent(path).run_agent_sync("Hi")

        return keep

    in_proportion(kept)


@pytest.mark.parametrize("growing", GROWING.values(), ids=GROWING)
def test_four_times_as_long_a_conversation_is_saved_and_restored_with_four_times_the_work(growing: Growing) -> None:
    def saved(n: int) -> Callable[[], None]:
        agent = memory_agent(body(stream(growing, n, other)))
        with suppress(AGUIError):
            agent.run_agent_sync("Hi")
        document = agent.snapshot().model_dump_json()
        return lambda: _restored(document)

    # Longer threads are found by tables, which their first turn makes: those are compared with each other.
    in_proportion(saved, least=56)


def _restored(document: str) -> None:
    agent = HttpAgent("http://agent/")
    agent.restore(ConversationSnapshot.model_validate_json(document))
    assert agent.snapshot().messages == agent.messages


_CALL: Wire = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_RECORD: Wire = {"tool_call_id": "c", "message_id": "a", "status": "waiting", "answered_by": "application"}
SAVED: dict[str, Callable[[int], Wire]] = {
    "messages of one id": lambda n: {"messages": [_user(0)] * n},
    "calls of one id": lambda n: {
        "messages": [{"id": f"a{at}", "role": "assistant", "toolCalls": [_CALL]} for at in range(n)]
    },
    "calls of one message": lambda n: {"messages": [{"id": "a", "role": "assistant", "toolCalls": [_CALL] * n}]},
    "results of one call": lambda n: {
        "messages": [
            {"id": "a", "role": "assistant", "toolCalls": [_CALL]},
            *({"id": f"r{at}", "role": "tool", "toolCallId": "c", "content": "x"} for at in range(n)),
        ]
    },
    "records of one call": lambda n: {
        "messages": [{"id": "a", "role": "assistant", "toolCalls": [_CALL]}],
        "tool_calls": [_RECORD] * n,
    },
    "records of lost calls": lambda n: {"tool_calls": [{**_RECORD, "tool_call_id": f"c{at}"} for at in range(n)]},
    "ids of nothing": lambda n: {"incomplete_ids": ["x"] * n, "unreceived_ids": ["x"] * n, "approved_tools": ["x"] * n},
    "interrupts": lambda n: {"pending_interrupts": [{"id": "i", "reason": "ask"}] * n},
    "kept answers": lambda n: {
        "pending_interrupts": [{"id": f"i{at}", "reason": "ask"} for at in range(n)],
        "kept_answers": [{"interruptId": f"i{at}", "status": "resolved"} for at in range(n)],
    },
}
"""Members of saved conversations that no agent saves."""


@pytest.mark.parametrize("hostile", SAVED.values(), ids=SAVED)
def test_four_times_as_long_a_hostile_conversation_takes_four_times_the_work(hostile: Callable[[int], Wire]) -> None:
    in_proportion(lambda n: lambda: _restored(json.dumps({"version": 2, "thread_id": "t", **hostile(n)})))


JOURNALS: dict[str, Callable[[bytes, int], Iterator[bytes]]] = {
    "rows": lambda line, n: (line.replace(b'"key":"row"', b'"key":"row%d"' % at) for at in range(n)),
    "one row": lambda line, n: (line for _ in range(n)),
    "damaged lines": lambda line, n: (line if not at else line[:-9] for at in range(n)),
    "blank lines": lambda line, n: (line if not at else b" " for at in range(n)),
}


@pytest.mark.parametrize("lines", JOURNALS.values(), ids=JOURNALS)
def test_four_times_as_long_a_journal_takes_four_times_the_work(
    lines: Callable[[bytes, int], Iterator[bytes]], tmp_path: Path
) -> None:
    rows = [{"key": "row", "prompt": "Hi"}]
    agent, journal = ScriptedAgent(turn(text("Hi"))), tmp_path / "journal.jsonl"
    list(run_many(agent, rows, prompt="prompt", key="key", journal=journal))
    line = journal.read_bytes().strip()
    assert b'"key":"row"' in line

    def read(n: int) -> Callable[[], None]:
        path = tmp_path / f"{n}.jsonl"
        path.write_bytes(b"\n".join(lines(line, n)) + b"\n")

        def both() -> None:
            assert read_journal(path)
            with Journal(path) as journal:
                assert journal.lines

        return both

    in_proportion(read)
