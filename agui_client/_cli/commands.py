"""The commands: what they take, and what they do with a run."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click
from ag_ui.core import PROTOCOL_VERSION
from pydantic_core import to_jsonable_python

from agui_client._cli.exits import ExitCode, code_of, complain, drive
from agui_client._cli.output import Transcript, WarningLines, shown_json
from agui_client._cli.peers import asks, peer, question, talks
from agui_client.errors import AGUIError

if TYPE_CHECKING:
    from agui_client._cli.peers import Question
    from agui_client.result import RunResult


def _version() -> str:
    try:
        return version("agui-client")
    except PackageNotFoundError:
        return "(not installed)"


_EXIT_CODES = """\b
Exit codes:
  0    the run succeeded
  1    the agent reported an error
  2    wrong usage; nothing was sent
  3    no usable response, a broken stream, or a failure here
  4    the agent waits for an answer or a tool's result, or cancelled the run
  130  stopped with Ctrl-C
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXIT_CODES, invoke_without_command=True)
@click.version_option(_version(), message=f"agui %(version)s (AG-UI {PROTOCOL_VERSION})")
@click.pass_context
def agui(context: click.Context) -> int:
    """Talk to AG-UI agents from the terminal.

    Begin with `agui demo`: it needs no server.
    """
    WarningLines(complain).install()
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return ExitCode.USAGE
    return ExitCode.SUCCESS


@agui.command(epilog=_EXIT_CODES)
@asks
@click.option("-v", "--verbose", is_flag=True, help="Tell reasoning, state, usage and timings on stderr, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end, instead of the text.")
def run(verbose: bool, as_json: bool, **asked: Any) -> int:
    """Run the agent at URL and print its answer.

    The answer's text goes to stdout as it arrives; tool calls and warnings go to stderr. PROMPT - reads stdin.
    """
    asking = question(**asked)
    return drive(lambda: asyncio.run(_run(asking, verbose=verbose, as_json=as_json)))


@agui.command(epilog=_EXIT_CODES)
@asks
def events(**asked: Any) -> int:
    """Run the agent at URL and print its events, one JSON object a line.

    These are the events an application sees: chunks expanded, unknown material removed. PROMPT - reads stdin.
    """
    asking = question(**asked)
    return drive(lambda: asyncio.run(_events(asking)))


@agui.command(epilog=_EXIT_CODES)
@talks
@click.option(
    "--tools",
    "places",
    multiple=True,
    metavar="MODULE:NAME",
    help="A @tool, a list of them, or a function of a RunAgentInput that chooses; FILE.py:NAME, too; may be repeated.",
)
def chat(places: tuple[str, ...], url: str | None, **asked: Any) -> int:
    """Talk with the agent at URL, or with the demo agent.

    It may call the tools you give it, and asks you before those that want approval. /help lists what else can be said.
    Where nobody types, each line of stdin is a prompt, and the first that fails ends the chat.
    """
    # Loaded here: `agui run` needs neither prompt_toolkit nor rich.
    from agui_client._cli.chat import chat_with, chat_with_demo
    from agui_client._cli.toolbox import load_tools

    tools = load_tools(places)
    if url is None:
        return drive(lambda: chat_with_demo(lambda served: peer(url=served, **asked), tools))
    whom = peer(url=url, **asked)
    return drive(lambda: chat_with(whom, tools))


@agui.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to serve on; if left out, a free one, or, with --serve, 8000.",
)
@click.option("--serve", "only_serve", is_flag=True, help="Only serve the demo agent, for programs of your own.")
def demo(port: int | None, only_serve: bool) -> int:
    """Watch a scripted agent at work, over real HTTP on this machine.

    It thinks, calls a tool, writes shared state, streams Markdown, and asks before it acts. Without a terminal the
    demo prints plain lines and answers the question itself.
    """
    # Loaded here: `agui run` needs neither uvicorn nor rich.
    from agui_client._cli.demo import serve_demo, show_demo

    return drive(lambda: serve_demo(8000 if port is None else port) if only_serve else show_demo(port or 0))


async def _run(asked: Question, *, verbose: bool, as_json: bool) -> int:
    transcript = Transcript(answers=None if as_json else sys.stdout, notes=sys.stderr, verbose=verbose)
    WarningLines(transcript.note).install()
    try:
        async with asked.stream() as stream:
            async for event in stream:
                transcript.show(event, stream.state)
            result = await stream.result()
    except AGUIError as error:
        if as_json:
            _print_json(error.partial, error)
        raise
    finally:
        transcript.end_line()
    transcript.close(result)
    if as_json:
        _print_json(result)
    return code_of(result)


async def _events(asked: Question) -> int:
    async with asked.stream() as stream:
        async for event in stream:
            click.echo(shown_json(event.model_dump_json(by_alias=True), sys.stdout))
        return code_of(await stream.result())


def _print_json(result: RunResult | None, error: AGUIError | None = None) -> None:
    document: dict[str, Any] = to_jsonable_python(result, by_alias=True) if result is not None else {}
    if error is not None:
        document["error"] = {"type": type(error).__name__, "message": str(error), "code": getattr(error, "code", None)}
    click.echo(shown_json(json.dumps(document, ensure_ascii=False, indent=2), sys.stdout))
