"""`agui evaluate`: the conversations of a file of scenarios, with progress on stderr and the table on stdout."""

from __future__ import annotations

import asyncio
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.agent_settings import ENVIRONMENT, URL_VARIABLE, evaluate_arguments, needed_url
from agui_client._cli.batches import follow
from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.inspecting import refuse_replacing
from agui_client._core.ground.files import replace_private
from agui_client._core.ground.secrets import address_of
from agui_client.errors import AGUIError, UsageError
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agui_client.evaluation import Evaluation, Outcome, Scenario
    from agui_client.inspector._prices import Prices
    from agui_client.recording import Recording

_EPILOG = f"""{ENVIRONMENT}
\b
Exit codes:
  0    every conversation passed
  1    a check failed, or fewer conversations passed than --at-least; with --baseline alone, only what became worse
  2    wrong usage, or scenarios that cannot be read; nothing was sent
  3    conversations could not be held, as the agent cannot be reached
  4    --max-tokens was reached; with --journal, the same command goes on
  130  stopped with Ctrl-C; with --journal, the same command goes on
"""


@click.command(epilog=_EPILOG)
@evaluate_arguments
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Conversations in each scenario.")
@click.option("--at-once", type=click.IntRange(1), default=10, show_default=True, help="Conversations at once.")
@click.option("--journal", metavar="FILE", help="A line for each conversation; the same command goes on with it.")
@click.option("--keep", metavar="DIR", help="The folder for cassettes of conversations that failed.")
@click.option("--shrink", "is_shrinking", is_flag=True, help="Ask the agent again to make the cassettes short.")
@click.option("--junit", metavar="FILE", help="Also write the outcomes for a CI system.")
@click.option("--json", "as_json", metavar="FILE", help="Also write the outcomes as JSON.")
@click.option("--html", metavar="FILE", help="Also write a page whose conversations open in the inspector.")
@click.option("--only", metavar="NAME", multiple=True, help="Hold these scenarios only; NAME may have * in it.")
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="The share of conversations that must pass, of each scenario and of all, such as 0.9; all if left out.",
)
@click.option(
    "--baseline",
    metavar="JOURNAL",
    help="An earlier journal: fail if conversations pass less often, and the 95 % interval excludes chance.",
)
@click.option(
    "--per-minute", type=click.FloatRange(0, min_open=True), metavar="N", help="Conversations to begin a minute."
)
@click.option("--max-tokens", type=click.IntRange(0), metavar="N", help="Begin no conversation after N tokens.")
@click.option(
    "--price",
    "given_prices",
    metavar="MODEL=IN/OUT",
    multiple=True,
    help="The price of a million tokens of a model that go in, and of those that come out; without one, no cost.",
)
@click.option("--user", metavar="URL_OR_MODEL", help="The agent that plays the user, such as openai:gpt-5.")
@click.option("--judge", metavar="URL_OR_MODEL", help="The agent that judges.")
@click.option("--retry", type=click.IntRange(0), default=2, show_default=True, help="Repetitions of those not held.")
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

    With two URLs, or --agent old=URL --agent new=URL, agents stand side by side.
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
    junit: str | None,
    as_json: str | None,
    html: str | None,
    is_shrinking: bool,
    only: Sequence[str],
    at_least: float | None,
    baseline: str | None,
    max_tokens: int | None,
    given_prices: Sequence[str],
    **options: Any,
) -> int:
    from agui_client.batch import Budget
    from agui_client.evaluation._evaluation import Plan
    from agui_client.evaluation._gate import read_baseline
    from agui_client.evaluation._junit import write_junit
    from agui_client.inspector._prices import read_prices

    prices = read_prices(given_prices)
    _check_outputs([junit, as_json, html], file, options["journal"], baseline)
    if is_shrinking and options["keep"] is None and options["journal"] is None:
        raise click.UsageError("--shrink makes cassettes short: give --keep DIR, too")
    chosen: Any = {name: value for name, value in options.items() if value is not None}
    chosen["budget"] = Budget(tokens=max_tokens)
    recordings: dict[tuple[str, str], Any] = {}

    def look(outcome: Outcome, recording: Recording) -> None:
        """Keep a recording for the page."""
        recordings[outcome.agent, outcome.name] = recording

    try:
        plan = Plan(
            agents.get("", agents),
            _chosen(file, only),
            chosen,
            look=None if html is None else look,
        )
        before = None if baseline is None else read_baseline(baseline, plan)
    except UsageError as wrong:
        complain(str(wrong), *getattr(wrong, "__notes__", ()))  # every fault of the file has a line
        return ExitCode.USAGE
    try:
        asyncio.run(follow(plan.batch, is_kept=False, finish=plan.add, noun="conversation"))
    except KeyboardInterrupt:
        _print(plan.evaluation(), prices)
        again = "the same command goes on" if options["journal"] else "with --journal FILE, the command would go on"
        complain(f"{plan.batch.progress}; {again}")
        raise
    evaluation = plan.evaluation()
    _print(evaluation, prices)
    refused, gate = _gate(evaluation, at_least, before)
    for sentence in refused:
        click.echo(printable(sentence))
    if junit is not None:
        write_junit(evaluation, junit)
    _write_reports(evaluation, as_json, html, recordings, prices, gate)
    if options["keep"] is not None or options["journal"] is not None:
        _finish_cassettes(evaluation, agents, options["judge"], is_shrinking=is_shrinking)
    if evaluation.summary is not None and not evaluation.summary.is_complete:
        return ExitCode.UNFINISHED
    if evaluation.broken:
        return ExitCode.BROKEN
    return ExitCode.SUCCESS if gate["gate"]["passed"] else ExitCode.RUN_FAILED


