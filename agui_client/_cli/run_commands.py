"""`agui runs`: the runs that a served agent keeps, whether or not anybody follows them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from ag_ui.core import Interrupt
from pydantic import TypeAdapter

from agui_client._cli.agent_settings import address_arguments
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
from agui_client.http_agent import HttpAgent
from agui_client.runs.records import Place, cursor_of

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Answer

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_INTERRUPTS = TypeAdapter(list[Interrupt])
_NOT_FOUND = (404, 405)


@dataclass(frozen=True, slots=True)
class ServedRuns:
    """The runs that an agent at an address keeps."""

    url: str
    """The address of the agent."""
    headers: Mapping[str, str]
    """The headers of each request."""
    timeout: float | None
    """The seconds to wait for each answer; None for the default."""

    async def ask(self, path: str, **body: Any) -> Any:
        """Send a command, and return the JSON that answers it.

        Args:
            path: The end of the address, such as "stop".
            body: The JSON of the command.

        Raises:
            click.UsageError: The agent keeps no runs.
            TransportError: No answer arrived.
        """
        parts = urlsplit(self.url)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()
        transport = Transport(url, credentials=Credentials(self.headers))
        content = json.dumps(body).encode()
        try:
            answer = await fetch(transport, transport.url, Timeouts.of(self.timeout), content)
        except HTTPStatusError as error:
            if error.status_code in _NOT_FOUND and path == "runs":
                raise click.UsageError("this agent keeps no runs; serve it with agui serve --runs memory") from error
            raise
        return json.loads(answer)

    async def find(self, run_id: str) -> dict[str, Any]:
        """Return the description of a run.

        Raises:
            click.UsageError: The agent keeps no such run.
        """
        found: list[dict[str, Any]] = [each for each in await self.ask("runs") if each["runId"] == run_id]
        if not found:
            raise click.UsageError(f"no run {run_id} is kept there; agui runs list shows those that are")
        return found[0]

    async def follow(self, info: Mapping[str, Any]) -> int:
        """Show a run from its beginning to its end, and return the exit code."""
        # At a cursor, as the same request without one would begin the run anew if it is not kept any more.
        headers = {**self.headers, "Last-Event-ID": cursor_of(info["runId"], Place(0))}
        agent = HttpAgent(self.url, headers=headers, timeout=self.timeout, thread_id=info["threadId"])
        transcript = Transcript(answers=sys.stdout, notes=sys.stderr, verbose=False)
        WarningLines(transcript.note).install()
        try:
            async with agent.stream(run_id=info["runId"]) as stream:
                async for event in stream:
                    transcript.show(event, stream.state)
                result = await stream.result()
        finally:
            transcript.end()
        transcript.close(result)
        return code_of(result)


@click.group(cls=CommandGroup)
def runs() -> None:
    """List, follow, stop and answer the runs of a served agent.

    The agent at URL keeps its runs with `agui serve --runs memory`, or with agent_app(..., runs=Runs()).
    """


_RUN = click.argument("run_id", metavar="RUN")


@runs.command("list")
@address_arguments
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_runs(as_json: bool, **given: Any) -> int:
    """List the runs that the agent at URL keeps, those that began last first."""

    async def list_them() -> int:
        """Print a line for each."""
        infos = await ServedRuns(**given).ask("runs")
        if not infos:
            complain("there are no runs; those that have ended are kept for some minutes")
        for info in infos:
            click.echo(escaped_json(json.dumps(info, ensure_ascii=False), sys.stdout) if as_json else _line(info))
        return ExitCode.SUCCESS

    return drive(lambda: asyncio.run(list_them()))


@runs.command()
@address_arguments
@_RUN
def follow(run_id: str, **given: Any) -> int:
    """Print the run RUN from its beginning, and follow it to its end; Ctrl-C leaves it alone."""

    async def follow_it() -> int:
        """Find and follow it."""
        served = ServedRuns(**given)
        return await served.follow(await served.find(run_id))

    return drive(lambda: asyncio.run(follow_it()))


@runs.command()
@address_arguments
@_RUN
def stop(run_id: str, **given: Any) -> int:
    """Stop the run RUN, and wait until it has ended."""

    async def stop_it() -> int:
        """Find and stop it."""
        served = ServedRuns(**given)
        info = await served.find(run_id)
        click.echo(_line(await served.ask("stop", runId=run_id, threadId=info["threadId"])))
        return ExitCode.SUCCESS

    return drive(lambda: asyncio.run(stop_it()))


@runs.command()
@address_arguments
@_RUN
@click.argument("answers", nargs=-1, required=True, metavar="ANSWER...")
def answer(run_id: str, answers: tuple[str, ...], **given: Any) -> int:
    """Answer the run RUN, which waits, and follow the run that goes on.

    ANSWER is approve, deny, cancel, or an answer as JSON or text. If the run has several interrupts, there is one
    INTERRUPT=ANSWER for each.
    """

    async def answer_it() -> int:
        """Find the run, answer it, and follow the next one."""
        served = ServedRuns(**given)
        info = await served.find(run_id)
        interrupts = _INTERRUPTS.validate_python(info["interrupts"])
        entries = cover(interrupts, _answers(answers, interrupts))
        resume = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in entries]
        begun = await served.ask("answer", runId=run_id, threadId=info["threadId"], resume=resume)
        return await served.follow(begun)

    return drive(lambda: asyncio.run(answer_it()))


def _answers(words: tuple[str, ...], interrupts: list[Interrupt]) -> dict[str, Answer]:
    """Return the answers that the words of the command line mean, by interrupt id.

    Raises:
        click.UsageError: The run waits for no answer, or a word names no interrupt.
    """
    if not interrupts:
        raise click.UsageError("this run waits for no answer")
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
    asked = "; ".join(one_line(each.get("message") or each["reason"]) for each in info["interrupts"])
    ids = f"{one_line(info['runId'])}  {one_line(info['threadId'])}"
    return f"{ids}  {info['status']:8}  {info['begunAt'][:19]}  {info['eventCount']:5d} events  {asked}".rstrip()
