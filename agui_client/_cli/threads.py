"""`agui threads`: the conversations that `agui chat --threads` and programs keep in a database."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.command_group import CommandGroup
from agui_client._cli.exit_codes import ExitCode
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import escaped_json, one_line, printable

if TYPE_CHECKING:
    from agui_client._cli.agent_settings import CommandT
    from agui_client.store import Store, ThreadInfo


@click.group(cls=CommandGroup)
def threads() -> None:
    """List, show, fork, export and delete conversations.

    FILE is a file of `agui chat --threads`, or a URL such as postgresql://user@host/name.
    """


def open_store(place: str, *, is_new: bool = False) -> Store:
    """Return the store in a file, or at a URL.

    Args:
        place: The file or the URL.
        is_new: Whether the file is made if there is none.

    Raises:
        click.UsageError: There is no such file.
        UsageError: The database cannot be used.
    """
    from agui_client.store import Store

    if "://" in place:
        return Store(place)
    if not is_new and not Path(place).is_file():
        raise click.UsageError(f"there is no file {place}")
    return Store(f"sqlite:///{Path(place).absolute()}")


def _command(command: CommandT) -> CommandT:
    """Add what all commands take: the place, and the owner."""
    owner = click.option("--owner", default="", metavar="NAME", help="The owner of the thread; nobody if left out.")
    return click.argument("place", metavar="FILE")(owner(command))


_THREAD = click.argument("thread_id", metavar="ID")


@threads.command("list")
@_command
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most to list.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_threads(place: str, owner: str, limit: int, as_json: bool) -> None:
    """List the threads in FILE, those that were saved last first."""
    with open_store(place) as found:
        infos = found.threads.list(owner=owner, limit=limit).result()
    if not infos:
        whose = f"of {owner}" if owner else "without an owner"
        complain(f"there are no threads {whose}; --owner NAME lists those of another owner")
    for info in infos:
        click.echo(escaped_json(_as_json(info), sys.stdout) if as_json else _line(info))


@threads.command()
@_command
@_THREAD
def show(place: str, owner: str, thread_id: str) -> None:
    """Print a thread as Markdown."""
    _print_export(place, owner, thread_id, "md")


@threads.command()
@_command
@_THREAD
@click.option("--format", "form", type=click.Choice(["md", "html", "json", "jsonl"]), default="json", show_default=True)
def export(place: str, owner: str, thread_id: str, form: str) -> None:
    """Print a thread: as Markdown or a page of HTML for reading, or as JSON with all that is needed to continue."""
    if form == "html":
        _print_page(place, owner, thread_id)
    else:
        _print_export(place, owner, thread_id, form)


@threads.command()
@_command
@_THREAD
@click.option("--at", metavar="MESSAGE_ID", help="The last message of the new thread; all if left out.")
@click.option("--new-id", metavar="ID", help="The id of the new thread; one is made if left out.")
def fork(place: str, owner: str, thread_id: str, at: str | None, new_id: str | None) -> None:
    """Make a thread that begins like another one; print its id."""
    with open_store(place) as found:
        click.echo(found.threads.fork(thread_id, at=at, new_id=new_id, owner=owner).result())


@threads.command()
@_command
@click.argument("thread_ids", metavar="ID...", nargs=-1, required=True)
def delete(place: str, owner: str, thread_ids: Sequence[str]) -> int:
    """Delete threads; forks of them keep what they share."""
    with open_store(place) as found:
        missing = [each for each in thread_ids if not found.threads.delete(each, owner=owner).result()]
    for each in missing:
        complain(f"there is no thread {each}")
    return ExitCode.USAGE if missing else ExitCode.SUCCESS


def _print_page(place: str, owner: str, thread_id: str) -> None:
    # Loaded here: the other forms need no displays.
    from agui_client.notebook import html_page

    with open_store(place) as found:
        saved = found.threads.get(thread_id, owner=owner).result()
    if saved is None:
        raise click.UsageError(f"there is no thread {thread_id}")
    click.echo(html_page(saved.conversation, title=saved.info.title or thread_id), nl=False)


def _print_export(place: str, owner: str, thread_id: str, form: Any) -> None:
    with open_store(place) as found:
        text = found.threads.export(thread_id, form, owner=owner).result()
    click.echo(printable(text) if form == "md" else escaped_json(text, sys.stdout), nl=False)


def _line(info: ThreadInfo) -> str:
    moment = info.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{one_line(info.thread_id)}  {moment}  {info.message_count:4d}  {one_line(info.title)}"


def _as_json(info: ThreadInfo) -> str:
    return json.dumps(
        {
            "threadId": info.thread_id,
            "title": info.title,
            "createdAt": info.created_at.isoformat(),
            "updatedAt": info.updated_at.isoformat(),
            "messages": info.message_count,
            "usage": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in info.usage],
        },
        ensure_ascii=False,
    )
