"""`run_many(on=...)`: rows on the workers of a real Dask cluster."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from ag_ui.core import RunAgentInput

from agui_client import AbstractAgent, ApprovalRequest, FunctionAgent, HttpAgent, UsageError, tool
from agui_client.batch import ClusterError, RowError, RowResult, run_many
from agui_client.testing import Gate, ScriptedAgent, Step, faults, serve, serve_bytes, sse, text, turn
from support.waiting import LIMIT, until_sync

distributed: Any = pytest.importorskip("distributed", reason="needs Dask: pip install distributed")

ROWS = [{"id": f"r{number}", "prompt": f"row {number}"} for number in range(12)]


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A client of a cluster of two processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(text(f"You asked: {input.messages[-1].content}"))


def plain(results: Any) -> list[tuple[str, str, RowError | None, int, dict[str, int]]]:
    ordered: list[RowResult] = sorted(results, key=lambda done: done.number)
    return [(done.key, done.text, done.error, done.attempts, dict(done.usage)) for done in ordered]


ANSWERS = [(row["id"], f"You asked: {row['prompt']}", None, 1, dict[str, int]()) for row in ROWS]


def test_workers_give_the_results_that_this_process_gives(dask: Any, tmp_path: Path) -> None:
    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        if input.messages[-1].content == "row 3":
            raise LookupError("nothing there")
        async for step in echo(input):
            yield step

    with serve(ScriptedAgent(answer)) as server:
        agent = HttpAgent(server.url)
        here = plain(run_many(agent, ROWS, key="id", journal=tmp_path / "here.jsonl"))
        there = plain(run_many(agent, ROWS, key="id", journal=tmp_path / "there.jsonl", on=dask))
    assert there == here
    assert (there[0][1], there[3][2] is not None) == ("You asked: row 0", True)
    assert len((tmp_path / "there.jsonl").read_text().splitlines()) == len(ROWS)


def make() -> AbstractAgent[Any]:
    """Make an agent that names its process; a row "kill" is the end of that."""

    async def answer(input: RunAgentInput) -> AsyncIterator[Any]:
        if input.messages[-1].content == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        async for event in ScriptedAgent(turn(text(str(os.getpid())))).run(input):
            yield event

    return FunctionAgent(answer)


@pytest.fixture(autouse=True, scope="module")
def carried_by_value() -> Iterator[None]:
    """Send the functions of this module to workers, which do not find it."""
    cloudpickle: Any = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_function_makes_the_agent_in_each_process(dask: Any) -> None:
    processes = {done.text for done in run_many(make, ROWS, on=dask)}
    assert processes == {str(each) for each in dask.run(os.getpid).values()}
    (done,) = run_many({"a": make}, ["b"])
    assert (done.agent, done.text) == ("a", str(os.getpid()))
    with pytest.raises(UsageError, match="a function that makes an agent returns one, not a int"):
        run_many(lambda: 5, ["a"])  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="a worker cannot make the agent: UsageError: a function that makes"):
        list(run_many(lambda: 5, ["a"], on=dask))  # type: ignore[arg-type]


def test_more_rows_run_at_once_than_workers_have_threads_and_leaving_the_loop_stops_them(dask: Any) -> None:
    gate = Gate()

    async def wait(input: RunAgentInput) -> AsyncIterator[Step]:
        if input.messages[-1].content != "row 0":
            yield gate
        yield turn(text("done"))

    agent = ScriptedAgent(wait)
    with serve(agent) as server:
        for done in run_many(HttpAgent(server.url), ROWS, at_once=6, on=dask):
            assert done.key == "1"
            until_sync(lambda: len(agent.inputs) == 7, 3 * LIMIT)
            break
        # The connections are closed, although the agent goes on.
        until_sync(lambda: server.disconnects == 6)
        gate.open()


def results_after_a_loss(on: Any, journal: Path) -> tuple[list[RowResult], Counter[str]]:
    """Run rows; return the results, and how often each was asked for, if the process of the first row is killed."""
    asked, killed = Counter[str](), set[int]()

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        prompt, state = str(input.messages[-1].content), cast("dict[str, int]", input.state)
        asked[prompt] += 1
        if not killed:
            killed.add(state["process"])
            os.kill(state["process"], signal.SIGKILL)
        if state["process"] not in killed:
            yield turn(text(f"You asked: {prompt}"))

    with serve(ScriptedAgent(answer)) as server:
        url = server.url

        def make() -> AbstractAgent[Any]:
            return HttpAgent(url, initial_state={"process": os.getpid()})

        return list(run_many(make, ROWS, key="id", at_once=6, on=on, journal=journal)), asked


def test_the_rows_of_a_lost_worker_are_run_again_and_are_in_the_journal_once(dask: Any, tmp_path: Path) -> None:
    results, asked = results_after_a_loss(dask, tmp_path / "out.jsonl")
    assert plain(results) == ANSWERS
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == sorted(row["id"] for row in ROWS)
    assert (min(asked.values()), max(asked.values())) == (1, 2)


@pytest.mark.skipif("AGUI_BATCH_KILLS" not in os.environ, reason="waits for workers to start again: AGUI_BATCH_KILLS=1")
def test_a_row_that_loses_two_workers_has_failed(dask: Any) -> None:
    results = plain(run_many(make, ["a", "kill", "b"], at_once=1, on=dask))
    assert [error and error.type for _, _, error, _, _ in results] == [None, "WorkerLostError", None]


def test_a_server_that_asks_to_come_back_holds_back_the_rows_of_all_workers(dask: Any) -> None:
    replies = [faults.status(429, retry_after=1), faults.status(429, retry_after=1)]
    moments: list[float] = []

    def reply(request: Any) -> Any:
        moments.append(time.monotonic())
        return replies.pop() if replies else faults.healthy(sse(turn(text("now"))))

    with serve_bytes(reply) as server:
        results = list(run_many(HttpAgent(server.url), ["a", "b", "c", "d"], at_once=2, on=dask))
    assert [done.text for done in results] == ["now"] * 4
    assert sorted(done.attempts for done in results) == [1, 1, 2, 2]
    assert moments[2] - moments[0] > 0.9


def test_an_agent_that_cannot_be_carried_is_refused_with_the_part_that_is_to_blame(dask: Any) -> None:
    lock = threading.Lock()

    @tool
    def count() -> int:
        """Count."""
        return 1

    def approve(request: ApprovalRequest) -> bool:
        with lock:
            return True

    def refusal(agent: Any, **options: Any) -> str:
        with pytest.raises(UsageError, match="give a function that makes it") as refused:
            run_many(agent, ["a"], on=dask, **options)
        return str(refused.value)

    url = "http://localhost:1/"
    assert "cannot pickle '_thread.lock' object (in options)" in refusal(HttpAgent(url, approve=approve))
    assert "(in tools)" in refusal(HttpAgent(url, tools=[count]))
    assert "(in tools)" in refusal(HttpAgent(url), tools=[count])
    assert "(in transport)" in refusal(HttpAgent(url, http_client=httpx.AsyncClient()))


def test_credentials_are_not_in_what_a_cluster_may_log(dask: Any) -> None:
    agent = HttpAgent("http://someone:secret@localhost:1/", headers={"Authorization": "Bearer secret"})
    tasks: list[str] = []
    submit = dask.submit

    def note(*arguments: Any, **options: Any) -> Any:
        tasks.append(repr((arguments, options)))
        return submit(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask, "submit", note)
        (done,) = run_many(agent, ["a"], on=dask, retry=0)
    assert done.error is not None
    assert done.error.type == "ConnectError"
    assert "secret" not in repr((tasks, done))


def test_a_place_that_is_no_cluster_is_refused() -> None:
    for place in (5, "tcp://localhost:8786", distributed):
        with pytest.raises(UsageError, match=r"on= takes a distributed\.Client"):
            run_many(ScriptedAgent(echo), ["a"], on=place)


def test_a_cluster_that_is_gone_ends_the_batch_and_not_its_rows(dask: Any, tmp_path: Path) -> None:
    journal = tmp_path / "out.jsonl"
    with distributed.Client(dask.scheduler.address) as client:
        batch = run_many(make, ROWS, key="id", on=client, journal=journal)
    with pytest.raises(ClusterError, match="the client of the cluster is closed"):
        list(batch)
    assert journal.read_bytes() == b""
