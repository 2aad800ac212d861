"""`agui batch`: an agent run on every row of a file, with progress on stderr, and a journal to continue with."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.agent_settings import ENVIRONMENT, PRICE_OPTION, URL_VARIABLE, batch_arguments, needed_url
from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.inspecting import refuse_replacing
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agui_client._core.agent.http_agent import HttpAgent
    from agui_client.batch import Batch, RowResult, Summary

_EPILOG = f"""{ENVIRONMENT}
\b
Exit codes:
  0    every row has a reply
  1    rows failed; --rerun-failed runs them again
  2    wrong usage, or rows that cannot be used; nothing was sent
  3    a failure here, such as a full disk
  4    a budget was spent; the same command continues
  130  stopped with Ctrl-C; the same command continues
"""
_PAUSE = 10.0
"""Seconds between two lines of progress in a file; on a terminal, the batch draws its bar itself."""


@click.command(epilog=_EPILOG)
@batch_arguments
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    help="The results: .jsonl, written row by row; or .csv or .parquet, made of FILE.journal.jsonl at the end.",
)
@click.option("--prompt", default="prompt", show_default=True, metavar="COLUMN", help="The column of the prompts.")
@click.option("--key", metavar="COLUMN", help="The column that names each row.")
@click.option(
    "--at-once", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Rows that run at once."
)
@click.option(
    "--per-minute", type=click.FloatRange(0, min_open=True), metavar="N", help="The most rows to begin in a minute."
)
@click.option(
    "--retry", type=click.IntRange(0), default=2, show_default=True, metavar="N", help="Repetitions of a failed row."
)
@click.option(
    "--retry-on",
    type=click.Choice(["unsent", "transport", "any"]),
    default="unsent",
    show_default=True,
    help="Repeat unbegun runs, those that were cut, too, or all failures.",
)
@click.option("--rerun-failed", is_flag=True, help="Run failed rows of earlier starts again.")
@click.option("--max-rows", type=click.IntRange(0), metavar="N", help="Stop after N rows.")
@click.option("--max-tokens", type=click.IntRange(0), metavar="N", help="Begin no row after N tokens.")
@click.option("--max-cost", metavar="AMOUNT", help='Begin no row after a cost of "20 USD".')
@PRICE_OPTION
@click.option("--max-seconds", type=click.FloatRange(0), metavar="N", help="Begin no row after N seconds.")
@click.option("--max-failures", type=click.IntRange(0), metavar="N", help="Begin no row after more than N failures.")
def batch(
    url: str | None,
    file: str,
    agents: Mapping[str, str],
    headers: Mapping[str, str],
    timeout: float | None,
    **given: Any,
) -> int:
    """Run the agent at URL on every row of FILE, and write the replies to --out.

    FILE is .csv, .tsv, .jsonl, .ndjson or .parquet. Ctrl-C, or anything worse, loses no finished row: the same command
    continues. --agent old=URL --agent new=URL compares agents.
    """
    from agui_client._core.agent.http_agent import HttpAgent

    if agents and url is not None:
        raise click.UsageError("give a URL or --agent, not both")
    urls = agents or {"": needed_url(url or os.environ.get(URL_VARIABLE))}
    used = {name: HttpAgent(each, headers=headers, timeout=timeout) for name, each in urls.items()}
    return _run_batch(used if agents else used[""], file, **given)


def _run_batch(
    agent: HttpAgent | Mapping[str, HttpAgent],
    file: str,
    *,
    out: str,
    retry: int,
    retry_on: Any,
    max_rows: int | None,
    max_tokens: int | None,
    max_cost: str | None,
    given_prices: Sequence[str],
    max_seconds: float | None,
    max_failures: int | None,
    **options: Any,
) -> int:
    # Loaded here: the other commands need no batch.
    from agui_client.batch import Budget, RowRetry, run_many, write_table
    from agui_client.batch._tables import table_writer
    from agui_client.inspector._prices import read_prices

    path = Path(out)
    refuse_replacing(path, file)
    table_writer(path)  # before anything is sent
    is_journal = path.suffix.lower() == ".jsonl"
    journal = path if is_journal else path.with_name(f"{path.name}.journal.jsonl")
    many = run_many(
        agent,
        file,
        journal=journal,
        retry=RowRetry(times=retry, on=retry_on),
        budget=Budget(
            rows=max_rows,
            tokens=max_tokens,
            cost=max_cost,
            prices=read_prices(given_prices),
            seconds=max_seconds,
            failures=max_failures,
        ),
        **options,
    )
    try:
        finished = asyncio.run(follow(many, is_kept=not is_journal))
    except KeyboardInterrupt:
        complain(f"{many.progress}; the same command continues with {journal}")
        raise
    if not is_journal:
        write_table(sorted(finished), path)
    click.echo(printable(str(many.summary)), err=True)
    return _code_of(many.summary)


def _code_of(summary: Summary) -> ExitCode:
    if not summary.is_complete:
        return ExitCode.UNFINISHED
    return ExitCode.RUN_FAILED if summary.failed else ExitCode.SUCCESS


async def follow(
    batch: Batch, *, is_kept: bool, finish: Callable[[RowResult], object] | None = None, noun: str = "row"
) -> list[RowResult]:
    """Run a batch with progress on stderr.

    Args:
        is_kept: Whether results are needed.
        finish: Called with each result, at once.
        noun: The word for a row.

    Returns:
        The results in the order in which rows were finished, if they are needed.
    """
    finished: list[RowResult] = []
    complained: set[str] = set()
    ticker = asyncio.create_task(_show_progress(batch))
    try:
        async for done in batch:
            if finish is not None:
                finish(done)
            if is_kept:
                finished.append(replace(done, result=None))
            if done.error is not None and not done.from_journal and done.error.kind not in complained:
                # The first of each kind; the summary counts them.
                complained.add(done.error.kind)
                complain(f"{noun} {done.key} failed: {done.error.type}: {done.error.message}")
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker
    return finished


async def _show_progress(batch: Batch) -> None:
    while not sys.stderr.isatty():
        await asyncio.sleep(_PAUSE)
        click.echo(one_line(str(batch.progress)), err=True)
