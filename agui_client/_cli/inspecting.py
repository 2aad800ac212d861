"""`agui inspect`: a recording as one HTML page, and a page that follows the runs of a remote agent."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agui_client._cli.agent_settings import PRICE_OPTION, is_address
from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.loading import views_option
from agui_client._core.ground.files import write_private
from agui_client.terminal._lines import one_line

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices

_EPILOG = """\b
Exit codes:
  0    the page was written, or served until Ctrl-C
  2    wrong usage, or FILE is not a recording
  3    a failure here, such as a full disk
"""


@click.command(epilog=_EPILOG)
@click.argument("place", metavar="FILE|URL")
@click.argument("other", metavar="[FILE]", required=False)
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
@PRICE_OPTION
@views_option
def inspect(
    place: str,
    other: str | None,
    out: Path | None,
    is_opening: bool,
    port: int | None,
    record_to: Path | None,
    given_prices: tuple[str, ...],
) -> int:
    """Make an HTML page of the recording FILE, or follow the runs of the agent at URL, to see what happened and when.

    FILE is made with `agui run --record FILE`, or with agui_client.recording.record in a program; the page needs no
    network. With two FILEs, the page has both side by side, and the first differences in requests, text, tools, state
    and outcome are printed. For a URL, an address on this machine passes runs on to the agent, until Ctrl-C: let your
    program use it in the agent's place, and open it in a browser.
    """
    # Loaded here, as below: `agui run` needs no recordings.
    from agui_client.inspector._prices import read_prices

    prices = read_prices(given_prices)
    is_url = is_address(place)
    refuse_replacing(out, *([record_to] if is_url else [Path(place), other]))
    if is_url:
        # Loaded here: a page needs no uvicorn.
        from agui_client._cli.inspection_server import inspect_agent

        if other is not None:
            raise click.UsageError("a URL stands alone; two recordings are compared")
        number = 8001 if port is None else port
        return inspect_agent(place, number, record_to, out, is_opening=is_opening, prices=prices)
    if port is not None or record_to is not None:
        raise click.UsageError("--port and --record are for a URL, which begins with http:// or https://")
    file = Path(place)
    kind = "inspect" if other is None else "compare"
    page = file.with_name(f"{file.name.split('.')[0]}.{kind}.html") if out is None else out
    if other is not None:
        return _write_comparison(file, Path(other), page, prices, is_opening=is_opening)
    return _write_page(file, page, prices, is_opening=is_opening)


def refuse_replacing(out: Path | None, *files: Path | str | None, option: str = "--out") -> None:
    """Refuse to write to a file that the command reads or records to.

    Args:
        out: The file to write; None for none.
        files: The files that the command reads or records to; None for none.
        option: The option that names the file to write.

    Raises:
        click.UsageError: They are the same file.
    """
    if out is not None and any(file is not None and Path(file).resolve() == out.resolve() for file in files):
        raise click.UsageError(f"{option} {out} would replace the file that is read or recorded to; name another one")


def _write_page(file: Path, out: Path, prices: Prices | None, *, is_opening: bool) -> int:
    # Loaded here: `agui run` needs no recordings.
    from agui_client.inspector import inspector_page
    from agui_client.recording import Recording

    recording = Recording.read(file)
    write_private(out, inspector_page(recording, prices=prices))
    events = sum(len(exchange.events) for exchange in recording.exchanges)
    click.echo(one_line(f"{out} shows a recording of requests: {len(recording.exchanges)}, events: {events}"))
    _open(out, is_opening)
    return ExitCode.SUCCESS


def _write_comparison(one: Path, other: Path, out: Path, prices: Prices | None, *, is_opening: bool) -> int:
    from agui_client.inspector._comparison import compare
    from agui_client.notebook._recording_elements import comparison_page
    from agui_client.recording import Recording

    recordings = Recording.read(one), Recording.read(other)
    write_private(out, comparison_page(*recordings, prices=prices))
    found = compare(*recordings).differences
    click.echo(one_line(f"{out} shows both; different: {', '.join(each.aspect for each in found) or 'nothing'}"))
    for each in found:
        click.echo(one_line(f"{each.aspect}: request {each.request}: {each.what}"))
    _open(out, is_opening)
    return ExitCode.SUCCESS


def _open(page: Path, is_opening: bool) -> None:
    if is_opening:
        webbrowser.open(page.resolve().as_uri())
