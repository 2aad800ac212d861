"""The client scenarios of the conformance suite of MCP, with a client that is an agent with tools of `mcp_server`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.typescript import installed

from .judging import Case

PACKAGE = "@modelcontextprotocol/conformance", "0.1.16"

ON_PURPOSE = {
    "auth/2025-03-26-oauth-metadata-backcompat": "the SDK's provider takes metadata only of the issuer that it asked",
    "auth/cross-app-access-complete-flow": "the SDK leaves the exchange with an identity provider to the application",
}

_ROOT = Path(__file__).resolve().parents[3]
_SECONDS = 60.0
_AT_ONCE = 2
_TRIES = {"sse-retry": 3}
"""The suite takes the session's own GET for the one that reconnects where a loaded machine lets it come late."""


def cases() -> Iterator[Case]:
    """Run each scenario, and yield what the suite found."""
    scenarios = re.findall(r"^ +- (\S+)", _suite("list", "--client"), re.MULTILINE)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(_tried, scenarios)


def _tried(scenario: str) -> Case:
    case = _case(scenario)
    for _ in range(_TRIES.get(scenario, 1) - 1):
        case = case if case.problem is None else _case(scenario)
    return case


def _case(scenario: str) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        client = f"{sys.executable} -m tests.programs.external.mcp_client"
        said = _suite("client", "--command", client, "--scenario", scenario, "--output-dir", folder)
        found = [check for file in Path(folder).rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
    failed = [f"{each['id']}: {each.get('errorMessage', '')}" for each in found if each["status"] == "FAILURE"]
    is_passed = any(each["status"] == "SUCCESS" for each in found) and "OVERALL: PASSED" in said
    return Case(scenario, None if is_passed and not failed else "; ".join(failed) or said[-200:])


def _suite(*arguments: str) -> str:
    folder = installed(PACKAGE) / "node_modules" / PACKAGE[0]
    files = Path(__file__).with_name("mcp_files.mjs")
    command = ["node", "--import", str(files), str(folder / "dist" / "index.js"), *arguments]
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.stdout + done.stderr
