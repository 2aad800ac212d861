"""Runs that are kept, for `agui runs`: at the address of their agent, or in their database."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import click
from ag_ui.core import Event, Interrupt, ResumeEntry, RunAgentInput
from pydantic import TypeAdapter

from agui_client._cli.agent_settings import is_address
from agui_client._cli.error_report import report
from agui_client._cli.exit_codes import ExitCode, code_of, complain
from agui_client._cli.lines import WarningLines, escaped_json, one_line
from agui_client._cli.plain_view import PlainRun
from agui_client._cli.watching import watch
from agui_client._interrupts.answers import HOW_BY_ID, Cancel, Resolve, cover
from agui_client._protocol.patch import parse_json
from agui_client._tools.approval import Approve, Deny
from agui_client._transport.client import Transport
from agui_client._transport.credentials import Credentials
from agui_client._transport.delivery import fetch
from agui_client._transport.timeouts import Timeouts
from agui_client.errors import HTTPStatusError, IncompleteRunError, InterruptsNotCoveredError
from agui_client.function_agent import FunctionAgent
from agui_client.http_agent import HttpAgent
from agui_client.reconnect import LastEventId
from agui_client.store import Runs, Store
from agui_client.store.runs.records import Place, cursor_of

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Answer
    from agui_client.agent import AbstractAgent

_INTERRUPTS = TypeAdapter(list[Interrupt])
T = TypeVar("T")
_PAGE = 500
"""The most descriptions that are asked for at once."""
_KEEPS_NONE = (404, 405, 422)
"""Statuses of servers without kept runs at the address; an `agent_app` reads the request as an incomplete input."""


@dataclass(frozen=True, slots=True)
class ServedRuns:
    """The runs that an agent at an address keeps."""

    url: str
    """The address of the agent."""
    headers: Mapping[str, str]
    """The headers of each request."""
    timeout: float | None
    """The seconds to wait for each answer; None for the default."""

    async def list(self, limit: int) -> list[dict[str, Any]]:
        """Return descriptions of the runs, those that began last first."""
        try:
            return await _listed(lambda most, last: self._ask("runs", limit=most, after=last), limit)
        except HTTPStatusError as error:
            if error.status_code not in _KEEPS_NONE:
                raise
            raise click.UsageError(
                "no agent at this address keeps runs; check its path, or serve the agent with agui serve --store "
                "memory or agent_app(..., store=Store())"
            ) from error

    async def stop(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a run."""
        stopped: dict[str, Any] = await self._ask("stop", runId=info["runId"], threadId=info["threadId"])
        return stopped

    async def answer(self, info: Mapping[str, Any], resume: Sequence[ResumeEntry]) -> dict[str, Any]:
        """Answer a run."""
        entries = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in resume]
        named = {"runId": info["runId"], "threadId": info["threadId"]}
        begun: dict[str, Any] = await self._ask("answer", **named, resume=entries)
        return begun

    def follower(self, info: Mapping[str, Any]) -> AbstractAgent:
        """Return an agent whose run is the run."""
        # At a cursor, as the same request without one would begin the run anew if it is not kept any more.
        headers = {**self.headers, "Last-Event-ID": cursor_of(info["runId"], Place(0))}
        policy, connect_url = LastEventId(), self._below("connect")
        about: Any = {"timeout": self.timeout, "connect_url": connect_url, "reconnect": policy}
        return HttpAgent(self.url, headers=headers, thread_id=info["threadId"], **about)

    async def _ask(self, path: str, **body: Any) -> Any:
        """Send a command, and return the JSON that answers it.

        Args:
            path: The end of the address, such as "stop".
            body: The JSON of the command.

        Raises:
            TransportError: No answer arrived.
        """
        transport = Transport(self._below(path), credentials=Credentials(self.headers))
        content = json.dumps(body).encode()
        return parse_json(await fetch(transport, transport.url, Timeouts.of(self.timeout), content))

    def _below(self, path: str) -> str:
        parts = urlsplit(self.url)
        return parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs in a database, of which this process carries out none."""

    runs: Runs
    """The runs, without agents."""

    async def list(self, limit: int) -> list[dict[str, Any]]:
        """Return descriptions of the runs, those that began last first."""
        infos = await _listed(lambda most, last: self.runs.list(limit=most, after=last), limit)
        return [each.to_dict() for each in infos]

    async def stop(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a run."""
        return (await self.runs.stop(info["runId"], thread_id=info["threadId"], owner=info["owner"])).to_dict()

    async def answer(self, info: Mapping[str, Any], resume: Sequence[ResumeEntry]) -> dict[str, Any]:
        """Answer a run; a process that has its agent goes on with it."""
        named = {"thread_id": info["threadId"], "owner": info["owner"]}
        complain(
            "a server of this database goes on with the run; the command waits until there is one. Ctrl-C leaves the "
            "answer to it; agui runs list shows the run as queued, and agui runs stop withdraws it"
        )
        return (await self.runs.answer(info["runId"], resume, **named)).to_dict()

    def follower(self, info: Mapping[str, Any]) -> AbstractAgent:
        """Return an agent whose run is the run."""

        async def events(asked: RunAgentInput) -> AsyncGenerator[Event]:
            """Follow the run."""
            named = {"thread_id": info["threadId"], "owner": info["owner"]}
            async with aclosing(self.runs.follow(info["runId"], **named)) as followed:
                async for _, event in followed:
                    yield event

        return FunctionAgent(events, thread_id=info["threadId"])


