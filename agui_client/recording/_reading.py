"""Recordings as objects: the lines of a file, and what was asked and answered in it, request by request."""

from __future__ import annotations

import gzip
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ag_ui.core import RunAgentInput
from pydantic import ValidationError

from agui_client._core.ground.files import FILE_ERRORS, file_reason, opened
from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.problems import first_problem
from agui_client._core.protocol.schema import is_object
from agui_client.errors import UsageError
from agui_client.recording._format import (
    FORMAT,
    KINDS,
    LINE,
    CallLine,
    EndingPart,
    EndLine,
    EventLine,
    HeaderLine,
    Line,
    OutcomeLine,
    RequestLine,
    ResponseLine,
    ToolLine,
)
from agui_client.recording._references import TooManyReferencesError, WholeInputs

_MOST_BYTES = 250_000_000
"""As objects in memory, lines take seven times as much and more."""


class RecordingError(UsageError):
    """A file is not a recording that can be read."""


@dataclass
class Exchange:
    """One request, and everything that belongs to it."""

    request: RequestLine
    """The request."""
    responses: list[ResponseLine] = field(default_factory=list[ResponseLine])
    """The responses to the attempts to post it; empty for agents in the recording's process."""
    events: list[EventLine] = field(default_factory=list[EventLine])
    """The events of the response, as the agent sent them."""
    end: EndLine | None = None
    """The end of the response; None if the program was stopped before."""
    tools: list[ToolLine] = field(default_factory=list[ToolLine])
    """The tools that were executed after it, step by step."""
    outcome: OutcomeLine | None = None
    """The client's verdict on the run."""
    call_end: CallLine | None = None
    """The end of the call, if this is its last request; None if the program was stopped before."""

    @property
    def input(self) -> RunAgentInput:
        """The input that the agent got.

        Raises:
            RecordingError: What was recorded is none, or refers to an earlier request that the file does not have.
        """
        if self.request.base is not None:
            lost = f"refers to request {self.request.base}, which is not in the file before it as it was"
            raise RecordingError(f"the input of request {self.request.request} cannot be read: it {lost}")
        try:
            return RunAgentInput.model_validate(self.request.input, by_alias=True, by_name=False)
        except ValidationError as error:
            problem = first_problem(error)
            raise RecordingError(f"the input of request {self.request.request} cannot be read: {problem}") from None


@dataclass
class Recording:
    """A recording that was read, as far as it goes: its file may end in the middle of a run, or of a line."""

    path: Path
    """The file."""
    lines: Sequence[Line]
    """All lines, in order."""
    headers: list[HeaderLine] = field(default_factory=list[HeaderLine])
    """The beginnings of its sessions."""
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    """The requests with their responses, in the order in which they were made."""
    is_cut: bool = False
    """Whether the file ends in the middle of a line."""

    def __post_init__(self) -> None:
        found: dict[str, Exchange] = {}
        for line in self.lines:
            match line:
                case HeaderLine():
                    self.headers.append(line)
                case RequestLine():
                    found[line.request] = Exchange(line)
                case _ if (exchange := found.get(line.request or "")) is not None:
                    _add(exchange, line)
                case _:
                    pass
        self.exchanges.extend(found.values())

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, max_bytes: int = _MOST_BYTES) -> Recording:
        """Read a file; one whose name ends in .gz is unpacked.

        Args:
            path: The file.
            max_bytes: The most bytes of a line; of everything in a packed file, of which three megabytes can hold three
                gigabytes; and of the references from inputs to earlier messages, eight for each message.

        Raises:
            RecordingError: It cannot be read, is not a recording, is of a newer format, or passes `max_bytes`.
        """
        path = Path(path)
        is_packed = path.suffix == ".gz"
        try:
            with opened(path) as file:
                lines, is_cut = read_lines(path, _texts(path, file, max_bytes, is_packed=is_packed), max_bytes)
        except FILE_ERRORS as error:
            raise RecordingError(f"the recording {path} cannot be read: {file_reason(error)}") from None
        if not any(isinstance(line, HeaderLine) for line in lines):
            raise RecordingError(f"{path} is not a recording: it has no header; see agui_client.recording.record")
        return cls(path, lines, is_cut=is_cut)

    @classmethod
    def parse(cls, content: bytes, *, path: str | os.PathLike[str] = "-") -> Recording:
        """Make a recording of the content of a file that was read elsewhere, such as standard input.

        Args:
            content: The lines.
            path: The name of the file, for messages.

        Raises:
            RecordingError: It is not a recording, or of a newer format.
        """
        lines, is_cut = read_lines(Path(path), content.splitlines())
        return cls(Path(path), lines, is_cut=is_cut)


