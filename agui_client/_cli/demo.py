"""`agui demo`: the demo agent on a port of this machine, and a client that shows its work."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from secrets import token_bytes
from typing import TYPE_CHECKING

import click

from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.live_view import DemoView
from agui_client._cli.own_names import TrustedHosts
from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.tools.interrupts import Resolve
from agui_client.asgi import agent_app
from agui_client.demo import demo_agent
from agui_client.terminal._plain_view import PlainDemoView
from agui_client.terminal._watching import drawing_board, watch
from agui_client.testing import Server, serve

if TYPE_CHECKING:
    from agui_client._core.tools.interrupts import Answer

    View = DemoView | PlainDemoView

PROMPT = "Plan my Saturday in Oslo, and book the ferry."
"""The prompt of `agui demo`."""
SCRIPTED = "It is a script without a model: whatever it is asked, it plans a Saturday in Oslo."
"""The sentence that says that the agent is a script."""
PROGRAM = f"""\
from agui_client import HttpAgent, Resolve
agent = HttpAgent("http://localhost:8000/")
result = agent.run_agent_sync("{PROMPT}")
answers = {{asked.id: Resolve({{"approved": True}}) for asked in result.interrupts}}
print(result.text, agent.run_agent_sync(resume=answers).text)"""
"""The demo as a program."""


def serve_demo(port: int) -> int:
    """Serve the demo agent until Ctrl-C, which counts as success."""
    with demo_server(port) as server:
        click.echo(f"The demo agent is served at {server.url} until Ctrl-C. {SCRIPTED} Ask it from another terminal:")
        click.echo(f"  agui run {server.url} '{PROMPT}'")
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            return ExitCode.SUCCESS


def show_demo(port: int) -> int:
    """Run the demo agent over HTTP, show its events, and answer its question."""
    console = drawing_board()
    view: View = PlainDemoView(sys.stdout) if console is None else DemoView(console, can_ask=sys.stdin.isatty())
    with demo_server(port) as server, asyncio.Runner() as runner:
        view.begin([f"The demo agent is served at {server.url}", SCRIPTED], PROMPT)
        agent = HttpAgent(server.url)
        results = [runner.run(watch(agent.stream(PROMPT), view))]
        while interrupts := results[-1].interrupts:
            # The user is asked between runs: inside the event loop, Ctrl-C would wait for the answer.
            answers: dict[str, Answer] = {
                interrupt.id: Resolve({"approved": view.ask(interrupt.message or interrupt.reason)})
                for interrupt in interrupts
            }
            results.append(runner.run(watch(agent.stream(resume=answers), view)))
        view.finish(results, PROGRAM)
    return ExitCode.SUCCESS


@contextmanager
def demo_server(port: int) -> Generator[Server]:
    """Serve the demo agent while the block lasts.

    Raises:
        click.UsageError: The port is taken.
    """
    with ExitStack() as stack:
        try:
            app = TrustedHosts(agent_app(demo_agent(), secret=token_bytes(32)))
            server = stack.enter_context(serve(app, port=port))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise click.UsageError(f"cannot serve on port {port}: {reason}; name another with --port") from error
        yield server
