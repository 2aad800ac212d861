"""`agui evaluate`: the conversations of a file of scenarios, with progress on stderr and the table on stdout.

Here are the options and the conversations; what is printed and written when they are over is in `evaluation_end`.
"""

from __future__ import annotations

import asyncio
import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.agent_settings import ENVIRONMENT, PRICE_OPTION, URL_VARIABLE, evaluate_arguments, needed_url
from agui_client._cli.batches import follow
from agui_client._cli.evaluation_end import Gate, Reports, finish_reproductions
from agui_client._cli.exit_codes import ExitCode
from agui_client._core.ground.secrets import address_of
from agui_client.errors import UsageError
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import WarningLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agui_client.evaluation import Scenario
    from agui_client.evaluation._evaluation import Plan

_EPILOG = f"""{ENVIRONMENT}
\b
Exit codes:
  0    enough conversations passed
  1    too few passed: all must, or what --at-least or --baseline ask for
  2    wrong usage, or scenarios that cannot be read; nothing was sent
  3    conversations could not be held, as the agent cannot be reached
  4    --max-tokens was reached; with --journal, the same command continues
  130  stopped with Ctrl-C; with --journal, the same command continues
"""


@click.command(epilog=_EPILOG)
@evaluate_arguments
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Conversations per scenario."
)
@click.option(
    "--at-once", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Conversations at once."
)
@click.option("--journal", metavar="FILE", help="A line for each conversation; the same command continues it.")
@click.option("--keep", metavar="DIR", help="The folder for reproductions of failures.")
@click.option("--shrink", "is_shrinking", is_flag=True, help="Ask the agent again to make them short.")
@click.option("--junit", metavar="FILE", help="Also write the outcomes for a CI system.")
@click.option("--json", "as_json", metavar="FILE", help="Also write the outcomes as JSON.")
@click.option("--html", metavar="FILE", help="Also write a page of HTML.")
@click.option("--only", metavar="NAME", multiple=True, help="Hold these scenarios only; * is any text.")
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="The share of each scenario, and of all, that must pass; 1 if left out.",
)
@click.option(
    "--baseline",
    metavar="JOURNAL",
    help="An earlier journal: fail if the rate fell by more than chance explains (95 %).",
)
@click.option(
    "--per-minute", type=click.FloatRange(0, min_open=True), metavar="N", help="Conversations to begin a minute."
)
@click.option("--max-tokens", type=click.IntRange(0), metavar="N", help="Begin no conversation after N tokens.")
@click.option("--max-cost", metavar="AMOUNT", help='Begin none after a cost of "20 USD".')
@PRICE_OPTION
@click.option("--user", metavar="URL_OR_MODEL", help="The agent that plays the user.")
@click.option("--judge", metavar="URL_OR_MODEL", help="The agent that judges.")
@click.option(
    "--retry", type=click.IntRange(0), default=2, show_default=True, metavar="N", help="Retries of those not held."
)
@click.option("--rerun-failed", is_flag=True, help="Hold conversations again that could not be held.")
def evaluate(
    file: str,
    urls: list[str],
    agents: Mapping[str, str],
    headers: Mapping[str, str],
    timeout: float | None,
    **given: Any,
) -> int:
    """Let the users of the scenarios in FILE talk with the agent at URL, and check what comes of it.

    With two URLs, or --agent old=URL --agent new=URL, it compares agents.
    """
    # Loaded here, as the work of all commands.
    from agui_client._core.agent.http_agent import HttpAgent

    if agents and urls:
        raise click.UsageError("give URLs or --agent, not both")
    addresses = agents or _named(urls or [needed_url(os.environ.get(URL_VARIABLE))])
    made = {name: HttpAgent(url, headers=headers, timeout=timeout) for name, url in addresses.items()}
    return _evaluate(made, file, **given)


def _named(urls: list[str]) -> dict[str, str]:
    """Return addresses by names: one has none, of several the address is the name."""
    named = {address_of(url): url for url in urls} if len(urls) > 1 else {"": urls[0]}
    if len(named) < len(urls):
        raise click.UsageError("two agents have one address; name them with --agent NAME=URL")
    return named


def _evaluate(
    agents: Mapping[str, Any],
    file: str,
    *,
    only: Sequence[str],
    max_tokens: int | None,
    is_shrinking: bool,
    junit: str | None,
    as_json: str | None,
    html: str | None,
    at_least: float | None,
    baseline: str | None,
    given_prices: Sequence[str],
    max_cost: str | None,
    **options: Any,
) -> int:
    from agui_client.batch import Budget
    from agui_client.evaluation._evaluation import Plan
    from agui_client.inspector._prices import read_prices

    _warn_once()
    prices = read_prices(given_prices)
    reports = Reports(junit, as_json, html, prices)
    reports.check_files(file, options["journal"], baseline)
    if is_shrinking and options["keep"] is None and options["journal"] is None:
        raise click.UsageError("--shrink makes reproductions short: give --keep DIR, too")
    chosen: Any = {name: value for name, value in options.items() if value is not None}
    chosen["budget"] = Budget(tokens=max_tokens, cost=max_cost, prices=prices)
    try:
        plan = Plan(agents.get("", agents), _chosen(file, only), chosen, look=None if html is None else reports.look)
        gate = Gate(at_least, baseline, plan)
    except UsageError as wrong:
        complain(str(wrong), *getattr(wrong, "__notes__", ()))  # every fault of the file has a line
        return ExitCode.USAGE
    _hold(plan, reports, has_journal=options["journal"] is not None)
    evaluation = plan.evaluation()
    verdict = gate.verdict(evaluation)
    reports.write(evaluation, verdict)
    if options["keep"] is not None or options["journal"] is not None:
        finish_reproductions(evaluation, agents, options["judge"], is_shrinking=is_shrinking)
    if evaluation.summary is not None and not evaluation.summary.is_complete:
        return ExitCode.UNFINISHED
    if evaluation.broken:
        return ExitCode.BROKEN
    return ExitCode.SUCCESS if verdict.passed else ExitCode.RUN_FAILED


def _warn_once() -> None:
    """Write each warning once, whatever its ids and numbers: the table counts the conversations that have it."""
    from agui_client.batch._results import kind_of

    kinds: set[str] = set()

    def write(line: str) -> None:
        """Write a warning of a new kind."""
        if (kind := kind_of(line)) not in kinds:
            kinds.add(kind)
            complain(line)

    WarningLines(write).install()


def _hold(plan: Plan, reports: Reports, *, has_journal: bool) -> None:
    """Hold the conversations; of a start that is stopped, or fails as of a full disk, print what is finished."""
    try:
        asyncio.run(follow(plan.batch, is_kept=False, finish=plan.add, noun="conversation"))
    except BaseException as stopped:
        evaluation = plan.evaluation()
        if evaluation.outcomes or isinstance(stopped, KeyboardInterrupt):
            reports.show(evaluation)
            again = "the same command continues" if has_journal else "with --journal FILE, the command would continue"
            complain(f"{plan.batch.progress}; {again}")
        raise


def _chosen(file: str, only: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of a file that are wanted."""
    from agui_client.evaluation import read_scenarios

    scenarios = read_scenarios(file)
    names = [each.name for each in scenarios]
    chosen = {name for name in names for pattern in only if name == pattern or fnmatchcase(name, pattern)}
    if missing := [each for each in only if not any(name == each or fnmatchcase(name, each) for name in names)]:
        raise UsageError(f"--only {missing[0]}: there is no such scenario; there are {', '.join(names)}")
    return [each for each in scenarios if not only or each.name in chosen]
