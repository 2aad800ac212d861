"""`agui runs`: runs that are kept, by the address of their agent or the URL of their database."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

import click
from ag_ui.core import Event, Interrupt, ResumeEntry, RunAgentInput
from pydantic import TypeAdapter

from agui_client._cli.agent_settings import runs_arguments
from agui_client._cli.command_group import CommandGroup
from agui_client._cli.exit_codes import ExitCode, code_of, complain, drive
from agui_client._cli.output import Transcript, WarningLines, escaped_json, one_line
from agui_client._interrupts.answers import Cancel, Resolve, cover
from agui_client._tools.approval import Approve, Deny
from agui_client._transport.client import Transport
from agui_client._transport.credentials import Credentials
from agui_client._transport.delivery import fetch
from agui_client._transport.timeouts import Timeouts
from agui_client.errors import HTTPStatusError
from agui_client.function_agent import FunctionAgent
from agui_client.http_agent import HttpAgent
from agui_client.runs import Runs
from agui_client.runs.records import Place, cursor_of

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Answer
    from agui_client.agent import AbstractAgent

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_INTERRUPTS = TypeAdapter(list[Interrupt])
_KEEPS_NONE = (404, 405, 422)
"""Statuses of servers without kept runs at the address; an `agent_app` reads the request as an incomplete input."""


class KeptRuns(Protocol):
    """Runs that are kept somewhere; their descriptions are JSON, as the protocol spells it."""

    async def list(self) -> list[dict[str, Any]]:
        """Return the descriptions of the runs, those that began last first."""
        ...

    async def stop(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a run; return its description."""
        ...

    async def answer(self, info: Mapping[str, Any], resume: Sequence[ResumeEntry]) -> dict[str, Any]:
        """Answer a run; return the description of the one that goes on."""
        ...

    def follower(self, info: Mapping[str, Any]) -> AbstractAgent:
        """Return an agent whose run of the same id is a run, from its beginning to its end."""
        ...


