"""`agui runs`: runs that are kept, by the address of their agent or the URL of their database."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from agui_client._cli.agent_settings import CommandT, runs_arguments
from agui_client._cli.command_group import CommandGroup


@click.group(cls=CommandGroup)
def runs() -> None:
    """List, follow, stop and answer runs that are kept.

    URL is the address of an agent that keeps its runs, with `agui serve --store memory` or agent_app(...,
    store=Store()), or their database: the file of an SQLite database, or a URL such as
    postgresql://user@host/database. -H and --timeout are for addresses. At an address, there are the runs that
    `authorize=` lets the caller see; in a database, all of them.
    """


def _names_run(command: CommandT) -> CommandT:
    """Add the arguments that name a run to a command, behind those of all commands here."""
    thread = click.option("--thread-id", metavar="ID", help="The thread of the run, if runs of several have the id.")
    return runs_arguments(click.argument("run_id", metavar="RUN")(thread(command)))


@runs.command("list")
@runs_arguments
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most to list.")
@click.option("--waiting", is_flag=True, help="Only those that wait for a person.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_runs(limit: int, waiting: bool, as_json: bool, **given: Any) -> int:
    """List the runs that are kept at URL, those that began last first."""
    # Loaded here, as below: the other commands know no kept runs.
    from agui_client._cli import run_sources

    return asyncio.run(
        run_sources.show_all(limit=limit, status="waiting" if waiting else None, as_json=as_json, **given)
    )


@runs.command()
@_names_run
def follow(run_id: str, **given: Any) -> int:
    """Print the run RUN from its beginning, and follow it to its end; Ctrl-C leaves it alone."""
    from agui_client._cli import run_sources

    return asyncio.run(run_sources.follow(run_id, **given))


@runs.command()
@_names_run
def stop(run_id: str, **given: Any) -> int:
    """Stop the run RUN, and wait until it has ended."""
    from agui_client._cli import run_sources

    return asyncio.run(run_sources.stop(run_id, **given))


@runs.command()
@_names_run
@click.argument("answers", nargs=-1, required=True, metavar="ANSWER...")
def answer(run_id: str, answers: tuple[str, ...], **given: Any) -> int:
    """Answer the run RUN, which waits, and follow the run that continues.

    ANSWER is approve, deny, cancel, or an answer as JSON or text. INTERRUPT=ANSWER names the interrupt by its id, one
    for each if the run has several.
    """
    from agui_client._cli import run_sources

    return asyncio.run(run_sources.answer(run_id, answers, **given))
