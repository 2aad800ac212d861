"""The words of the scripted models, the same for every framework, and the way its server is run.

The servers of this directory run in the environments of their frameworks: they import nothing but their framework and
this module, which imports only its faults, the standard library and, to serve, uvicorn.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import faults

PAGE = Path(__file__).parents[4] / "docs" / "frameworks.md"
LONGEST = int(os.environ.get("INTEROP_LONGEST", "900"))
"""The seconds after which a server ends, whatever happens."""


class RefusedError(Exception):
    """A provider's answer 400."""


class ModelDownError(Exception):
    """A provider that breaks down."""


@dataclass
class Call:
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any]
    id: str = field(default_factory=lambda: f"call_{uuid4().hex[:20]}")


@dataclass
class Thought:
    """A piece of the model's reasoning."""

    text: str


@dataclass
class Said:
    """A message of the history that a model is given: of a user or assistant, or the result of a tool call."""

    role: str
    text: str = ""
    calls: Sequence[str] = ()
    """The ids of the calls that an assistant's message makes."""
    call_id: str = ""
    """The id of the call that a result answers."""


def check(history: Sequence[Said]) -> None:
    """Refuse what providers refuse: a call without a result right behind it, and a result without its call.

    Raises:
        RefusedError: The history is none that a provider takes.
    """
    waiting: set[str] = set()
    for said in history:
        if said.role == "tool":
            if said.call_id not in waiting:
                raise RefusedError(f"400: the result of {said.call_id!r} does not follow its call")
            waiting.remove(said.call_id)
            continue
        if waiting:
            break
        waiting = set(said.calls)
    if waiting:
        raise RefusedError(f"400: no result right behind the calls {sorted(waiting)}")


def reply(history: Sequence[Said], state: Any = None) -> list[str | Call | Thought]:
    """Return what the model says next: texts in pieces, and calls.

    Args:
        history: What the model was given.
        state: The state that the server shares with the application.
    """
    check(history)
    prompts, results = _prompts_and_results(history)
    if results:
        return _words(f"Got {' and '.join(results)}.")
    prompt = prompts[-1] if prompts else ""
    if "crash" in prompt:
        raise ModelDownError("the model is down")
    if "slow" in prompt:
        return _words("so " * 400)
    if "think" in prompt:
        return [Thought("Let me "), Thought("see."), *_words("I thought.")]
    if "state" in prompt:
        return _words(f"The city is {(state or {}).get('city')}.")
    for word, calls in CALLS.items():
        if word in prompt:
            named = prompt.partition("=")[2]  # of a tool whose name is new each time
            return [Call(named or name, dict(arguments)) for name, arguments in calls]
    return _words(f"Answer {len(prompts)}.")


def _prompts_and_results(history: Sequence[Said]) -> tuple[list[str], list[str]]:
    """Return all prompts, each of which is one word, and the results since the last of them."""
    prompts: list[str] = []
    results: list[str] = []
    for said in history:
        if said.role == "tool":
            results.append(said.text)
        elif said.role == "user" and said.text:
            # Some frameworks join the texts of neighbours.
            results, prompts = [], prompts + said.text.split()
    return prompts, results


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "lookup": [("lookup", {"city": "Oslo"})],
    "weather": [("get_weather", {"city": "Oslo"})],
    "both": [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Turin"})],
    "buy": [("buy_tickets", {"count": 3})],
    "transfer": [("transfer", {"to": "Ada", "amount": 5})],
    "move": [("move_to", {"city": "Turin"})],
    "delegate": [("ask_other", {"prompt": "transfer"})],
    "consult": [("ask_other", {"prompt": "lookup"})],
    "handover": [("transfer_to_other", {})],
}
"""Prompts with these words are answered with these calls. Tools of the server: lookup, transfer and move_to."""
FRONTEND = ("get_weather", "buy_tickets", "ask_other", "transfer_to_other", "forecast")
"""The beginnings of the names of tools of the application that are called here; the doctor's tool is a forecast."""


async def replying(history: Sequence[Said], state: Any = None) -> AsyncIterator[str | Call | Thought]:
    """Say a reply piece by piece, a long one slowly."""
    if "INTEROP_DEBUG" in os.environ:
        print(history, state, file=sys.stderr)
    prompts, results = _prompts_and_results(history)
    pieces = await faults.spoiled(reply(history, state), len(prompts), prompts[-1] if prompts else "", results)
    for piece in pieces:
        await asyncio.sleep(0.05 if len(pieces) > 50 else 0)
        yield piece


def lookup(city: str) -> str:
    """Look a city up."""
    return f"{city} has 700000 people"


def transfer(to: str, amount: int) -> str:
    """Send money, after a person approved it."""
    return f"sent {amount} to {to}"


def _words(text: str) -> list[str | Call | Thought]:
    return [f"{word} " for word in text.split()]


def program(heading: str, model: Any) -> Any:
    """Execute a program of docs/frameworks.md, and return its app.

    Args:
        heading: The heading of its section.
        model: What it imports as the model.
    """
    intro, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    given = {"tools": vars_of(intro), "model": {"model": model}}
    for name, members in given.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__dict__.update(members)
    return vars_of(next(each for each in sections if each.startswith(f"{heading}\n")))["app"]


def vars_of(section: str) -> dict[str, Any]:
    """Execute the Python program of a section, and return what it defines."""
    # A module of its own, as pydantic and others look up the module of a function.
    module = sys.modules["server"] = ModuleType("server")
    exec(section.split("```py\n", maxsplit=2)[1].partition("```")[0], module.__dict__)
    return vars(module)


def beside(app: Any, page: Any) -> Any:
    """Return an app that answers at `/page` with another one, and else with the first."""

    async def both(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not path.startswith("/page/"):
            await app(scope, receive, send)
            return
        path = path.removeprefix("/page")
        await page({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    return both


def serve(app: Any, heading: str = "", model: Any = None) -> None:
    """Serve an ASGI app on a free port of this machine, and print the port; end with whoever holds stdin open.

    Args:
        app: The app.
        heading: The heading of the framework in docs/frameworks.md, whose program is served at `/page`.
        model: The model of that program.
    """
    import uvicorn

    if heading:
        app = beside(app, program(heading, model))

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(f"PORT {listening.getsockname()[1]}", flush=True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    deadline = threading.Timer(LONGEST, os._exit, [3])
    deadline.daemon = True
    deadline.start()
    server = uvicorn.Server(uvicorn.Config(faults.planted(app), log_level="warning"))
    asyncio.run(server.serve([listening]))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)