def lines_of_call(lines: Iterable[Line], call: str) -> list[Line]:
    """Return the lines of a call, and of the calls that were made inside it.

    Args:
        lines: The lines of a recording.
        call: The key of the call.
    """
    calls, session = {call}, call.rpartition("-")[0]
    found: list[Line] = []
    for line in lines:
        if isinstance(line, HeaderLine):
            is_wanted = line.session == session
        elif isinstance(line, ToolLine | EndingPart):
            is_wanted = line.call in calls
        else:
            if isinstance(line, RequestLine) and line.parent in calls:
                calls.add(line.call)
            is_wanted = line.request.rpartition(".")[0] in calls
        if is_wanted:
            found.append(line)
    return found


def _texts(path: Path, file: BinaryIO | gzip.GzipFile, max_bytes: int, *, is_packed: bool) -> Iterator[bytes]:
    """Read the lines of a file one by one."""
    left, number = max_bytes, 0
    while text := file.readline(left + 1):
        number += 1
        if len(text) > left:
            bound = f"{max_bytes / 1_000_000:g} MB; raise max_bytes= of Recording.read"
            if is_packed:
                raise RecordingError(f"{path} unpacks to more than {bound}, or unpack the file with gunzip")
            raise RecordingError(f"{path}, line {number} is longer than {bound}")
        if is_packed:
            left -= len(text)
        yield text.removeprefix(BOM_UTF8) if number == 1 else text  # some editors write one


def _add(exchange: Exchange, line: Line) -> None:
    match line:
        case EventLine():
            exchange.events.append(line)
        case ResponseLine():
            exchange.responses.append(line)
        case EndLine():
            exchange.end = line
        case ToolLine():
            exchange.tools.append(line)
        case OutcomeLine():
            exchange.outcome = line
        case CallLine():
            exchange.call_end = line
        case _:
            pass


def read_lines(path: Path, texts: Iterable[bytes], max_bytes: int = _MOST_BYTES) -> tuple[list[Line], bool]:
    """Read lines; a broken one counts for cut off if it is the last of the file or of a session."""
    lines: list[Line] = []
    inputs = WholeInputs(max_bytes)
    broken: tuple[int, str] | None = None
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        line = read_line(text)
        if broken is not None and not isinstance(line, HeaderLine):
            raise RecordingError(f"{path}, line {broken[0]}: {broken[1]}")
        broken = (number, line) if isinstance(line, str) else None
        if isinstance(line, HeaderLine) and line.format > FORMAT:
            newer = f"{path} is a recording of format {line.format}, and this version reads format {FORMAT}"
            raise RecordingError(f"{newer}; upgrade agui_client")
        if line is None or isinstance(line, str):
            continue
        try:
            lines.append(inputs.restore(line))
        except TooManyReferencesError:
            bound = f"{max_bytes / 1_000_000:g} MB; raise max_bytes= of Recording.read"
            raise RecordingError(f"{path}, line {number}: the inputs so far take more than {bound}") from None
    return lines, broken is not None


def read_line(text: bytes) -> Line | str | None:
    """Return a line; None for one of an unknown kind, and the reason in a sentence for one that cannot be read."""
    try:
        return LINE.validate_json(text)
    except ValidationError as error:
        problem = first_problem(error)
    try:
        data = load_json(text)
    except ValueError:
        return "it is not JSON"
    except RecursionError:
        return "it is nested too deeply"
    if is_object(data) and isinstance(data.get("kind"), str) and data["kind"] not in KINDS:
        return None
    return f"it is not a line of a recording: {problem}"
