"""`agui check`: streams and recordings in files, compared with the rules of the protocol."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.exit_codes import ExitCode, reason_of
from agui_client.errors import UsageError
from agui_client.terminal._lines import escaped_json, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import RunAgentInput

    from agui_client._checking.stream_faults import FaultSeverity, StreamFault

_EPILOG = """\b
Exit codes:
  0    no faults, or only lighter ones than --fail-on
  1    faults
  2    wrong usage, or a FILE cannot be read
"""


@click.command(epilog=_EPILOG)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--input",
    "input_from",
    type=click.Path(exists=True, dir_okay=False),
    metavar="INPUT",
    help="The RunAgentInput that was posted, as JSON: compare ids, messages and state with it.",
)
@click.option("--strict", is_flag=True, help="Make ids that do not match errors, not warnings.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "advice"]),
    default="warning",
    show_default=True,
    help="The lightest faults that lead to exit code 1.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the faults as a JSON array.")
def check(
    files: tuple[str, ...], input_from: str | None, fail_on: FaultSeverity, *, as_json: bool, strict: bool
) -> int:
    """Find the places where recorded streams break the protocol.

    FILE holds SSE as `curl -N` saves it, events as JSON lines or as an array, or a recording; - is stdin. An event at
    fault is left out, and the check continues behind it. Nothing is sent anywhere.
    """
    # Loaded here: the other commands check no streams.
    from agui_client._checking.check import read_stream
    from agui_client._checking.stream_faults import SEVERITIES, Faults

    if files.count("-") > 1:
        raise click.UsageError("stdin, -, can be read once only")
    input = None if input_from is None else _read_input(input_from)
    found: list[tuple[str, StreamFault]] = []
    for file in files:
        faults = Faults()
        source = sys.stdin.buffer.read() if file == "-" else Path(file)
        events = read_stream(faults, source, input, strict=strict)
        records = faults.records()
        found += ((file, fault) for fault in records)
        if not as_json:
            _print(file, events, records)
    if as_json:
        document: list[dict[str, Any]] = [{"file": file, **asdict(fault)} for file, fault in found]
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False, indent=2), sys.stdout))
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    is_bad = any(fault.severity in failing for _, fault in found)
    return ExitCode.RUN_FAILED if is_bad else ExitCode.SUCCESS


def _print(file: str, events: int, faults: Sequence[StreamFault]) -> None:
    """Print the faults of a file as compilers do, the place first, and the number of them at the end."""
    from agui_client._rendering.story import counted

    for fault in faults:
        place = [file, *([] if fault.line is None else [str(fault.line)])]
        request = "" if fault.request is None else f"request {fault.request}: "
        click.echo(printable(f"{':'.join(place)}: {request}{fault}"))
    found = Counter(fault.severity for fault in faults)
    counts = [counted(found[kind], kind) for kind in ("error", "warning") if found[kind]]
    counts += [f"{found['advice']} advice"] if found["advice"] else []
    shown = " and ".join(counts) or "no faults"
    click.echo(one_line(f"{file}: {shown} in {counted(events, 'event') if events else 'no events'}"))


def _read_input(path: str) -> RunAgentInput:
    from ag_ui.core import RunAgentInput
    from pydantic import ValidationError

    from agui_client._core.protocol.problems import first_problem

    try:
        return RunAgentInput.model_validate_json(Path(path).read_bytes(), by_alias=True, by_name=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValidationError as error:
        raise UsageError(f"{path} holds no RunAgentInput: {first_problem(error)}") from None
