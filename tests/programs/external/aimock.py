"""The AG-UI server of aimock, with each of its builders of answers, read by `HttpAgent`.

The mock names a thread and a run of its own in RUN_STARTED, which every result warns of (LIFE-12). It has no subagents,
interrupts, retired types and protocol version.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agui_client import AGUIError, HttpAgent, RunResult, Timeouts, tool
from support.typescript import installed

from .judging import Case

PACKAGE = "@copilotkit/aimock", "1.43.0"
_CLOSING = 10.0
_TIMEOUTS = Timeouts(total=20)

ON_PURPOSE: dict[str, str] = {}

_looked: list[str] = []


@tool
def look(q: str) -> str:
    """Look something up."""
    _looked.append(q)
    return "found"


def _roles(result: RunResult) -> list[tuple[str, Any]]:
    return [(each.role, each.content) for each in result.messages[1:]]


EXPECTED: dict[str, tuple[Callable[[RunResult], Any], Any]] = {
    "a text": (lambda result: result.text, "Hello"),
    "a chunk": (lambda result: result.text, "Hello"),
    "a state": (lambda result: result.state, {"city": "Oslo", "legs": []}),
    "a delta": (lambda result: result.state, {"legs": [None]}),
    "messages": (lambda result: [(each.role, each.content) for each in result.messages], [("assistant", "Earlier")]),
    "reasoning": (_roles, [("reasoning", "Hm."), ("assistant", "Hello")]),
    "a reasoning chunk": (_roles, [("reasoning", "Hm.")]),
    "an encrypted value": (lambda result: getattr(result.messages[-1], "encrypted_value", None), "opaque"),
    "an activity": (_roles, [("activity", {"steps": ["book"]})]),
    "a step": (lambda result: result.text, "Hello"),
    "a call": (lambda result: [each.content for each in result.messages if each.role == "tool"], ["seen"]),
    "a call chunk": (lambda result: [each.function.name for each in result.pending_tool_calls], ["look"]),
    "a raw event": (lambda result: len(result.messages), 1),
    "a custom event": (lambda result: [(each.name, each.value) for each in result.custom], [("note", None)]),
    "usage": (
        lambda result: [(each.model, each.input_tokens, each.output_tokens) for each in result.usage],
        [("m", 3, 4)],
    ),
}
"""What a caller sees of the answer to each prompt."""


def cases() -> Iterator[Case]:
    """Ask the mock each prompt, and compare what comes of it."""
    with _served() as url:
        for prompt, (seen, expected) in EXPECTED.items():
            yield Case(prompt, _problem(HttpAgent(url, timeout=_TIMEOUTS), prompt, seen, expected))
        yield Case("an error", _refusal(url))
        agent = HttpAgent(url, tools=[look], timeout=_TIMEOUTS)
        yield Case(
            "a tool of this side",
            _problem(agent, "look it up", lambda result: (result.text, _looked), ("Found.", ["Oslo"])),
        )


def _problem(agent: HttpAgent, prompt: str, seen: Callable[[RunResult], Any], expected: Any) -> str | None:
    try:
        result = agent.run_agent_sync(prompt)
    except AGUIError as failed:
        return f"{type(failed).__name__}: {failed}"
    if (found := seen(result)) != expected:
        return f"gave {found!r}, not {expected!r}"
    rules = {each.rule for each in result.warnings}
    return None if rules == {"LIFE-12"} else f"warned of {sorted(rules)}"


def _refusal(url: str) -> str | None:
    try:
        HttpAgent(url, timeout=_TIMEOUTS).run_agent_sync("an error")
    except AGUIError as failed:
        found = type(failed).__name__, str(failed), getattr(failed, "code", None)
        return None if found == ("RunFailedError", "No quota. (code quota)", "quota") else f"raised {found!r}"
    return "raised nothing"


@contextmanager
def _served() -> Generator[str]:
    # Node looks for packages from the folder of a program on.
    program = installed(PACKAGE) / "aimock-server.mjs"
    program.write_text(Path(__file__).with_suffix(".mjs").read_text("utf-8"), "utf-8")
    with subprocess.Popen(["node", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            try:
                server.wait(_CLOSING)
            except subprocess.TimeoutExpired:
                server.kill()
