"""What `agui run` and `agui events` ask: the command line as an agent and a prompt."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from agui_client._surfaces.stream import AgentRun
from agui_client.http_agent import HttpAgent

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Question:
    """One run, as the command line describes it."""

    url: str
    prompt: str
    headers: Mapping[str, str]
    state: Any
    """The state to start from, any JSON value; None for none."""
    thread_id: str | None
    timeout: float | None

    def stream(self) -> AgentRun:
        """The run, not started yet."""
        agent = HttpAgent(
            self.url,
            headers=self.headers,
            timeout=self.timeout,
            thread_id=self.thread_id,
            initial_state=self.state,
        )
        return agent.stream(self.prompt)


def asks(command: CommandT) -> CommandT:
    """Give a command the arguments and options that describe a run; it receives the fields of a `Question`."""
    for declare in reversed(_DECLARATIONS):
        command = declare(command)
    return command


def question(*, prompt: str, state: str | None, **fields: Any) -> Question:
    """Read what is to be read from files and stdin.

    Raises:
        click.UsageError: The state is not JSON, or two things are to be read from stdin.
    """
    if prompt == state == "-":
        raise click.UsageError("PROMPT and --state cannot both be read from stdin")
    return Question(
        prompt=sys.stdin.read().strip() if prompt == "-" else prompt,
        state=None if state is None else _read_json(state),
        **fields,
    )


def _read_json(path: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8"))
    except ValueError as error:
        raise click.UsageError(f"--state {path} is not JSON: {error}") from error


def _check_url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} is no HTTP address; did you mean http://{value}?")
    return value


def _parse_headers(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for value in values:
        name, colon, content = value.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not content.isascii():
            # The value stays out of the message: it may be a credential.
            raise click.BadParameter("a header reads 'Name: value', in ASCII")
        headers[name.strip()] = content.strip()
    return headers


_DECLARATIONS = (
    click.argument("url", callback=_check_url),
    click.argument("prompt"),
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
