"""The journal of a batch: a JSON line for each finished row, appended in one write, so that a kill loses no other row.

A line that a kill cut in two is dropped at the next start. A lock keeps a second program out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from agui_client.batch.results import RowResult

_BEGINNING = b'{"key":'
"""The bytes that every line begins with."""
_MEMBERS = frozenset(
    {"key", "agent", "prompt", "text", "parsed", "usage", "seconds", "first_text", "attempts", "error"}
)


class Journal:
    """The journal in a file, which is made if it does not exist; as a block, closed at its end.

    Args:
        path: The file.
        rerun_failed: Whether lines of failed rows are removed, so that these rows are run again.

    Raises:
        UsageError: The file cannot be read or written, is no journal, or another program has it.
    """

    def __init__(self, path: Path, *, rerun_failed: bool = False) -> None:
        self.path = path
        self.lines: dict[tuple[str, str], Mapping[str, Any]] = {}
        """The lines by key and agent."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
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
        line = left = memoryview(done.to_line())
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
        *lines, rest = _content(self._file).split(b"\n")
        for number, line in enumerate(lines, start=1):
            self._add(line, number)
        if not rest:
            return
        if not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
            raise self._no_journal(len(lines) + 1)
        try:
            json.loads(rest)
        except ValueError:
            # The line that was being written when the program was killed.
            os.ftruncate(self._file, sum(len(line) + 1 for line in lines))
        else:
            self._add(rest, len(lines) + 1)
            os.write(self._file, b"\n")

    def _add(self, line: bytes, number: int) -> None:
        try:
            entry = cast("dict[str, Any]", json.loads(line))
            is_entry = isinstance(cast("object", entry), dict) and entry.keys() == _MEMBERS
        except ValueError:
            raise self._no_journal(number) from None
        if not is_entry:
            raise self._no_journal(number)
        name = entry["key"], entry["agent"]
        if name in self.lines:
            raise UsageError(f"{self.path}, line {number}: the journal has row {name[0]} twice")
        self.lines[name] = entry

    def _no_journal(self, number: int) -> UsageError:
        return UsageError(f"{self.path}, line {number} is no line of a journal of agui_client.batch; give another file")

    def _remove_failed(self) -> None:
        """Replace the file by one without failed rows, in one step."""
        self.lines = {name: line for name, line in self.lines.items() if line["error"] is None}
        handle, temporary = tempfile.mkstemp(dir=self.path.absolute().parent, prefix=f".{self.path.name}.")
        with os.fdopen(handle, "wb") as file:
            for line in self.lines.values():
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(self.path.stat().st_mode)
        Path(temporary).replace(self.path)
        os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        self._lock()


def _content(file: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(file, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)
