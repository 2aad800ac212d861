"""Arguments and options that describe an agent, a conversation and a prompt."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agui_client._cli.exit_codes import reason_of
from agui_client._core.ground.secrets import address_of
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.protocol.prompts import MediaPart
    from agui_client._core.run.scope import AgentOptions
    from agui_client._core.tools.approval import Approver
    from agui_client._core.tools.interrupts import Answerer
    from agui_client._core.tools.toolset import ToolSource
    from agui_client._core.verbs.async_run import AgentRun

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SUFFIXES_OF_DATABASES = (".db", ".sqlite", ".sqlite3")
URL_VARIABLE = "AGUI_URL"
"""The variable of the environment with the address, where no URL is given."""
PRICE_OPTION = click.option(
    "--price",
    "given_prices",
    metavar="MODEL=IN/OUT",
    multiple=True,
    help="Dollars for a million tokens in and out; * for other models. 'known' counts with the prices of genai-prices.",
)
_HEADERS_VARIABLE = "AGUI_HEADERS"
ENVIRONMENT = f"""\b
Environment:
  {URL_VARIABLE}      the agent's address, where no URL is given
  {_HEADERS_VARIABLE}  request headers, one 'Name: value' a line, or @FILE
"""
"""The end of the help of commands that ask an agent."""
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """An agent and a conversation, as the command line describes them."""

    url: str
    headers: Mapping[str, str]
    state: Any
    """The state to start from, any JSON value; None for none."""
    thread_id: str | None
    timeout: float | None
    model: str | None = None
    """The language model that runs in this process, instead of an agent at the URL."""
    threads: str | None = None
    """The file, or the URL of the database, that keeps the conversation; None if nothing does."""
    owner: str = ""
    """The owner of the thread that is kept."""

    @property
    def shown_url(self) -> str:
        """The address without its password and query, which may be secret; or the name of the model."""
        if self.model is not None:
            return self.model
        return address_of(self.url)

    def make_agent(
        self, *, tools: ToolSource = (), approve: Approver | None = None, answer: Answerer | None = None
    ) -> AbstractAgent:
        """Make the agent.

        Args:
            tools: The tools that the agent may call.
            approve: The function that approves calls.
            answer: The function that answers interrupts.

        Raises:
            click.UsageError: A model was named, and what it needs is not installed.
        """
        options: AgentOptions = {
            "thread_id": self.thread_id,
            "initial_state": self.state,
            "tools": tools,
            "approve": approve,
            "answer": answer,
        }
        if self.model is None:
            # Loaded here, as agents are in all commands: `agui --help` needs none.
            from agui_client._core.agent.http_agent import HttpAgent

            return HttpAgent(self.url, headers=self.headers, timeout=self.timeout, **options)
        try:
            from agui_client.llm import LLMAgent
        except ImportError as error:
            raise click.UsageError(str(error)) from error
        settings = {"extra_headers": dict(self.headers), "timeout": self.timeout}
        return LLMAgent(self.model, model_settings={key: each for key, each in settings.items() if each}, **options)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """An agent and the prompt of one run."""

    agent: AgentSettings
    prompt: str
    attached: Sequence[MediaPart] = ()

    def stream(self, record_to: str | None = None) -> AgentRun:
        """Return the run, which has not started yet.

        Args:
            record_to: The file to record it to; None for none.
        """
        agent = self.agent.make_agent()
        if record_to is not None:
            from agui_client.recording import record

            agent.use(record(record_to))
        return agent.stream([self.prompt, *self.attached] if self.attached else self.prompt)


def run_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of a run to a command; `read_run_settings` takes their values."""
    return _declared(command, _WORDS, _ATTACH, *_OPTIONS)


def chat_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of a conversation to a command; `read_agent_settings` takes their values."""
    return _declared(command, _OPTIONAL_URL, *_OPTIONS)


def batch_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of a batch to a command: url, file, agents, headers and timeout."""
    return _declared(command, _BATCH_WORDS, _AGENTS, _HEADERS, _TIMEOUT)


