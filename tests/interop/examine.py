"""The doctor on real servers: `python -m tests.interop.examine` prints what each framework's server can, and breaks."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from agui_client import HttpAgent
from agui_client.doctor import Diagnosis, diagnose

from .environments import made, running, say
from .frameworks import FRAMEWORKS, Framework

PROMPTS = {
    "hello": "hello",
    "tools": "weather",
    "parallel": "both",
    "long": "slow",
    "state": "move",
    "interrupt": "transfer",
    "error": "crash",
}
"""The words that the scripted models know."""
_DIFFERENT = [name for name, framework in FRAMEWORKS.items() if not framework.stories]


def _examined(framework: Framework, url: str) -> Diagnosis:
    agent = HttpAgent(url + framework.path)
    return asyncio.run(diagnose(agent, prompts=PROMPTS, state={"city": "Oslo"}, timeout=30, progress=_say))


def _say(probe: object) -> None:
    if isinstance(probe, str):
        say(f"  {probe}")


def main() -> int:
    """Examine the servers; print each diagnosis, and a table of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.examine", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=_DIFFERENT, help="only these servers")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    frameworks = sorted((FRAMEWORKS[name] for name in chosen.only), key=lambda each: each.environment)
    found: dict[str, Diagnosis] = {}
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        for environment, group in groupby(frameworks, key=lambda each: each.environment):
            with running(environment, made(environment, root)) as (url, _):
                for framework in group:
                    say(f"{framework.name}: examining")
                    found[framework.name] = _examined(framework, url)
                    print(f"\n===== {framework.name}\n{found[framework.name]}\n", flush=True)
    for name, diagnosis in found.items():
        marks = "".join(f", {each.rule} ({each.severity})" for each in diagnosis.findings)
        print(f"{name}: {diagnosis.headline}{marks}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
