"""`agui inspect`: a recording as one HTML page, and a page that follows the runs of a remote agent."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

import click

from agui_client._cli.exit_codes import ExitCode, drive
from agui_client._cli.output import one_line

_EPILOG = """\b
Exit codes:
  0    the page was written, or served until Ctrl-C
  2    wrong usage, or FILE is no recording
  3    a failure here, such as a full disk
"""


@click.command(epilog=_EPILOG)
@click.argument("place", metavar="FILE")
@click.option("--out", metavar="PAGE", help="The page to write; FILE with the ending .inspect.html if left out.")
@click.option("--open", "is_opening", is_flag=True, help="Open the page in the browser.")
def inspect(place: str, out: str | None, is_opening: bool) -> int:
    """Make an HTML page of the recording FILE, to look at everything that happened and when.

    The page needs no network. FILE is made with `agui run --record FILE`, or with agui_client.recording.record in a
    program.
    """
    file = Path(place)
    page = Path(out) if out is not None else file.with_name(f"{file.name.split('.')[0]}.inspect.html")
    return drive(lambda: _write_page(file, page, is_opening=is_opening))


def _write_page(file: Path, out: Path, *, is_opening: bool) -> int:
    # Loaded here: `agui run` needs no recordings.
    from agui_client.recording import Recording, inspector_page

    recording = Recording.read(file)
    # Readable for its owner alone, as the recording is.
    with open(out, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as page:
        page.write(inspector_page(recording))
    events = sum(len(exchange.events) for exchange in recording.exchanges)
    click.echo(one_line(f"{out} shows a recording of requests: {len(recording.exchanges)}, events: {events}"))
    if is_opening:
        webbrowser.open(out.resolve().as_uri())
    return ExitCode.SUCCESS
