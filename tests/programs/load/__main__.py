"""`python -m tests.programs.load --streams 500`: what threads cost a busy proxy, and a deploy its callers.

A proxy of two uvicorn workers is asked by many callers at once, each for turns with a tool and some seconds of text:
first without threads, then with threads in PostgreSQL, then with a deploy in the middle, which starts two new workers
on the same socket and stops the old ones with SIGTERM. At the end, all that callers saw is looked for in the threads.
It needs PostgreSQL.

Callers, agent and database share the processors with the proxy, and what they use is printed, too. A turn takes longer
where the processors are busy; then compare CPU times. With `--words` and `--seconds`, choose a pace that the proxy
holds with a margin for the deploy: `--streams 2000 --seconds 120 --ramp 60 --stop-within 60` for two processors.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import psutil

from agui_client.store import Store

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from programs.benchmarks.concurrency import allow_many_files
from programs.benchmarks.loopback import loopback_server
from programs.load.callers import Caller, Seen, call
from support.postgres import postgres_server

_SECONDS = 60
_WORKERS = 2


class Proxy:
    """A server with two workers on a socket of the program's.

    Args:
        listener: The socket.
        settings: The environment variables that it reads.
    """

    def __init__(self, listener: socket.socket, settings: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="agui-load-")
        self._ready = Path(self._folder.name)
        command = [
            sys.executable,
            "-m",
            "uvicorn",
            "--factory",
            "programs.load.proxy:make_app",
            "--workers",
            str(_WORKERS),
        ]
        command += ["--fd", str(listener.fileno()), "--log-level", "warning"]
        # A worker that is kept waiting by others on a busy machine is not dead.
        command += ["--timeout-worker-healthcheck", str(_SECONDS)]
        paths = os.pathsep.join((str(Path(__file__).parents[2]), str(Path(__file__).parents[3])))
        environment = {**os.environ, **settings, "LOAD_READY": str(self._ready), "PYTHONPATH": paths}
        self._process = subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()])

    def wait(self) -> None:
        """Wait until both workers serve."""
        give_up = time.monotonic() + _SECONDS
        while len(list(self._ready.iterdir())) < _WORKERS:
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def workers(self) -> list[psutil.Process]:
        """Return its processes."""
        whole = psutil.Process(self._process.pid)
        return [whole, *whole.children(recursive=True)]

    def stop(self) -> float:
        """Stop it with SIGTERM; return the seconds that it took."""
        began = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_SECONDS)
        self._folder.cleanup()
        return time.perf_counter() - began


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:4]) for each in processes)


def _spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "none" if not seconds else f"{seconds[0]:.2f} s"
    cuts = quantiles(seconds, n=100)
    return f"p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, longest {max(seconds):.2f} s ({len(seconds)})"


async def _phase(name: str, place: str, port: int, options: Any, proxy: Proxy, database: psutil.Process) -> Seen:
    """Have the callers ask for a turn each; print what it cost."""
    seen = Seen()
    callers = [Caller(port, place, seen) for _ in range(options.streams)]
    workers, servers = proxy.workers(), [database, *database.children(recursive=True)]
    this = psutil.Process()
    rest = [this, *(each for each in this.children() if "programs.load.upstream" in each.cmdline())]
    before, began = (_cpu(workers), _cpu(servers), _cpu(rest)), time.perf_counter()
    await call(callers, seen, ramp=options.ramp, turns=options.turns)
    took = time.perf_counter() - began
    servers = [database, *database.children(recursive=True)]
    used = [_cpu(each) - then for each, then in zip((workers, servers, rest), before, strict=True)]
    turns = options.turns * options.streams
    print(f"--- {name}: {options.streams} streams, {took:.0f} s, {100 * sum(used) / took:.0f} % of a processor")
    print(f"CPU of the workers: {1000 * used[0] / turns:.1f} ms per turn")
    print(f"CPU of PostgreSQL, about: {1000 * used[1] / turns:.1f} ms per turn")
    print(f"CPU of the callers and the agent: {1000 * used[2] / turns:.1f} ms per turn")
    _tell(seen, options)
    return seen


def _tell(seen: Seen, options: Any) -> None:
    over = [each - options.seconds for each in seen.turns]
    print(f"a turn beyond its {options.seconds:g} s: {_spread(over)}")
    print(f"until the first event: {_spread(seen.first)}")
    for failure in sorted(set(seen.failures)):
        print(f"FAILED {seen.failures.count(failure)} times: {failure[:300]}")


async def _deploy(port: int, options: Any, old: Proxy, start: Any) -> tuple[Seen, Proxy]:
    """Have the callers ask, and put a new server in the old one's place when half of the texts have come."""
    seen = Seen()
    callers = [Caller(port, "/stored", seen) for _ in range(options.streams)]
    asking = asyncio.create_task(call(callers, seen, ramp=options.ramp, turns=options.turns))
    await asyncio.sleep(options.ramp + options.seconds / 4)
    new = await start()
    took = await asyncio.to_thread(old.stop)
    await asking
    print(f"--- with threads, and a deploy in the middle: {options.streams} streams")
    print(f"the old server stopped after {took:.1f} s")
    print(f"from the end of a run to the next one's first event: {_spread(seen.again)}")
    _tell(seen, options)
    return seen, new


