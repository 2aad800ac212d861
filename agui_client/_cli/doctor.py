"""`agui doctor`: a server probed with short runs, and its diagnosis as text, JSON, JUnit's XML or HTML."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from agui_client._cli.agent_settings import (
    ENVIRONMENT,
    CommandT,
    doctor_arguments,
    needed_url,
    read_agent_settings,
    read_json,
)
from agui_client._cli.exit_codes import ExitCode, reason_of
from agui_client.errors import UsageError
from agui_client.terminal._lines import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agui_client._cli.agent_settings import AgentSettings
    from agui_client._core.protocol.rules import Severity
    from agui_client.doctor import Diagnosis, ProbeResult

_EPILOG = f"""{ENVIRONMENT}
\b
Exit codes:
  0    no findings, or only lighter ones than --fail-on
  1    findings
  2    wrong usage, or no server responds at URL
  3    a failure here, such as a full disk
  130  stopped with Ctrl-C; what was found so far is printed
"""


def _report(name: str, what: str) -> Callable[[CommandT], CommandT]:
    path = click.Path(dir_okay=False, writable=True, allow_dash=True)
    return click.option(f"--{name}", f"{name}_to", type=path, metavar="FILE", help=f"{what}; - is stdout.")


@click.command(epilog=_EPILOG)
@doctor_arguments
@click.option(
    "--prompt",
    "prompts",
    multiple=True,
    metavar="[NAME=]TEXT",
    help="The prompt of plain runs, or that of NAME: tools, parallel, long, state, interrupt or error (the last two "
    "need one); {tool} is the offered tool; may be repeated.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PROBE",
    help="Make only this probe: hello, again, newer, tools, parallel, leave, interrupt, error or malformed; may be "
    "repeated.",
)
@click.option(
    "--tool",
    metavar="FILE",
    help="The tool to offer, as JSON: name, description, parameters, result; for agents that know only their own.",
)
@click.option("--connect-url", metavar="URL", help="The address that sends threads again, to see runs continue there.")
@click.option("--skip", multiple=True, metavar="PROBE", help="Leave this probe out; may be repeated.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="warning",
    show_default=True,
    help="The lightest findings that lead to exit code 1.",
)
@click.option(
    "--silence",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest time without a byte that needs no keep-alive comment.",
)
@_report("json", "Write the diagnosis as JSON")
@_report("junit", "Write the diagnosis as JUnit's XML")
@_report("html", "Write the diagnosis as a page of HTML")
def doctor(
    url: str | None,
    timeout: float | None,
    state: str | None,
    connect_url: str | None,
    fail_on: Severity,
    json_to: str | None,
    junit_to: str | None,
    html_to: str | None,
    headers: dict[str, str],
    **given: Any,
) -> int:
    """Probe the server at URL or AGUI_URL: what it can do, which rules it breaks, and how to fix that.

    It asks for a handful of short runs, and says how many before the first. The agent is offered a tool that does
    nothing, and nothing is approved.
    """
    named = {"json": json_to, "junit": junit_to, "html": html_to}
    paths = {kind: path for kind, path in named.items() if path is not None}
    if sum(path == "-" for path in paths.values()) > 1:
        raise click.UsageError("only one of --json, --junit and --html can be written to stdout")
    settings = read_agent_settings(url=needed_url(url), headers=headers, state=state, thread_id=None, timeout=timeout)
    if timeout is not None:
        given["timeout"] = timeout
    return _examine(settings, connect_url, paths, fail_on, **given)


def _examine(
    settings: AgentSettings,
    connect_url: str | None,
    paths: Mapping[str, str],
    fail_on: Severity,
    *,
    prompts: Sequence[str],
    tool: str | None,
    **given: Any,
) -> int:
    # Loaded here: the other commands need no doctor.
    from agui_client._core.agent.http_agent import HttpAgent
    from agui_client._rendering.story import counted
    from agui_client.doctor._examination import Examination, Setup

    offered = None if tool is None else read_json("--tool", tool)
    setup = Setup(prompts=_named(prompts), state=settings.state, tool=offered, **given)
    agent = HttpAgent(settings.url, headers=settings.headers, connect_url=connect_url)
    examination = Examination(agent, setup, _show_progress)
    usual, most = examination.runs
    about, more = ("about ", f", at most {most}") if most > usual else ("", "")
    runs = f" for {about}{counted(usual, 'short run')}{more}"
    with ExitStack() as stack:
        # Opened here: an examination that cannot be written down is not begun.
        files = {kind: stack.enter_context(_opened(path)) for kind, path in paths.items() if path != "-"}
        click.echo(printable(f"asking {examination.address}{runs if usual else ''}"), err=True)
        try:
            asyncio.run(examination.run())
        finally:
            diagnosis = examination.diagnosis()
            _write(diagnosis, files, fail_on)
            shown = next((kind for kind, path in paths.items() if path == "-"), "text")
            click.echo(_written(diagnosis, shown, fail_on), nl=False)
    return _code_of(diagnosis, fail_on)


def _opened(path: str) -> TextIO:
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from error


def _code_of(diagnosis: Diagnosis, fail_on: Severity) -> ExitCode:
    if not diagnosis.is_reachable:
        return ExitCode.USAGE
    return ExitCode.RUN_FAILED if diagnosis.at_least(fail_on) else ExitCode.SUCCESS


def _named(prompts: Sequence[str]) -> dict[str, str]:
    """Read prompts: TEXT is that of plain runs, NAME=TEXT another one."""
    from agui_client.doctor._probes import PROMPTS

    named: dict[str, str] = {}
    for given in prompts:
        name, is_named, text = given.partition("=")
        is_known = is_named and name in PROMPTS
        named[name if is_known else "hello"] = text if is_known else given
    return named


def _write(diagnosis: Diagnosis, files: Mapping[str, TextIO], fail_on: Severity) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    for kind, file in files.items():
        file.write(_written(diagnosis, kind, fail_on))


def _written(diagnosis: Diagnosis, kind: str, fail_on: Severity) -> str:
    from agui_client.doctor import as_html, as_junit

    match kind:
        case "json":
            return diagnosis.model_dump_json(indent=2) + "\n"
        case "junit":
            return as_junit(diagnosis, fail_on=fail_on)
        case "html":
            return as_html(diagnosis)
        case _:
            return printable(str(diagnosis)) + "\n"


def _show_progress(probe: ProbeResult | str) -> None:
    is_terminal = sys.stderr.isatty()
    if isinstance(probe, str):
        if is_terminal:
            click.echo(f"  {probe} ...", err=True, nl=False)
        return
    why = f": {probe.detail}" if probe.detail else ""
    line = one_line(f"{probe.name}: {probe.outcome}{why} ({probe.seconds:.1f} s)")
    click.echo(f"\r  {line}\x1b[K" if is_terminal else f"  {line}", err=True)