@dataclass(frozen=True, slots=True)
class ServedRuns:
    """The runs that an agent at an address keeps."""

    url: str
    """The address of the agent."""
    headers: Mapping[str, str]
    """The headers of each request."""
    timeout: float | None
    """The seconds to wait for each answer; None for the default."""

    async def list(self) -> list[dict[str, Any]]:
        """Return the descriptions of the runs."""
        try:
            found: list[dict[str, Any]] = await self._ask("runs")
        except HTTPStatusError as error:
            if error.status_code not in _KEEPS_NONE:
                raise
            raise click.UsageError(
                "no agent at this address keeps runs; check its path, or serve the agent with agui serve --runs memory "
                "or agent_app(..., runs=Runs())"
            ) from error
        return found

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
        return HttpAgent(self.url, headers=headers, timeout=self.timeout, thread_id=info["threadId"])

    async def _ask(self, path: str, **body: Any) -> Any:
        """Send a command, and return the JSON that answers it.

        Args:
            path: The end of the address, such as "stop".
            body: The JSON of the command.

        Raises:
            TransportError: No answer arrived.
        """
        parts = urlsplit(self.url)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()
        transport = Transport(url, credentials=Credentials(self.headers))
        content = json.dumps(body).encode()
        return json.loads(await fetch(transport, transport.url, Timeouts.of(self.timeout), content))


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs in a database, of which this process carries out none."""

    runs: Runs
    """The runs, without agents."""

    async def list(self) -> list[dict[str, Any]]:
        """Return the descriptions of the runs."""
        return [each.to_dict() for each in await self.runs.list()]

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


@asynccontextmanager
async def _opened(url: str, headers: Mapping[str, str], timeout: float | None) -> AsyncGenerator[KeptRuns]:
    """Open the runs of an address or a database, as a block.

    Raises:
        UsageError: The database cannot be used.
        click.UsageError: There are no runs in it.
    """
    if url.lower().startswith("http"):
        yield ServedRuns(url, headers, timeout)
        return
    stored = Runs(url)
    from agui_client.runs.run_tables import has_runs, url_of

    if not has_runs(url_of(url)):
        raise click.UsageError("no runs were ever kept in this database; agui serve --runs URL keeps them there")
    async with stored:
        yield StoredRuns(stored)


async def _found(kept: KeptRuns, run_id: str) -> dict[str, Any]:
    """Return the description of a run.

    Raises:
        click.UsageError: There is no such run, or there are several.
    """
    found = [each for each in await kept.list() if each["runId"] == run_id]
    if not found:
        raise click.UsageError(f"no run {run_id} is kept there; agui runs list shows those that are")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} runs have the id {run_id}, in several threads or of several owners")
    return found[0]


async def _follow(kept: KeptRuns, info: Mapping[str, Any]) -> int:
    """Show a run from its beginning to its end, and return the exit code."""
    transcript = Transcript(answers=sys.stdout, notes=sys.stderr, verbose=False)
    WarningLines(transcript.note).install()
    try:
        async with kept.follower(info).stream(run_id=info["runId"]) as stream:
            async for event in stream:
                transcript.show(event, stream.state)
            result = await stream.result()
    finally:
        transcript.end()
    transcript.close(result)
    return code_of(result)


@click.group(cls=CommandGroup)
def runs() -> None:
    """List, follow, stop and answer runs that are kept.

    URL is the address of an agent that keeps its runs, with `agui serve --runs memory` or agent_app(..., runs=Runs()),
    or the URL of their database, such as sqlite:///runs.db or postgresql://user@host/database. -H and --timeout are
    for addresses. At an address, there are the runs that `authorize=` lets the caller see; in a database, all of them.
    """


_RUN = click.argument("run_id", metavar="RUN")


@runs.command("list")
@runs_arguments
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_runs(as_json: bool, **given: Any) -> int:
    """List the runs that are kept at URL, those that began last first."""

    async def list_them() -> int:
        """Print a line for each."""
        async with _opened(**given) as kept:
            infos = await kept.list()
        if not infos:
            complain("there are no runs; those that have ended are kept for some minutes")
        for info in infos:
            click.echo(escaped_json(json.dumps(info, ensure_ascii=False), sys.stdout) if as_json else _line(info))
        return ExitCode.SUCCESS

    return drive(lambda: asyncio.run(list_them()))


@runs.command()
@runs_arguments
@_RUN
def follow(run_id: str, **given: Any) -> int:
    """Print the run RUN from its beginning, and follow it to its end; Ctrl-C leaves it alone."""

    async def follow_it() -> int:
        """Find and follow it."""
        async with _opened(**given) as kept:
            return await _follow(kept, await _found(kept, run_id))

    return drive(lambda: asyncio.run(follow_it()))


@runs.command()
@runs_arguments
@_RUN
def stop(run_id: str, **given: Any) -> int:
    """Stop the run RUN, and wait until it has ended."""

    async def stop_it() -> int:
        """Find and stop it."""
        async with _opened(**given) as kept:
            click.echo(_line(await kept.stop(await _found(kept, run_id))))
        return ExitCode.SUCCESS

    return drive(lambda: asyncio.run(stop_it()))


@runs.command()
@runs_arguments
@_RUN
@click.argument("answers", nargs=-1, required=True, metavar="ANSWER...")
def answer(run_id: str, answers: tuple[str, ...], **given: Any) -> int:
    """Answer the run RUN, which waits, and follow the run that goes on.

    ANSWER is approve, deny, cancel, or an answer as JSON or text. If the run has several interrupts, there is one
    INTERRUPT=ANSWER for each.
    """

    async def answer_it() -> int:
        """Find the run, answer it, and follow the next one."""
        async with _opened(**given) as kept:
            info = await _found(kept, run_id)
            interrupts = _INTERRUPTS.validate_python(info["interrupts"])
            if not interrupts:
                raise click.UsageError(f"this run waits for no answer: it is {info['status']}")
            begun = await kept.answer(info, cover(interrupts, _answers(answers, interrupts)))
            return await _follow(kept, begun)

    return drive(lambda: asyncio.run(answer_it()))


def _answers(words: tuple[str, ...], interrupts: list[Interrupt]) -> dict[str, Answer]:
    """Return the answers that the words of the command line mean, by interrupt id.

    Raises:
        click.UsageError: A word names no interrupt.
    """
    if len(words) == len(interrupts) == 1:
        return {interrupts[0].id: _answer(words[0])}
    # The longest first: an id may have "=" in it, and begin like another one.
    ids = sorted((each.id for each in interrupts), key=len, reverse=True)
    answers: dict[str, Answer] = {}
    for word in words:
        found = next((each for each in ids if word.startswith(f"{each}=")), None)
        if found is None:
            raise click.UsageError(f"write INTERRUPT=ANSWER, with one of these: {', '.join(map(one_line, ids))}")
        answers[found] = _answer(word[len(found) + 1 :])
    return answers


def _answer(word: str) -> Answer:
    decisions: dict[str, Answer] = {"approve": Approve(), "deny": Deny(), "cancel": Cancel()}
    if word in decisions:
        return decisions[word]
    try:
        return Resolve(json.loads(word))
    except ValueError:
        return Resolve(word)


def _line(info: Mapping[str, Any]) -> str:
    about = "; ".join(one_line(each.get("message") or each["reason"]) for each in info["interrupts"])
    status = info["status"]
    if info["isQueued"]:
        status, about = "queued", "waits for a process that has its agent"
    ids = f"{one_line(info['runId'])}  {one_line(info['threadId'])}"
    return f"{ids}  {status:10}  {info['begunAt'][:19]}  {info['eventCount']:>5} events  {about}".rstrip()