async def _lost(url: str, seen: Seen) -> list[str]:
    """Return what callers saw that is not in the threads."""
    lost = list[str]()
    texts = dict[tuple[str, str], str]()
    results = dict[tuple[str, str], str]()
    async with Store(url) as store:
        threads = store.threads
        for thread_id in {key[0] for key in (*seen.texts, *seen.results)}:
            found = await threads.get(thread_id)
            for message in found.conversation.messages if found is not None else ():
                if message.role == "tool":
                    results[thread_id, message.tool_call_id] = str(message.content)
                elif message.role == "assistant":
                    texts[thread_id, message.id] = message.content or ""
    lost += [f"text {key}" for key, each in seen.texts.items() if not texts.get(key, "").startswith(each)]
    lost += [f"result {key}" for key, each in seen.results.items() if results.get(key) != each]
    return lost


@contextmanager
def _listening() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        listener.set_inheritable(True)
        yield listener


async def _load(options: Any) -> int:
    os.environ |= {"LOAD_WORDS": str(options.words), "LOAD_SECONDS": str(options.seconds)}
    with postgres_server() as server, loopback_server("programs.load.upstream") as upstream, _listening() as listener:
        url, port = f"postgresql://{server.address}", listener.getsockname()[1]
        database = psutil.Process(server._process.pid)
        settings = {"LOAD_UPSTREAM": upstream, "LOAD_DATABASE": url, "LOAD_STOP_WITHIN": str(options.stop_within)}

        async def start() -> Proxy:
            """Start a server, and wait until both of its workers serve."""
            made = Proxy(listener, settings)
            await asyncio.to_thread(made.wait)
            return made

        proxy = await start()
        try:
            await _phase(
                "warming up",
                "/plain",
                port,
                argparse.Namespace(**{**vars(options), "streams": 20, "ramp": 1, "turns": 1}),
                proxy,
                database,
            )
            phases = [
                await _phase("without threads", "/plain", port, options, proxy, database),
                await _phase("with threads", "/stored", port, options, proxy, database),
            ]
            seen, proxy = await _deploy(port, options, proxy, start)
            phases.append(seen)
        finally:
            proxy.stop()
        lost = [*await _lost(url, phases[1]), *await _lost(url, phases[2])]
        shown = sum(len(each.texts) + len(each.results) for each in phases[1:])
        print(f"--- {len(lost)} of {shown} texts and results that callers saw are lost: {lost[:3]}")
        failures = sum(len(each.failures) for each in phases)
        return int(bool(lost or failures))


def main() -> int:
    """Read the options, and measure; 1 if anything failed or was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.load", description=__doc__)
    parser.add_argument("--streams", type=int, default=500, help="callers at once")
    parser.add_argument("--ramp", type=float, default=8.0, help="the seconds in which they begin")
    parser.add_argument("--turns", type=int, default=2, help="the turns of each")
    parser.add_argument("--words", type=int, default=20, help="the words of a text, each of which is an event")
    parser.add_argument("--seconds", type=float, default=10.0, help="the seconds that a text lasts")
    parser.add_argument(
        "--stop-within", type=float, default=5.0, help="the seconds in which the old server ends its runs"
    )
    allow_many_files()
    return asyncio.run(_load(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
