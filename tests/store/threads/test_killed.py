"""A program that is killed at any moment: its thread opens again, nothing runs twice, nothing that was told is lost.

`AGUI_THREADS_KILLS=200 pytest -n 0 tests/store/threads/test_killed.py` kills as often, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")
from pydantic_ai import Agent
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agui_client import HttpAgent
from agui_client.store import Store
from agui_client.testing import serve
from support.offline_model import Heard, OfflineModel, Saying, returned
from support.postgres import postgres_server
from support.programs import Program
from support.waiting import LIMIT, until_sync

PROGRAM = str(Path(__file__).parents[2] / "support" / "killed_chat.py")
KILLS = int(os.environ.get("AGUI_THREADS_KILLS", "2"))
LINES = 13
"""The lines that a program writes that nobody kills, about."""


class Agency:
    """pydantic-ai's server with an offline model that calls two tools, and all that it was told."""

    def __init__(self) -> None:
        self.told: dict[str, list[dict[str, Any]]] = {}
        self._numbers, self._lock = count(1), threading.Lock()
        self._agent = Agent(OfflineModel(self._say).model)
        self.app = Starlette(routes=[Route("/", self._answer, methods=["POST"])])

    def _say(self, given: Sequence[Heard]) -> Saying:
        if results := returned(given):
            return f"I was told: {json.dumps(results)}"
        if not str(given[-1][1]).startswith("turn"):
            return "I go on."
        number = next(self._numbers)
        return [("look", f"look-{number}", '{"place": "Oslo"}'), ("pay", f"pay-{number}", f'{{"amount": {number}}}')]

    async def _answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        with self._lock:
            self.told.setdefault(body["threadId"], []).extend(body["messages"])
        return await AGUIAdapter.dispatch_request(request, agent=self._agent)


def ledger_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger, without one that was cut off."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def kill_once(random: Random, database: str, url: str, thread_id: str, ledger: Path) -> None:
    """Run the program on a thread, and kill it at a random moment."""
    before, lines = len(ledger_of(ledger)), random.randrange(LINES)
    verb = random.choice(["sync", "async"])
    with Program(PROGRAM, database, url, thread_id, str(ledger), verb) as program:
        until_sync(lambda: len(ledger_of(ledger)) - before > lines or program.poll() is not None, 3 * LIMIT)
        time.sleep(random.uniform(0, 0.03))
        program.kill()
        program.wait(LIMIT)


def check(database: str, agency: Agency, thread_id: str, ledger: Path, url: str) -> Counter[str]:
    """Hold the thread against all that was written down, and write down the results that it shows now."""
    found: Counter[str] = Counter()
    lines = ledger_of(ledger)
    called = [line["id"] for line in lines if line["what"] == "called"]
    assert len(called) == len(set(called)), "a function was called twice"
    with Store(database) as store:
        threads = store.threads
        block = threads.open(thread_id, HttpAgent(url), wait=3 * LIMIT)
        with block as agent:
            messages = {message.id: message.model_dump(by_alias=True, exclude_none=True) for message in agent.messages}
            calls = {each["id"]: each for message in messages.values() for each in message.get("toolCalls", ())}
            results = {each["toolCallId"]: each for each in messages.values() if each["role"] == "tool"}
            for told in agency.told.get(thread_id, ()):
                assert messages[told["id"]].get("content") == told.get("content"), "a message that was sent is lost"
            values = {line["id"]: line["value"] for line in lines if line["what"] == "returned"}
            for line in lines:
                if line["what"] == "opened":
                    now = {each: results[each]["content"] for each in line["results"] if each in results}
                    assert now == line["results"], "a result that was shown is lost"
                    found["results shown again"] += len(now)
            with ledger.open("a") as file:
                shown = {each: results[each]["content"] for each in results}
                file.write(json.dumps({"what": "opened", "results": shown}) + "\n")
            unknown = {call.id for call in agent.unknown_tool_calls}
            for line in lines:
                if line["what"] == "asked":
                    assert json.loads(calls[line["id"]]["function"]["arguments"]) == line["arguments"]
                elif line["what"] == "answered":
                    assert all(each in messages for each in line["ids"])
                    assert not line["text"] or any(each.get("content") == line["text"] for each in messages.values())
            for each in called:
                if each in unknown:
                    assert each not in results
                else:
                    assert results[each]["content"] in (values.get(each), "nobody knows")
            # Some were killed after they were saved as called, and before they were.
            found["never called"] += len(unknown - set(called))
            assert set(called) <= {*unknown, *results}, "a call could be made again"
            found["unknown results"] += len(unknown)
            found["runs cut off"] += block.cut_off is not None
            found["calls that wait"] += bool(agent.pending_tool_calls)
            found["items cut short"] += bool(agent.incomplete_ids)
            found["never opened"] += not messages
    return found


def go_on(database: str, thread_id: str, url: str) -> None:
    """Go on with the conversation, as a person would."""
    with Store(database) as store, store.threads.open(thread_id, HttpAgent(url), wait=3 * LIMIT) as agent:
        result = agent.run_agent_sync("Go on")
        assert result.text
        assert agent.pending_tool_calls == []


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/threads.db"
        return
    if "AGUI_THREADS_KILLS" not in os.environ:
        pytest.skip("AGUI_THREADS_KILLS=200 kills on PostgreSQL, too")
    with postgres_server() as server:
        yield f"postgresql://{server.address}"


def test_a_killed_program_has_lost_nothing_and_does_nothing_twice(database: str, tmp_path: Path) -> None:
    agency, ledger = Agency(), tmp_path / "ledger"
    seed = int(os.environ.get("AGUI_THREADS_SEED", "1"))
    total: Counter[str] = Counter()
    with serve(agency.app) as server:
        for number in range(KILLS):
            random, thread_id = Random(seed + number), f"t{number // 4}"
            path = ledger.with_suffix(f".{thread_id}")
            kill_once(random, database, server.url, thread_id, path)
            try:
                total += check(database, agency, thread_id, path, server.url)
                if number % 4 == 3 or number == KILLS - 1:
                    go_on(database, thread_id, server.url)
            except BaseException as error:
                error.add_note(f"seed {seed + number}, thread {thread_id}, kill {number}")
                raise
    print(f"{KILLS} kills on {database.partition(':')[0]}: {dict(total)}")  # noqa: T201 - with -s
