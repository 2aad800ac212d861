"""`python -m tests.programs.interop.cuts`: answers of real servers, cut again and again, and resumed by a policy."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agui_client import AGUIError, HttpAgent, RetryPolicy
from agui_client.reconnect import Connect, DetachedRuns, ReconnectPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.cutting_proxy import CuttingProxy

from .environments import made, running, say

_CUTS = 20
_FIRST = (0.5, 3.0)
"""The shortest and the longest time for which the first answer is passed on."""
_RETRY = RetryPolicy(first_wait=0.05, max_wait=0.4)
_LIMIT = 90.0


@dataclass(frozen=True)
class Case:
    """A server, and the policy that takes up its runs; None if its threads are sent as JSON, and gone on with."""

    environment: str
    path: str
    policy: ReconnectPolicy | None
    later: tuple[float, float]
    """The shortest and the longest time of the connections behind the first one, from their beginning."""
    connect: str | None = None


_CASES: Mapping[str, Case] = {
    # These answer at once, so that only a short time cuts them.
    "agent-framework": Case("microsoft", "/detached", DetachedRuns(attempts=25), (0.0, 0.01)),
    "adk": Case("adk", "/", None, (0.0, 0.02), connect="/agents/state"),
    "copilotkit": Case(
        "mastra",
        "/copilotkit/agent/talk/run",
        Connect(attempts=25),
        (0.0, 1.5),
        connect="/copilotkit/agent/talk/connect",
    ),
}


async def _take_up(case: Case, url: str, log: Path, seed: int) -> str:
    """Have a long answer cut, and see that it is whole and that the model was asked once; return what was seen.

    In every other seed, the POST that starts the run is cut before its answer.
    """
    earlier = HttpAgent(url + case.path)
    await earlier.run_agent("hello")
    unanswered, asked = seed % 2, _asked(log)
    proxy = _proxy(url, case.later if unanswered else _FIRST, seed, unanswered)
    async with proxy.serving():
        options: dict[str, Any] = {} if case.connect is None else {"connect_url": proxy.url + case.connect}
        agent = HttpAgent(proxy.url + case.path, reconnect=case.policy, retry=_RETRY, **options)
        agent.restore(earlier.snapshot())
        begun_at = time.monotonic()
        async with agent.stream("slow") as run:
            async for _ in run:
                proxy.seconds = case.later
            result = await run.result()
        seconds_taken = time.monotonic() - begun_at
        cuts, proxy.left = _CUTS - proxy.left + unanswered, 0
        assert result.text.split() == ["so"] * 400, f"{len(result.text.split())} words of 400: {result.text[-200:]!r}"
        assert _asked(log) - asked == 1, f"the model was asked {_asked(log) - asked} times"
        assert result.warnings == [], result.warnings
        roles = [message.role for message in agent.messages]
        assert roles == ["user", "assistant"] * 2, roles
        after = await agent.run_agent("hello")
        assert "Answer 3." in after.text, after.text
    return f"{cuts} cuts, {len(result.attempts)} requests, {seconds_taken:.0f} s"


async def _go_on(case: Case, url: str, log: Path, seed: int) -> str:
    """Have a thread that comes as one JSON document cut, and go on with it when it is whole; return what was seen."""
    del log
    earlier = HttpAgent(url + case.path, connect_url=f"{url}{case.connect}")
    for prompt in ("hello", "lookup"):
        await earlier.run_agent(prompt)
    own = [(message.id, message.content) for message in earlier.messages]
    await earlier.connect_agent()
    again = [(message.id, message.content) for message in earlier.messages]
    assert again == own, f"{own} has become {again}"
    proxy, failures = _proxy(url, case.later, seed, 1), list[str]()
    async with proxy.serving():
        agent = HttpAgent(
            proxy.url + case.path, connect_url=f"{proxy.url}{case.connect}", thread_id=earlier.thread_id, retry=0
        )
        while proxy.left:
            before = agent.messages
            try:
                await agent.connect_agent()
            except AGUIError as error:
                failures.append(type(error).__name__)
                assert agent.messages == before, agent.messages
        result = await agent.connect_agent()
        told = [(message.role, message.content) for message in agent.messages]
        assert told == [(message.role, message.content) for message in earlier.messages], told
        assert result.warnings == [], result.warnings
        after = await agent.run_agent("hello")
        assert "Answer 3." in after.text, after.text
    return f"{_CUTS + 1} cuts, {len(failures)} of them seen: {', '.join(sorted({*failures}))}"


def _proxy(url: str, seconds: tuple[float, float], seed: int, unanswered: int) -> CuttingProxy:
    port = urlsplit(url).port or 0
    return CuttingProxy(port, cuts=_CUTS, seconds=seconds, seed=seed, unanswered=unanswered, at_any_moment=True)


def _asked(log: Path) -> int:
    """The number of calls of the model whose latest prompt was the long one: each prints its history."""
    lines = log.read_text(errors="replace").split("\n")
    return sum("slow" in line and line.count("hello") == 1 for line in lines)


def main() -> int:
    """Cut the answers of each server once for each seed; print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop.cuts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_CASES, default=list(_CASES), help="only these servers")
    parser.add_argument("--seeds", type=int, default=3, help="how many times each answer is cut in another way")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for name in chosen.only:
            case = _CASES[name]
            with running(case.environment, made(case.environment, root)) as (url, log):
                for seed in range(chosen.seeds):
                    story = _take_up if case.policy is not None else _go_on
                    try:
                        told = asyncio.run(asyncio.wait_for(story(case, url, log, seed), _LIMIT))
                    except Exception as error:  # of a task group of the proxy, too
                        failed += 1
                        told = f"FAIL {error!r}"
                    say(f"{name}, seed {seed}: {told}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
