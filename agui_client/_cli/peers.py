"""Whom the commands ask, and what: the command line as an agent and a prompt."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from agui_client._cli.exits import reason_of
from agui_client.http_agent import HttpAgent

if TYPE_CHECKING:
    from agui_client._surfaces.stream import AgentRun
    from agui_client._tools.approval import Approver
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Answerer

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Peer:
    """An agent and a conversation with it, as the command line describes them."""

    url: str
    headers: Mapping[str, str]
    state: Any
    """The state to start from, any JSON value; None for none."""
    thread_id: str | None
    timeout: float | None

    @property
    def place(self) -> str:
        """Where it is, without what may be secret: a password, a token."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def agent(
        self, *, tools: ToolSource = (), approve: Approver | None = None, answer: Answerer | None = None
    ) -> HttpAgent:
        """The agent.

        Args:
            tools: Tools that it may call.
            approve: Who approves that.
            answer: Who answers its questions.
        """
        return HttpAgent(
            self.url,
            headers=self.headers,
            timeout=self.timeout,
            thread_id=self.thread_id,
            initial_state=self.state,
            tools=tools,
            approve=approve,
            answer=answer,
        )


@dataclass(frozen=True, slots=True)
class Question:
    """One run."""

    peer: Peer
    prompt: str

    def stream(self) -> AgentRun:
        """The run, not started yet."""
        return self.peer.agent().stream(self.prompt)


def asks(command: CommandT) -> CommandT:
    """Give a command the arguments and options that describe a run; `question` takes their values."""
    return _declared(command, _URL, _PROMPT, *_OPTIONS)


def talks(command: CommandT) -> CommandT:
    """Give a command the arguments and options that describe a conversation; `peer` takes their values."""
    return _declared(command, _OPTIONAL_URL, *_OPTIONS)


def question(*, prompt: str, state: str | None, **fields: Any) -> Question:
    """Read what is to be read from files and stdin.

    Raises:
        click.UsageError: One cannot be read, the state is not JSON, or two things are to be read from stdin.
    """
    if prompt == state == "-":
        raise click.UsageError("PROMPT and --state cannot both be read from stdin")
    said = _read("PROMPT", "-").strip() if prompt == "-" else prompt
    return Question(Peer(state=_read_json(state), **fields), said)


def peer(*, state: str | None, **fields: Any) -> Peer:
    """Read what is to be read from files.

    Raises:
        click.UsageError: The state cannot be read, is not JSON, or is to be read from stdin.
    """
    if state == "-":
        raise click.UsageError("--state cannot be read from stdin, where the conversation comes from")
    return Peer(state=_read_json(state), **fields)


def _declared(command: CommandT, *declarations: Callable[[CommandT], CommandT]) -> CommandT:
    for declare in reversed(declarations):
        command = declare(command)
    return command


def _read_json(path: str | None) -> Any:
    if path is None:
        return None
    text = _read(f"--state {path}", path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--state {path} is not JSON: {error}") from error


def _read(what: str, path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{what} cannot be read: {reason_of(error)}") from error


def _check_url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value.lower().startswith(("http://", "https://")):
        return value
    # What may have a password in it is not repeated.
    hint = "" if "@" in value or "://" in value else f"; did you mean http://{value.partition('?')[0]}?"
    raise click.BadParameter(f"this is no HTTP address{hint}")


def _parse_headers(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for value in values:
        name, colon, content = value.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not content.isascii():
            # The value stays out of the message: it may be a credential.
            raise click.BadParameter("a header reads 'Name: value', in ASCII")
        headers[name.strip()] = content.strip()
    return headers


_URL = click.argument("url", callback=_check_url)
_OPTIONAL_URL = click.argument("url", callback=_check_url, required=False)
_PROMPT = click.argument("prompt")
_OPTIONS = (
    click.option(
        "-H",
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        callback=_parse_headers,
        help="Request header; may be repeated.",
    ),
    click.option(
        "--state",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="JSON file with the state to start from; - reads stdin.",
    ),
    click.option("--thread-id", metavar="ID", help="The conversation to go on with; a new one if left out."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Longest wait for the connection, the first event, and between events.",
    ),
)
