"""The commands of `agui`, with their arguments and options.

To change

- a command of `agui`, or an option of one: this module, which loads the work of a command when it is given; `batch`,
  `check`, `doctor`, `evaluate`, `inspect`, `runs` and `threads` have a module each, and options that several commands
  share stand in `_cli/agent_settings.py`; the exit code in `_cli/exit_codes.py`, a command inside a chat in
  `_cli/slash_commands.py`
- an option of `agui serve`: it is declared at `serve` here; a field of `ServeSettings` in `_cli/serve.py` has its value
  also in the process that `--reload` begins, and `make_app` there uses it
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from agui_client._cli.agent_settings import (
    ENVIRONMENT,
    chat_arguments,
    read_agent_settings,
    read_run_settings,
    run_arguments,
)
from agui_client._cli.batches import batch
from agui_client._cli.check import check
from agui_client._cli.command_group import CommandGroup
from agui_client._cli.doctor import doctor
from agui_client._cli.evaluate import evaluate
from agui_client._cli.exit_codes import ExitCode, code_of
from agui_client._cli.inspecting import inspect
from agui_client._cli.loading import views_option
from agui_client._cli.runs import runs
from agui_client._cli.threads import threads
from agui_client._version import VERSIONS
from agui_client.errors import AGUIError
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import WarningLines, escaped_json

if TYPE_CHECKING:
    from agui_client._cli.agent_settings import RunSettings
    from agui_client._core.run.result import RunResult


_EXIT_CODES = """\b
Exit codes:
  0    the run succeeded
  1    the agent reported an error
  2    wrong usage; nothing was sent
  3    no usable response, a broken stream, or a failure here
  4    the agent waits for an answer or a tool's result, or cancelled the run
  130  stopped with Ctrl-C