def evaluate_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of an evaluation to a command: file, urls, agents, headers and timeout."""
    return _declared(command, _EVALUATE_WORDS, _AGENTS, _HEADERS, _TIMEOUT)


def doctor_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of an examination to a command: url, headers, state and timeout."""
    return _declared(command, _OPTIONAL_URL, _HEADERS, _STATE, _TIMEOUT)


def runs_arguments(command: CommandT) -> CommandT:
    """Add the arguments and options of runs to a command: the url of an agent or of a database, headers and timeout."""
    return _declared(command, click.argument("url", callback=_check_runs_url), _HEADERS, _TIMEOUT)


def read_run_settings(
    *, prompt: str, state: str | None, attached: Sequence[MediaPart] = (), **fields: Any
) -> RunSettings:
    """Make the settings of a run; read the state from its file, and the prompt from stdin if it is "-".

    Raises:
        click.UsageError: A file cannot be read, the state is not JSON, or prompt and state are both to come from stdin.
    """
    if prompt == state == "-":
        raise click.UsageError("PROMPT and --state cannot both be read from stdin")
    text = _read("PROMPT", "-").strip() if prompt == "-" else prompt
    return RunSettings(AgentSettings(state=read_json("--state", state), **fields), text, attached)


def read_agent_settings(*, state: str | None, **fields: Any) -> AgentSettings:
    """Make the settings of a conversation; read the state from its file.

    Raises:
        click.UsageError: The state cannot be read, is not JSON, or is to come from stdin.
    """
    if state == "-":
        raise click.UsageError("--state cannot be read from stdin, where the conversation comes from")
    return AgentSettings(state=read_json("--state", state), **fields)


def _declared(command: CommandT, *declarations: Callable[[CommandT], CommandT]) -> CommandT:
    for declare in reversed(declarations):
        command = declare(command)
    return command


