"""`python -m tests.programs.interop.mounting`: agents served under other frameworks and servers.

It makes an environment with all of them.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from agui_client import Approve, HttpAgent, RunResult

from .environments import HERE, made, say

STACKS = (
    "alone-uvicorn",
    "alone-hypercorn",
    "fastapi-uvicorn",
    "fastapi-hypercorn",
    "starlette-uvicorn",
    "litestar-uvicorn",
    "litestar-hypercorn",
    "quart-uvicorn",
    "quart-hypercorn",
    "quart_sse-hypercorn",
    "django-uvicorn",
    "django-wsgi",
    "flask-wsgi",
)
_SECONDS = 30.0


def streams(url: str, left: Path) -> str:
    """The first word is there before the agent says the second, and comments fill the silence."""
    del left
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hello"}]}
    times: dict[str, float] = {}
    with httpx.stream("POST", url, json=body, timeout=_SECONDS, trust_env=False) as response:
        assert response.status_code == 200, response.read()
        for chunk in response.iter_text():
            for word in ("Hello", "you", ": keep-alive"):
                if word in chunk:
                    times.setdefault(word, time.monotonic())
    assert times["Hello"] < times[": keep-alive"] < times["you"], times
    gap = times["you"] - times["Hello"]
    assert gap > 0.5, gap
    return f"{gap:.2f} s between words"


def approves(url: str, left: Path) -> str:
    """A tool of the server is approved by the caller."""
    del left
    agent = HttpAgent(url, timeout=_SECONDS)
    result: RunResult = agent.run_agent_sync("pay")
    result = agent.run_agent_sync(resume={result.interrupts[0].id: Approve()})
    assert result.text == "Done: paid 3.", result.text
    return "approved"


def leaves(url: str, left: Path) -> str:
    """A caller who leaves takes the agent along."""
    with HttpAgent(url, timeout=_SECONDS).stream_sync("wait") as run:
        assert next(run.text_stream) == "Well,"
        left.unlink(missing_ok=True)
    began = time.monotonic()
    while not left.exists():
        assert time.monotonic() < began + 10, "the agent goes on"
        time.sleep(0.002)
    return f"left after {time.monotonic() - began:.3f} s"


def refuses(url: str, left: Path) -> str:
    """A bad request is refused."""
    del left
    status = httpx.post(url, json={"threadId": 1}, timeout=_SECONDS, trust_env=False).status_code
    assert 400 <= status < 600, status
    return str(status)


_STORIES: tuple[Callable[[str, Path], str], ...] = (streams, approves, leaves, refuses)


@contextmanager
def _running(python: Path, stack: str, left: Path) -> Generator[str]:
    command = [str(python), str(HERE / "servers" / "mounting_server.py"), stack, str(left)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith("PORT ")), None)
            if line is None:
                raise RuntimeError(f"{stack} does not start")
            port = int(line.split()[1])
            for _ in range(200):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/agent/"
        finally:
            process.kill()


def main() -> int:
    """Tell the stories to each stack; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop.mounting", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environment here for the next time")
    parser.add_argument("--python", type=Path, help="an interpreter that has everything, instead of an environment")
    chosen = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="agui-mounting-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        python = chosen.python or made("mounting", root) / "bin" / "python"
        for stack in chosen.only:
            with _running(python, stack, Path(directory) / "left") as url:
                for story in _STORIES:
                    try:
                        print(f"{stack:22}{story.__name__:10}{story(url, Path(directory) / 'left')}", flush=True)
                    except Exception as error:
                        failures += 1
                        print(f"{stack:22}{story.__name__:10}FAIL {type(error).__name__}: {error}", flush=True)
    say(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
