"""`python -m tests.programs.interop.clients`: clients of others, each in its environment, against `agent_app`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Timer
from typing import Any

from ag_ui.core import RunAgentInput, UserMessage

from agui_client import tool
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, Step, serve, text, tool_call, turn

from ..environments import made, say
from .stories import CLIENTS, STORIES, Client, Story

_ENDING = 120
_KEY = "Bearer 5f0c"


@tool
def lookup(city: str) -> str:
    """Look a city up."""
    return f"{city} has 700000 people"


async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
    """Answer the last message."""
    asked = [each.content for each in input.messages if isinstance(each, UserMessage)]
    last = input.messages[-1]
    if last.role == "tool":
        yield turn(text(f"The tool says {last.content}."))
    elif asked[-1] == "fail":
        raise RuntimeError("a secret of the server")
    elif asked[-1] == "look up":
        yield turn(tool_call("lookup", {"city": "Oslo"}))
    elif asked[-1] == "double":
        yield turn(tool_call("double", {"number": 21}))
    else:
        yield turn(text(f"You asked {len(asked)} times."))


def _authorize(method: str, path: str, headers: Any) -> bool:
    return bool(headers.get("authorization") == _KEY)


def _tell(url: str, story: Story, process: subprocess.Popen[str]) -> str:
    """Have the client tell a story; return what its user sees."""
    assert process.stdin is not None
    assert process.stdout is not None
    headers = {} if story.is_refused else {"Authorization": _KEY}
    print(json.dumps({"url": url, "prompts": story.prompts, "headers": headers}), file=process.stdin, flush=True)
    shown = json.loads(process.stdout.readline() or '{"error": "the client has ended"}')
    return shown.get("shown") or f"error: {shown.get('error', 'nothing is shown')}"


def _tested(client: Client, url: str, root: Path) -> dict[str, str]:
    environment = made(client.environment, root)
    program = Path(__file__).with_name(f"{client.name}_client.py")
    command = [str(environment / "bin" / "python"), str(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        deadline = Timer(_ENDING, process.kill)
        deadline.start()
        try:
            return {name: _tell(url, story, process) for name, story in STORIES.items()}
        finally:
            deadline.cancel()
            process.kill()


def main() -> int:
    """Have each client tell each story, and print what differs from what `stories` says."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop.clients", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CLIENTS, default=list(CLIENTS), help="only these clients")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    differences = 0
    app = agent_app(ScriptedAgent(answer, tools=[lookup]), authorize=_authorize)
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory, serve(app) as server:
        root = (chosen.keep or Path(directory)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for name in chosen.only:
            shown = _tested(CLIENTS[name], server.url, root)
            for story, seen in shown.items():
                expected = CLIENTS[name].expected(story)
                is_expected = seen.startswith(expected[:-1]) if expected.endswith("…") else seen == expected
                differences += not is_expected
                print(f"{'pass' if is_expected else 'FAIL'} {name} {story}: {seen}")
    say(f"{differences} differences")
    return int(differences > 0)


sys.exit(main())