def _chosen(file: str, only: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of a file that are wanted."""
    from agui_client.evaluation import read_scenarios

    scenarios = read_scenarios(file)
    names = [each.name for each in scenarios]
    chosen = {name for name in names for pattern in only if name == pattern or fnmatchcase(name, pattern)}
    if missing := [each for each in only if not any(name == each or fnmatchcase(name, each) for name in names)]:
        raise UsageError(f"--only {missing[0]}: there is no such scenario; there are {', '.join(names)}")
    return [each for each in scenarios if not only or each.name in chosen]


def _gate(
    evaluation: Evaluation, at_least: float | None, before: Evaluation | None
) -> tuple[list[str], dict[str, Any]]:
    """Return what is to be said about the gate, and the gate for a report."""
    from agui_client.evaluation._gate import below, worse

    changes = [] if before is None else worse(evaluation, before)
    share = 1.0 if at_least is None and before is None else at_least
    low = [] if share is None else below(evaluation, share)
    passed = not low and not any(each.is_certain for each in changes)
    said = [*(low if at_least is not None else []), *(["against the baseline:"] if before is not None else [])]
    said += [f"  {each}" for each in changes] or (["  nothing passes less often"] if before is not None else [])
    return said, {"gate": {"passed": passed, "below": low, "worse": [str(each) for each in changes]}}


def _write_reports(
    evaluation: Evaluation,
    as_json: str | None,
    html: str | None,
    recordings: Mapping[tuple[str, str], Recording],
    prices: Prices,
    gate: Mapping[str, Any],
) -> None:
    from agui_client.evaluation._reports import html_report, json_report

    if as_json is not None:
        replace_private(Path(as_json), json_report(evaluation, prices, gate))
    if html is not None:
        replace_private(Path(html), html_report(evaluation, recordings, prices))


def _print(evaluation: Evaluation, prices: Prices) -> None:
    from agui_client.evaluation._outcomes import text_of

    click.echo("\n".join(printable(line) for line in text_of(evaluation, prices).splitlines()))


def _check_outputs(paths: Iterable[str | None], *read: str | None) -> None:
    """Refuse files that cannot be written, before anything is sent."""
    for path in (Path(each) for each in paths if each is not None):
        refuse_replacing(path, *read)
        if path.is_dir() or not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise click.UsageError(f"{path} cannot be written; name a file in a folder that exists")


def _finish_cassettes(
    evaluation: Evaluation, agents: Mapping[str, Any], judge: str | None, *, is_shrinking: bool
) -> None:
    """Make the cassettes of this start short, or replay them, and name those that do not fail again."""
    from agui_client.evaluation import shrink
    from agui_client.evaluation._kept_failures import without_replay

    for outcome in evaluation.failures:
        if outcome.cassette is None or outcome.from_journal:
            continue
        try:
            if gone := without_replay(outcome):
                complain(f"{outcome.cassette}: does not replay {', '.join(gone)}: time and secrets are not recorded")
            elif is_shrinking:
                # Of two agents, the other one shows which prompt the failure needs.
                other = next((agent for name, agent in agents.items() if name != outcome.agent), None)
                shrink(outcome, agents[outcome.agent], reference=other, judge=judge).save(outcome.cassette)
        except (AGUIError, OSError) as error:
            complain(f"{outcome.cassette} stays as it is: {error}")
