"""Runs that are kept, for `agui runs`: at the address of their agent, or in their database.

To change

- a column of `agui runs list`: `_line` here; it shows a `RunInfo` (`_core/agent/run_records.py`), all of which `--json`
  prints
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from ag_ui.core import Event, Interrupt, ResumeEntry, RunAgentInput

from agui_client._cli.agent_settings import is_address
from agui_client._cli.error_report import report
from agui_client._cli.exit_codes import ExitCode, code_of
from agui_client._cli.surfaces import show_with_hint
from agui_client._core.agent.function_agent import FunctionAgent
from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.agent.run_records import Place, cursor_of
from agui_client._core.protocol.patch import parse_json
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.interrupts import HOW_BY_ID, Cancel, Resolve, cover
from agui_client.errors import IncompleteRunError, InterruptsNotCoveredError, RunNotFoundError
from agui_client.store import Runs, Store
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import WarningLines, escaped_json, one_line
from agui_client.terminal._plain_view import PlainView
from agui_client.terminal._watching import watch

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.agent.server_runs import RunsClient
    from agui_client._core.tools.interrupts import Answer
    from agui_client.store import RunInfo

_PAGE = 500
"""The most descriptions that are asked for at once."""


@dataclass(frozen=True, slots=True)
class ServedRuns:
    """The runs that an agent at an address keeps."""

    url: str
    """The address of the agent."""
    about: Mapping[str, Any]
    """Further arguments of the agent: headers and timeout."""

    @property
    def runs(self) -> RunsClient:
        """The runs."""
        return HttpAgent(self.url, **self.about).runs

    def named(self, info: RunInfo) -> dict[str, Any]:
        """Return the arguments that name a run beside its id."""
        return {"thread_id": info.thread_id}

    def follower(self, info: RunInfo) -> AbstractAgent:
        """Return an agent whose run is the run."""
        # An agent over HTTP, and not `runs.follow`: an error says then whether a stream was cut or a run failed.
        # At a cursor, as the same request without one would begin the run anew if it is not kept any more.
        about = {**self.about}
        about["headers"] = {**about["headers"], "Last-Event-ID": cursor_of(info.run_id, Place(0))}
        return HttpAgent(self.url, thread_id=info.thread_id, **about)


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs in a database, of which this process carries out none."""

    runs: Runs
    """The runs, without agents."""

    def named(self, info: RunInfo) -> dict[str, Any]:
        """Return the arguments that name a run beside its id."""
        return {"thread_id": info.thread_id, "owner": info.owner}

    def follower(self, info: RunInfo) -> AbstractAgent:
        """Return an agent whose run is the run."""

        async def events(asked: RunAgentInput) -> AsyncGenerator[Event]:
            """Follow the run."""
            async with aclosing(self.runs.follow(info.run_id, **self.named(info))) as followed:
                async for _, event in followed:
                    yield event

        return FunctionAgent(events, thread_id=info.thread_id)


RunService: TypeAlias = ServedRuns | StoredRuns
"""Runs that are kept somewhere."""


@asynccontextmanager
async def _opened(url: str, **about: Any) -> AsyncGenerator[RunService]:
    """Open the runs of an address or a database, as a block.

    Raises:
        UsageError: The database cannot be used.
        click.UsageError: There are no runs in it.
    """
    if is_address(url):
        yield ServedRuns(url, about)
        return
    store = Store(url)
    from agui_client.store._sql.run_rows import has_runs

    if not has_runs(url):
        raise click.UsageError("no runs were ever kept in this database; agui serve --store URL keeps them there")
    async with store:
        yield StoredRuns(store.runs)


async def _listed(kept: RunService, limit: int, status: str | None) -> list[RunInfo]:
    """Return descriptions of runs, those that began last first."""
    found: list[RunInfo] = []
    while some := await kept.runs.list(
        status=status, limit=min(limit - len(found), _PAGE), after=found[-1] if found else None
    ):
        found += some
        if len(found) >= limit:
            break
    return found


async def _found(kept: RunService, run_id: str, thread_id: str | None) -> RunInfo:
    """Return the description of a run.

    Raises:
        click.UsageError: There is no such run.
        UsageError: There are several.
    """
    try:
        return await kept.runs.info(run_id, thread_id=thread_id)
    except RunNotFoundError as error:
        raise click.UsageError(f"no run {run_id} is kept there; agui runs list shows those that are") from error