"""
_EPILOG = f"{ENVIRONMENT}\n{_EXIT_CODES}"
_EPILOG_OF_ALL = f"{ENVIRONMENT}  AGUI_SECRET   the key with which `agui serve` signs interrupts\n\n{_EXIT_CODES}"


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG_OF_ALL,
    invoke_without_command=True,
)
@click.version_option(VERSIONS, message="%(version)s")
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


@agui.command(epilog=_EPILOG)
@run_arguments
@click.option("-v", "--verbose", is_flag=True, help="Also write reasoning, state, usage and timings to stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end, instead of the text.")
@click.option(
    "--record",
    "record_to",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Append what is asked and answered to a recording, for `agui replay` and tests.",
)
@views_option
def run(verbose: bool, as_json: bool, record_to: str | None, **given: Any) -> int:
    """Run the agent at URL and print its reply.

    The reply's text goes to stdout as it arrives; tool calls and warnings go to stderr. PROMPT - reads stdin.
    """
    return asyncio.run(_run(read_run_settings(**given), verbose=verbose, as_json=as_json, record_to=record_to))


@agui.command(epilog=_EPILOG)
@run_arguments
def events(**given: Any) -> int:
    """Run the agent at URL and print its events, one JSON object a line.

    These are the events an application sees: chunks expanded, unknown material removed. PROMPT - reads stdin.
    """
    return asyncio.run(_events(read_run_settings(**given)))


agui.add_command(threads)
agui.add_command(runs)
agui.add_command(batch)
agui.add_command(check)
agui.add_command(doctor)
agui.add_command(evaluate)
agui.add_command(inspect)


@agui.command(epilog=_EPILOG)
@chat_arguments
@click.option(
    "--threads",
    "place",
    metavar="FILE",
    help="Keep the conversation in FILE, or in the database of a URL; needs the extra `store`. --thread-id continues "
    "with one that is there; see agui threads.",
)
@click.option("--owner", default="", metavar="NAME", help="The owner of the thread in --threads; nobody if left out.")
@click.option(
    "--tools",
    "places",
    multiple=True,
    metavar="MODULE:NAME",
    help="A @tool, a list of tools, or a function of a RunAgentInput that chooses; also FILE.py:NAME; may be repeated.",
)
@click.option(
    "--model",
    metavar="PROVIDER:NAME",
    help="Talk with a language model instead, such as ollama:llama3.2 or openai:gpt-5; needs the extra `llm`.",
)
@views_option
def chat(
    place: str | None,
    owner: str,
    places: tuple[str, ...],
    url: str | None,
    model: str | None,
    **given: Any,
) -> int:
    """Talk with the agent at URL or AGUI_URL, or with a language model, or else with the demo agent.

    The agent may call the tools of --tools; you are asked before a tool that wants approval is called. /help lists
    the commands of the chat. If stdin is not a terminal, each line is a prompt, and the first that fails ends the chat.
    """
    # Loaded here: `agui run` needs neither prompt_toolkit nor rich.
    from agui_client._cli.chat import chat_with, chat_with_demo
    from agui_client._cli.tool_loading import load_tools

    tools, given = load_tools(places), {**given, "threads": place, "owner": owner}
    if model is not None:
        if click.get_current_context().get_parameter_source("url") is ParameterSource.COMMANDLINE and url is not None:
            raise click.UsageError("give a URL or --model, not both")
        return chat_with(read_agent_settings(url="", model=model, **given), tools)
    if url is None:
        return chat_with_demo(lambda served: read_agent_settings(url=served, **given), tools)
    return chat_with(read_agent_settings(url=url, **given), tools)


@agui.command()
@click.argument("place", metavar="[MODULE:AGENT]", required=False)
@click.option(
    "--model",
    metavar="PROVIDER:NAME",
    help="Serve a language model instead, such as ollama:llama3.2 or openai:gpt-5; needs the extra `llm`.",
)
@click.option(
    "--tools",
    "places",
    multiple=True,
    metavar="MODULE:NAME",
    help="A tool for the model of --model, or a list of them; also FILE.py:NAME; may be repeated.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name that requests may have for this machine, as behind a tunnel; may be repeated. Of no use with a --host "
    "that other machines reach, which accepts any name.",
)
@click.option(
    "--keep-alive",
    type=click.FloatRange(min=0, min_open=True),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Silence after which a comment keeps the connection open.",
)
@click.option("--expose-errors", is_flag=True, help="Send the text of exceptions to callers; otherwise only log it.")
@click.option(
    "--store",
    metavar="memory|URL",
    help="Keep conversations, and let a run continue when its caller leaves, so that callers come back to both (agui "
    "threads, agui runs): in memory, or in the database at a URL, such as sqlite:///chats.db, when this process ends, "
    "too.",
)
@click.option(
    "--page",
    "has_page",
    is_flag=True,
    help="Show a chat page to browsers at the same address; without --store, it keeps its conversations in memory.",
)
@click.option("--reload", "is_reloading", is_flag=True, help="Load the agent again when a Python file changes.")
def serve(
    place: str | None,
    model: str | None,
    places: tuple[str, ...],
    host: str,
    port: int,
    is_reloading: bool,
    **settings: Any,
) -> int:
    """Serve the agent MODULE:AGENT, also FILE.py:AGENT, over HTTP until Ctrl-C.

    AGENT is an agent, a function that makes one, a function (request, input) that chooses one, or an async generator
    function of a RunAgentInput. If AGUI_SECRET is in the environment, interrupts are signed with it.
    """
    # Loaded here: `agui run` needs no uvicorn.
    from agui_client._cli.serve import ServeSettings, serve_agent

    if (place is None) == (model is None):
        raise click.UsageError("give MODULE:AGENT or --model" + (", not both" if place else ""))
    if places and model is None:
        raise click.UsageError("--tools is for --model; an agent of yours has tools of its own")
    agent = ServeSettings(place=place, model=model, tools=places, **settings)
    return serve_agent(agent, host, port, is_reloading=is_reloading)


@agui.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to serve on; a free one if left out, 8000 with --serve.",
)
@click.option("--serve", "only_serve", is_flag=True, help="Only serve the demo agent, for your own programs.")
def demo(port: int | None, only_serve: bool) -> int:
    """Watch a scripted agent at work, over real HTTP on this machine.

    The agent thinks, calls a tool, writes shared state, streams Markdown, and asks before it books. Without a terminal
    the demo prints plain lines and answers the question itself.
    """
    # Loaded here: `agui run` needs neither uvicorn nor rich.
    from agui_client._cli.demo import serve_demo, show_demo

    return serve_demo(8000 if port is None else port) if only_serve else show_demo(port or 0)


@agui.command(epilog=_EXIT_CODES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1,
    show_default=True,
    help="The pace: 1 as recorded, 10 ten times as fast, 0 without pauses.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also write reasoning, state, usage and timings to stderr.")
def replay(file: str, speed: float, verbose: bool) -> int:
    """Show the recording FILE as if it happened now; nothing is sent anywhere.

    FILE is made with `agui run --record FILE`, or with agui_client.recording.record in a program.
    """
    from agui_client._cli.recordings import replay as show

    return asyncio.run(show(file, speed=speed, verbose=verbose))


async def _run(settings: RunSettings, *, verbose: bool, as_json: bool, record_to: str | None) -> int:
    from agui_client._cli.surfaces import show_with_hint
    from agui_client.terminal._plain_view import PlainView
    from agui_client.terminal._watching import watch

    view = PlainView(answers=None if as_json else sys.stdout, notes=sys.stderr, verbose=verbose)
    WarningLines(view.note).install(shows_texts=True)
    try:
        result = await watch(settings.stream(record_to), view)
    except AGUIError as error:
        if as_json:
            _print_json(cast("RunResult | None", error.partial), error)
        raise
    show_with_hint(result, view)
    view.close(result)
    if as_json:
        _print_json(result)
    return code_of(result)


async def _events(settings: RunSettings) -> int:
    async with settings.stream() as stream:
        async for event in stream:
            click.echo(escaped_json(event.model_dump_json(by_alias=True), sys.stdout))
        return code_of(await stream.result())


def _print_json(result: RunResult | None, error: AGUIError | None = None) -> None:
    document: dict[str, Any] = json.loads(result.to_json()) if result is not None else {}
    if error is not None:
        document["error"] = {
            "type": type(error).__name__,
            "message": " ".join(map(str, error.args)),
            "code": getattr(error, "code", None),
        }
    click.echo(escaped_json(json.dumps(document, ensure_ascii=False, indent=2), sys.stdout))
