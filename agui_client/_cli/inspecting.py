"""`agui inspect`: a recording as one HTML page, and a page that follows the runs of a remote agent."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

import click

from agui_client._cli.exit_codes import ExitCode, drive
from agui_client._cli.loading import load_views, views_option
from agui_client._cli.output import one_line

_EPILOG = """\b
Exit codes:
  0    the page was written, or served until Ctrl-C
  2    wrong usage, or FILE is no recording
  3    a failure here, such as a full disk
"""


@click.command(epilog=_EPILOG)
@click.argument("place", metavar="FILE|URL")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="PAGE",
    help="The page to write; FILE with the ending .inspect.html if left out. With a URL, it is written at the end.",
)
@click.option("--open", "is_opening", is_flag=True, help="Open the page in the browser.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port for a URL; 8001 if left out, 0 takes a free one.")
@click.option(
    "--record",
    "record_to",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Append what passes to a recording; with a URL.",
)
@views_option
def inspect(
    place: str,
    out: Path | None,
    is_opening: bool,
    port: int | None,
    record_to: Path | None,
    views: tuple[str, ...],
) -> int:
    """Make an HTML page of the recording FILE, or follow the runs of the agent at URL, to see what happened and when.

    FILE is made with `agui run --record FILE`, or with agui_client.recording.record in a program; the page needs no
    network. For a URL, an address on this machine passes runs on to the agent, until Ctrl-C: let your program use it in
    the agent's place, and open it in a browser.
    """
    load_views(views)
    if place.startswith(("http://", "https://")):
        # Loaded here: a page needs no uvicorn.
        from agui_client._cli.inspection_server import inspect_agent

        return drive(
            lambda: inspect_agent(place, 8001 if port is None else port, record_to, out, is_opening=is_opening)
        )
    if port is not None or record_to is not None:
        raise click.UsageError("--port and --record are for a URL, which begins with http:// or https://")
    file = Path(place)
    page = file.with_name(f"{file.name.split('.')[0]}.inspect.html") if out is None else out
    return drive(lambda: _write_page(file, page, is_opening=is_opening))


def write_private(file: Path, content: bytes) -> None:
    """Write a file that is readable for its owner alone, as recordings are."""
    with open(file, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as page:
        page.write(content)


def _write_page(file: Path, out: Path, *, is_opening: bool) -> int:
    # Loaded here: `agui run` needs no recordings.
    from agui_client.recording import Recording, inspector_page

    recording = Recording.read(file)
    write_private(out, inspector_page(recording))
    events = sum(len(exchange.events) for exchange in recording.exchanges)
    click.echo(one_line(f"{out} shows a recording of requests: {len(recording.exchanges)}, events: {events}"))
    if is_opening:
        webbrowser.open(out.resolve().as_uri())
    return ExitCode.SUCCESS
