"""`python -m tests.programs.interop.examine`: what the doctor says of each framework's server."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

from agui_client import HttpAgent
from agui_client.doctor import Diagnosis, diagnose
from agui_client.doctor._diagnosis import MARKS

from .environments import made, running, say
from .frameworks import FRAMEWORKS, Framework

PROMPTS = {
    "hello": "hello",
    "tools": "weather={tool}",
    "parallel": "both={tool}",
    "long": "slow",
    "state": "move",
    "interrupt": "transfer",
    "error": "crash",
}
"""The words that the scripted models know."""
_LISTENING = 60
"""The seconds that a server may take from naming its port to listening."""
_DIFFERENT = [name for name, framework in FRAMEWORKS.items() if not framework.stories]


def _examined(framework: Framework, url: str) -> Diagnosis:
    agent = HttpAgent(url + framework.path)
    return asyncio.run(diagnose(agent, prompts=PROMPTS, state={"city": "Oslo"}, timeout=30, progress=_say))


def _wait_for(url: str) -> None:
    """Wait until a server listens: it names its port before."""
    address = urlsplit(url)
    give_up = time.monotonic() + _LISTENING
    while True:
        try:
            with socket.create_connection((address.hostname, address.port or 80), timeout=1):
                return
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def _say(probe: object) -> None:
    if isinstance(probe, str):
        say(f"  {probe}")


def main() -> int:
    """Examine the servers; print each diagnosis, and a table of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop.examine", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=_DIFFERENT, help="only these servers")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    frameworks = sorted((FRAMEWORKS[name] for name in chosen.only), key=lambda each: each.environment)
    found: dict[str, Diagnosis] = {}
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        for environment, group in groupby(frameworks, key=lambda each: each.environment):
            with running(environment, made(environment, root)) as (url, _):
                _wait_for(url)
                for framework in group:
                    say(f"{framework.name}: examining")
                    found[framework.name] = _examined(framework, url)
                    print(f"\n===== {framework.name}\n{found[framework.name]}\n", flush=True)
    _print(found)
    return 0


def _print(found: dict[str, Diagnosis]) -> None:
    """Print the abilities of all servers, one a line, and the rules that each server breaks."""
    verdicts = {
        name: {ability.name: MARKS[ability.verdict] for ability in diagnosis.profile}
        for name, diagnosis in found.items()
    }
    abilities = list(dict.fromkeys(ability for verdict in verdicts.values() for ability in verdict))
    width = max(map(len, abilities)) + 2
    print(" " * width + " ".join(found))
    for ability in abilities:
        marks = (verdict.get(ability, " ").ljust(len(name)) for name, verdict in verdicts.items())
        print(ability.ljust(width) + " ".join(marks).rstrip())
    for name, diagnosis in found.items():
        rules = ", ".join(f"{each.rule} ({each.severity})" for each in diagnosis.findings)
        print(f"{name}: {rules or diagnosis.headline}")


if __name__ == "__main__":
    sys.exit(main())