async def _follow(kept: RunService, info: RunInfo) -> int:
    """Show a run from its beginning to its end, and return the exit code."""
    view = PlainView(answers=sys.stdout, notes=sys.stderr)
    WarningLines(view.note).install()
    try:
        result = await watch(kept.follower(info).stream(run_id=info.run_id), view)
    except IncompleteRunError as error:
        complain(*report(error, "the run may continue without this command; agui runs list shows what became of it"))
        return ExitCode.BROKEN
    show_with_hint(result, view)
    view.close(result, is_kept=True)
    return code_of(result)


async def show_all(*, limit: int, status: str | None, as_json: bool, **where: Any) -> int:
    """Print a line for each run, and return the exit code."""
    async with _opened(**where) as kept:
        infos = await _listed(kept, limit, status)
    if not infos:
        which = "" if status is None else f" that are {status}"
        complain(f"there are no runs{which}; those that have ended are kept for the seconds of Store(keep=)")
    for info in infos:
        line = escaped_json(json.dumps(info.to_dict(), ensure_ascii=False), sys.stdout) if as_json else _line(info)
        click.echo(line)
    return ExitCode.SUCCESS


async def follow(run_id: str, thread_id: str | None, **where: Any) -> int:
    """Show a run, and return the exit code."""
    async with _opened(**where) as kept:
        return await _follow(kept, await _found(kept, run_id, thread_id))


async def stop(run_id: str, thread_id: str | None, **where: Any) -> int:
    """Stop a run, and print what became of it."""
    async with _opened(**where) as kept:
        info = await _found(kept, run_id, thread_id)
        click.echo(_line(await kept.runs.stop(run_id, **kept.named(info))))
    return ExitCode.SUCCESS


async def answer(run_id: str, words: tuple[str, ...], thread_id: str | None, **where: Any) -> int:
    """Answer a run with the words of the command line, and show the run that continues."""
    async with _opened(**where) as kept:
        info = await _found(kept, run_id, thread_id)
        resume = _resume_entries(info, words)
        if isinstance(kept, StoredRuns):
            complain(
                "a server of this database continues the run; the command waits until there is one. Ctrl-C leaves "
                "the answer to it; agui runs list shows the run as queued, and agui runs stop withdraws it"
            )
        return await _follow(kept, await kept.runs.answer(run_id, resume, **kept.named(info)))


def _resume_entries(info: RunInfo, words: tuple[str, ...]) -> list[ResumeEntry]:
    """Return the answers that the words of the command line give to a run.

    Raises:
        click.UsageError: The run waits for no answer, or the words do not answer it.
    """
    if not info.interrupts:
        raise click.UsageError(f"this run waits for no answer: it is {info.status.value}")
    try:
        return cover(info.interrupts, _answers(words, info.interrupts), HOW_BY_ID)
    except InterruptsNotCoveredError as error:
        ids = ", ".join(one_line(each.id) for each in info.interrupts)
        allowed = "an answer is approve, deny, cancel, or JSON or text that fits"
        raise click.UsageError(f"{error}; {allowed}; INTERRUPT=ANSWER is for {ids}") from error


def _answers(words: tuple[str, ...], interrupts: Sequence[Interrupt]) -> dict[str, Answer]:
    """Return the answers that the words of the command line mean, by interrupt id.

    Raises:
        click.UsageError: A word names no interrupt.
    """
    # The longest first: an id may have "=" in it, and begin like another one.
    ids = sorted((each.id for each in interrupts), key=len, reverse=True)
    answers: dict[str, Answer] = {}
    for word in words:
        found = next((each for each in ids if word.startswith(f"{each}=")), None)
        if found is None and len(words) == len(interrupts) == 1:
            return {ids[0]: _answer(word)}
        if found is None:
            raise click.UsageError(f"write INTERRUPT=ANSWER, with one of these: {', '.join(map(one_line, ids))}")
        answers[found] = _answer(word[len(found) + 1 :])
    return answers


def _answer(word: str) -> Answer:
    decisions: dict[str, Answer] = {"approve": Approve(), "deny": Deny(), "cancel": Cancel()}
    if word in decisions:
        return decisions[word]
    try:
        return Resolve(parse_json(word))
    except ValueError:
        return Resolve(word)


def _line(info: RunInfo) -> str:
    status, about = info.status.value, "; ".join(one_line(each.message or each.reason) for each in info.interrupts)
    if info.is_queued:
        status, about = "queued", "waits for a process that has its agent"
    ids = f"{one_line(info.run_id)}  {one_line(info.thread_id)}"
    begun = info.begun_at.isoformat()[:19]
    return f"{ids}  {status:10}  {begun}  {info.event_count:>5} events  {about}".rstrip()