def read_json(option: str, path: str | None) -> Any:
    """Read the JSON in the file that an option names; None without one.

    Args:
        option: The name of the option, for errors.
        path: The file; "-" is stdin.

    Raises:
        click.UsageError: It cannot be read, or is not JSON.
    """
    if path is None:
        return None
    from agui_client._core.protocol.patch import parse_json

    text = _read(f"{option} {path}", path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {path} is not JSON: {error}") from error


def _read(what: str, path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{what} cannot be read: {reason_of(error)}") from error


def _check_url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or is_address(value):
        return value
    # The message leaves out an address that may hold a password.
    hint = "" if "@" in value or "://" in value else f"; did you mean http://{value.partition('?')[0]}?"
    raise click.BadParameter(f"this is not an HTTP address{hint}", param_hint="'URL'")


def _check_runs_url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    # `Runs` checks whether the database can be used.
    if value is None or value.startswith(("sqlite:", "postgresql:", "postgresql+")):
        return value
    if "://" in value and not is_address(value):
        # The message leaves out an address that may hold a password.
        kinds = "http://localhost:8000/, sqlite:///runs.db or postgresql://user@host/database"
        raise click.BadParameter(f"write {kinds}, not {value.partition('://')[0]}://", param_hint="'URL'")
    if Path(value).is_file():
        return f"sqlite:///{Path(value).absolute()}"
    if Path(value).suffix in _SUFFIXES_OF_DATABASES:
        raise click.BadParameter(f"there is no file {value}", param_hint="'URL'")
    return _check_url(context, parameter, value)


def needed_url(url: str | None) -> str:
    """Return the address of an agent, without which a command cannot do.

    Raises:
        click.UsageError: There is none.
    """
    if not url:
        raise click.UsageError(f"Missing argument 'URL'; give one, or set {URL_VARIABLE}")
    return url


def is_address(text: str) -> bool:
    """Return whether a text is the address of an agent, as far as its beginning says."""
    return text.lower().startswith(("http://", "https://"))


def _parse_headers(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Read headers from the environment, and then from the options, which replace those of the same name."""
    given = [*os.environ.get(_HEADERS_VARIABLE, "").splitlines(), *values]
    headers: dict[str, tuple[str, str]] = {}
    for line in (line for value in given for line in _header_lines(value)):
        name, colon, content = line.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not content.isascii():
            # The value stays out of the message: it may be a credential.
            raise click.BadParameter("a header reads 'Name: value', in ASCII")
        headers[name.strip().lower()] = name.strip(), content.strip()
    return dict(headers.values())


def _header_lines(value: str) -> list[str]:
    """Return the lines of the file that "@FILE" names; anything else is a line."""
    lines = _read(f"the headers of {value}", value[1:]).splitlines() if value.startswith("@") else [value]
    return [line for line in lines if line.strip()]


def _parse_run_words(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> None:
    """Take the address and the prompt of a run; with AGUI_URL in the environment, one word is the prompt."""
    if len(words) > 2:
        raise click.UsageError("there are too many arguments; put the prompt into quotes")
    is_addressed = len(words) == 2 or any(map(is_address, words))
    url, *prompts = [*words] if is_addressed else [os.environ.get(URL_VARIABLE), *words]
    url = needed_url(url)
    if not prompts:
        raise click.UsageError("Missing argument 'PROMPT'")
    context.params.update(url=_check_url(context, parameter, url), prompt=prompts[0])


def _parse_batch_words(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> None:
    """Take the address and the file of a batch; without an address, there is AGUI_URL, or --agent."""
    if not words:
        raise click.UsageError("Missing argument 'FILE'")
    if len(words) > 2:
        raise click.UsageError("there are too many arguments: give a URL and a FILE")
    *given, file = list(words)
    context.params.update(url=_check_url(context, parameter, given[0]) if given else None, file=file)


def _parse_evaluate_words(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> None:
    """Take the file of an evaluation and the addresses of its agents; without one, there is AGUI_URL, or --agent."""
    if not words:
        raise click.UsageError("Missing argument 'FILE'")
    file, *urls = words
    context.params.update(file=file, urls=[_check_url(context, parameter, url) for url in urls])


def _parse_agents(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    agents: dict[str, str] = {}
    for value in values:
        name, is_named, url = value.partition("=")
        if not (name and is_named and is_address(url)):
            raise click.BadParameter("an agent reads NAME=URL")
        if name in agents:
            raise click.BadParameter(f"there are two agents {name}")
        agents[name] = url
    return agents


def _attach(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[MediaPart]:
    from agui_client._core.protocol.prompts import attach

    try:
        return [attach(value) for value in values]
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


_WORDS = click.argument("words", nargs=-1, metavar="[URL] PROMPT", callback=_parse_run_words, expose_value=False)
_OPTIONAL_URL = click.argument("url", callback=_check_url, required=False, envvar=URL_VARIABLE)
_ATTACH = click.option(
    "--attach",
    "attached",
    multiple=True,
    metavar="FILE_OR_URL",
    callback=_attach,
    help="A file for the prompt, such as an image; may be repeated.",
)
_BATCH_WORDS = click.argument("words", nargs=-1, metavar="[URL] FILE", callback=_parse_batch_words, expose_value=False)
_EVALUATE_WORDS = click.argument(
    "words", nargs=-1, metavar="FILE [URL]...", callback=_parse_evaluate_words, expose_value=False
)
_AGENTS = click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME=URL",
    callback=_parse_agents,
    help="An agent instead of URL; may be repeated.",
)
_HEADERS = click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    callback=_parse_headers,
    help="Request header, or @FILE with one a line; may be repeated.",
)
_TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest wait for the connection, the first event, and between events.",
)
_STATE = click.option(
    "--state",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="JSON file with the state to start from; - reads stdin.",
)
_OPTIONS = (
    _HEADERS,
    _STATE,
    click.option("--thread-id", metavar="ID", help="The conversation to continue; a new one if left out."),
    _TIMEOUT,
)
