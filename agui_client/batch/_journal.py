"""The journal of a batch: a JSON line for each finished row, appended in one write, so that a kill loses no other row.

A line that a kill cut in two is dropped at the next start; one that is damaged otherwise stays, and its row is run
again. Of several lines of a row the last one counts. A lock keeps a second program out.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from agui_client._core.ground.files import replacing
from agui_client._core.ground.json_reading import load_json
from agui_client._core.ground.secrets import hidden_line
from agui_client._core.protocol.patch import parse_json
from agui_client.batch._results import JournalLine, error_of, from_line
from agui_client.batch._rows import Row
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from agui_client.batch._results import RowResult

_BEGINNING = b'{"key":'
"""The bytes that every line begins with."""
_PADDING = b"\0\r\n\t "
"""Bytes that a crash of the machine or an editor puts around lines."""
_logger = logging.getLogger("agui_client.batch")


_ENTRY = TypeAdapter(JournalLine)
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class Journal:
    """The journal in a file, which is made for its owner alone if it does not exist; as a block, closed at its end.

    Args:
        path: The file.
        rerun_failed: Whether lines of failed rows are removed, so that these rows are run again.
        hides_secrets: Whether lines are written without secrets, as those of recordings are.

    Raises:
        UsageError: The file cannot be read or written, is not a journal, or another program has it.
    """

    def __init__(self, path: Path, *, rerun_failed: bool = False, hides_secrets: bool = False) -> None:
        self.path, self._hides_secrets = path, hides_secrets
        self.lines: dict[tuple[str, str], Mapping[str, Any]] = {}
        """The lines by key and agent."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        except OSError as error:
            raise UsageError(f"the journal {path} cannot be opened: {error.strerror}") from error
        try:
            self._lock()
            self._load()
            if rerun_failed and any(line["error"] is not None for line in self.lines.values()):
                self._remove_failed()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # no disk does this for a pipe or a device
            os.fsync(self._file)
        os.close(self._file)

    def append(self, done: RowResult) -> None:
        """Write the line of a row.

        Raises:
            OSError: The disk is full, or failed; nothing of the line is left.
        """
        text = _line_of(done)
        line = left = memoryview(hidden_line(text.decode()).encode() if self._hides_secrets else text)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - len(line) + len(left))
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another program is writing the journal {self.path}; wait for its end") from None

    def _load(self) -> None:
        *lines, rest = self._raw_lines()
        damaged = {number: line for number, line in enumerate([*lines, rest], start=1) if not self._add(line)}
        if not self.lines and (foreign := [number for number, line in damaged.items() if not _is_ours(line)]):
            what = f"line {foreign[0]} is not a line of a journal of agui_client.batch; give another file"
            raise UsageError(f"{self.path}, {what}")
        if len(lines) + 1 in damaged and _is_cut(rest):
            # The line that was being written when the program was killed.
            os.ftruncate(self._file, sum(len(line) + 1 for line in lines))
            del damaged[len(lines) + 1]
        elif rest:
            os.write(self._file, b"\n")
        for number in damaged:
            _logger.warning("%s, line %d is damaged and stays as it is; its row is run again", self.path, number)

    def _raw_lines(self) -> list[bytes]:
        os.lseek(self._file, 0, os.SEEK_SET)
        return _content(self._file).split(b"\n")

    def _add(self, line: bytes) -> bool:
        """Take the entry of a line, in place of one that its row had before; return whether the line can be used."""
        if line.isspace() or not line:
            return True
        entry = _entry(line)
        if entry is not None:
            self.lines[entry["key"], entry["agent"]] = entry
        return entry is not None

    def _remove_failed(self) -> None:
        """Replace the file by one without failed rows, in one step; damaged lines stay."""
        self.lines = {name: line for name, line in self.lines.items() if line["error"] is None}
        with replacing(self.path, self.path.stat().st_mode) as draft, draft.open("wb") as file:
            for line in self._raw_lines():
                entry = _entry(line)
                if line and (entry is None or entry["error"] is None):
                    file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        self._lock()


def read_journal(path: Path) -> list[RowResult]:
    """Read the results of a journal, in the order in which rows were finished; parsed replies stay JSON.

    Raises:
        UsageError: The file cannot be read, or is not a journal.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"the journal {path} cannot be read: {error.strerror}") from error
    entries = {(entry["key"], entry["agent"]): entry for line in lines if (entry := _entry(line)) is not None}
    if not entries and any(line.strip(_PADDING) for line in lines):
        raise UsageError(f"{path} is not a journal of agui_client.batch")
    numbered = enumerate(entries.values(), start=1)
    return [
        from_line(each, Row(number, each["key"], {}, each["prompt"], each["prompt"]), _ANYTHING)
        for number, each in numbered
    ]


def _line_of(done: RowResult) -> bytes:
    """Return the line of a row; of one whose reply could not be read back, that of a failed row with its text."""
    try:
        if _entry(line := done.to_line()) is not None:
            return line
        error = UsageError("the parsed reply has a JSON form that cannot be read")
    except UsageError as no_form:
        error = no_form
    _logger.warning("row %s: %s; for the next start it is a failed row", done.key, error)
    return replace(done, parsed=None, error=error_of(error)).to_line()


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """Return the entry in a line; None if there is none."""
    try:
        entry: Mapping[str, Any] = _ENTRY.validate_python(parse_json(line.strip(_PADDING)))
    except ValueError:
        return None
    return entry


def _is_ours(line: bytes) -> bool:
    """Return whether a line begins, as far as it goes, like those of a journal."""
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _is_cut(line: bytes) -> bool:
    """Return whether a line is the beginning of one of a journal, and its end is missing."""
    try:
        load_json(line)
    except RecursionError:
        return False
    except ValueError:
        return _is_ours(line)
    return False


def _content(file: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(file, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)
