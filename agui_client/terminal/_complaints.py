"""Complaints on stderr, in a line each."""

from __future__ import annotations

from contextlib import suppress

import click

from agui_client.terminal._lines import one_line


def complain(sentence: str, *details: str) -> None:
    """Write a complaint to stderr, in one line, and details in a line each."""
    with suppress(OSError):  # stderr is closed
        click.echo("\n      ".join([f"agui: {one_line(sentence)}", *map(one_line, details)]), err=True)
