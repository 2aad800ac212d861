"""A user's file: ready-made people, at a terminal and at a notebook; never run."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.live import Live

from agui_client import HttpAgent
from agui_client.notebook import NotebookAnswerer, NotebookApprover
from agui_client.terminal import TerminalAnswerer, TerminalApprover


def at_a_terminal(url: str) -> HttpAgent:
    return HttpAgent(url, approve=TerminalApprover(), answer=TerminalAnswerer())


def beside_something_else_on_the_screen(url: str, live: Live) -> HttpAgent:
    def around() -> Live:
        return live

    console = Console(file=sys.stderr)
    answer = TerminalAnswerer(console=console, around=around, messages=lambda: agent.messages)
    agent = HttpAgent(url, approve=TerminalApprover(console=console, around=around), answer=answer)
    return agent


def at_a_notebook(url: str) -> HttpAgent:
    return HttpAgent(url, approve=NotebookApprover(), answer=NotebookAnswerer(widgets=True))