KeptRuns: TypeAlias = ServedRuns | StoredRuns
"""Runs that are kept somewhere; their descriptions are JSON, as the protocol spells it."""


@asynccontextmanager
async def _opened(url: str, headers: Mapping[str, str], timeout: float | None) -> AsyncGenerator[KeptRuns]:
    """Open the runs of an address or a database, as a block.

    Raises:
        UsageError: The database cannot be used.
        click.UsageError: There are no runs in it.
    """
    if is_address(url):
        yield ServedRuns(url, headers, timeout)
        return
    store = Store(url)
    from agui_client.store.sql.run_rows import has_runs

    if not has_runs(url):
        raise click.UsageError("no runs were ever kept in this database; agui serve --store URL keeps them there")
    async with store:
        yield StoredRuns(store.runs)


async def _listed(page: Callable[[int, Any], Awaitable[Sequence[T]]], limit: int) -> list[T]:
    """Return the first of some descriptions.

    Args:
        page: Returns at most a number of them, those behind the last one that is known.
        limit: The most to return.
    """
    found: list[T] = []
    while some := await page(min(limit - len(found), _PAGE), found[-1] if found else None):
        found += some
        if len(found) >= limit:
            break
    return found


async def _found(kept: KeptRuns, run_id: str) -> dict[str, Any]:
    """Return the description of a run.

    Raises:
        click.UsageError: There is no such run, or there are several.
    """
    found = [each for each in await kept.list(sys.maxsize) if each["runId"] == run_id]
    if not found:
        raise click.UsageError(f"no run {run_id} is kept there; agui runs list shows those that are")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} runs have the id {run_id}, in several threads or of several owners")
    return found[0]


async def _follow(kept: KeptRuns, info: Mapping[str, Any]) -> int:
    """Show a run from its beginning to its end, and return the exit code."""
    view = PlainRun(answers=sys.stdout, notes=sys.stderr)
    WarningLines(view.note).install()
    try:
        result = await watch(kept.follower(info).stream(run_id=info["runId"]), view)
    except IncompleteRunError as error:
        complain(*report(error, "the run may go on without this command; agui runs list shows what became of it"))
        return ExitCode.BROKEN
    view.close(result, is_kept=True)
    return code_of(result)


async def show_all(*, limit: int, as_json: bool, **where: Any) -> int:
    """Print a line for each run, and return the exit code."""
    async with _opened(**where) as kept:
        infos = await kept.list(limit)
    if not infos:
        complain("there are no runs; those that have ended are kept for the seconds of Store(keep=)")
    for info in infos:
        click.echo(escaped_json(json.dumps(info, ensure_ascii=False), sys.stdout) if as_json else _line(info))
    return ExitCode.SUCCESS


async def follow(run_id: str, **where: Any) -> int:
    """Show a run, and return the exit code."""
    async with _opened(**where) as kept:
        return await _follow(kept, await _found(kept, run_id))


async def stop(run_id: str, **where: Any) -> int:
    """Stop a run, and print what became of it."""
    async with _opened(**where) as kept:
        click.echo(_line(await kept.stop(await _found(kept, run_id))))
    return ExitCode.SUCCESS


async def answer(run_id: str, words: tuple[str, ...], **where: Any) -> int:
    """Answer a run with the words of the command line, and show the run that goes on."""
    async with _opened(**where) as kept:
        info = await _found(kept, run_id)
        return await _follow(kept, await kept.answer(info, _resume_entries(info, words)))


def _resume_entries(info: Mapping[str, Any], words: tuple[str, ...]) -> list[ResumeEntry]:
    """Return the answers that the words of the command line give to a run.

    Raises:
        click.UsageError: The run waits for no answer, or the words do not answer it.
    """
    interrupts = _INTERRUPTS.validate_python(info["interrupts"])
    if not interrupts:
        raise click.UsageError(f"this run waits for no answer: it is {info['status']}")
    try:
        return cover(interrupts, _answers(words, interrupts), HOW_BY_ID)
    except InterruptsNotCoveredError as error:
        ids = ", ".join(one_line(each.id) for each in interrupts)
        allowed = "an answer is approve, deny, cancel, or JSON or text that fits"
        raise click.UsageError(f"{error}; {allowed}; INTERRUPT=ANSWER is for {ids}") from error


def _answers(words: tuple[str, ...], interrupts: list[Interrupt]) -> dict[str, Answer]:
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


def _line(info: Mapping[str, Any]) -> str:
    about = "; ".join(one_line(each.get("message") or each["reason"]) for each in info["interrupts"])
    status = info["status"]
    if info["isQueued"]:
        status, about = "queued", "waits for a process that has its agent"
    ids = f"{one_line(info['runId'])}  {one_line(info['threadId'])}"
    return f"{ids}  {status:10}  {info['begunAt'][:19]}  {info['eventCount']:>5} events  {about}".rstrip()
