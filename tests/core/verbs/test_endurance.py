"""Fifty runs in sequence, well and badly ended, leave nothing.

tests/programs/benchmarks/endurance.py does thousands.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Generator

import pytest

from agui_client import HttpAgent
from programs.benchmarks.census import growth, take_census
from programs.benchmarks.endings import PROGRAM
from programs.benchmarks.endurance import MODES, endure
from programs.benchmarks.loopback import loopback_server
from programs.benchmarks.measure import child_environment
from support.leaks import nothing_left_behind_sync

_RUNS = 50
_WARM_UP = 10


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """Where a server in a process of its own ends runs as it is asked to."""
    with loopback_server(PROGRAM) as address:
        yield address


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("mode", MODES)
def test_runs_in_sequence_end_as_they_must_and_leave_nothing_behind(url: str, mode: str) -> None:
    with nothing_left_behind_sync():
        course = endure(mode, url, _RUNS, _WARM_UP)
    assert course.findings == []
    each = (_RUNS + _WARM_UP) // 10
    assert course.outcomes == Counter(
        {
            "success": 4 * each,
            "aborted": 3 * each,
            "IncompleteRunError": each,
            "HTTPStatusError": each,
            "RunFailedError": each,
        }
    )


def test_what_has_grown_is_named() -> None:
    before = take_census()
    with socket.create_server(("127.0.0.1", 0)):
        kept = HttpAgent("http://agent.test/")
        after = take_census()
    agents, sockets = (before.counts[name] for name in ("agui_client._core.agent.http_agent.HttpAgent", "open sockets"))
    assert {
        f"agui_client._core.agent.http_agent.HttpAgent grew from {agents} to {agents + 1}",
        f"open sockets grew from {sockets} to {sockets + 1}",
    } <= set(growth(before, after))
    assert kept.messages == []


_COUNTING = """
import asyncio
from programs.benchmarks.beginnings import cycles
from programs.benchmarks.loopback import loopback_server
with loopback_server("programs.benchmarks.beginnings") as url:
    print(*asyncio.run(cycles(url)))
"""


def test_a_run_leaves_few_objects_to_the_garbage_collector() -> None:
    # In an interpreter of its own: observers of every call are there where a test has imported OpenTelemetry.
    command = [sys.executable, "-c", _COUNTING]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60, check=True)
    left, bare = map(float, done.stdout.split())
    assert 0 < bare <= left <= 150
