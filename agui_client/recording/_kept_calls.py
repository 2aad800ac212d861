"""Recordings in memory of the latest calls in a notebook, for `result.inspect()`."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client.recording._reading import read_lines
from agui_client.recording._recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agui_client.recording._format import Line

_MOST_BYTES = 64_000_000


class Memory:
    """The recordings in memory: the oldest is forgotten when there is no room for a new line.

    Args:
        most_bytes: The bytes that all of them may have.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._sizes: dict[MemoryRecorder, int] = {}
        self._total = 0
        self._lock = Lock()

    def add(self, recorder: MemoryRecorder, size: int) -> None:
        """Count the bytes of a line that a recorder keeps."""
        with self._lock:
            self._sizes[recorder] = self._sizes.get(recorder, 0) + size
            self._total += size
            while self._total > self._most_bytes:
                oldest = next(iter(self._sizes))
                self._total -= self._sizes.pop(oldest)
                oldest.forget()


_MEMORY = Memory()


class MemoryRecorder(Recorder):
    """Records a call, and those made inside it, in memory, with secrets redacted as in a file."""

    def __init__(self, memory: Memory = _MEMORY) -> None:
        super().__init__(Path("memory"))
        self._memory = memory
        self._written: list[bytes] | None = []

    def forget(self) -> None:
        """Drop what was recorded, and what will be: half a recording would show another run."""
        self._written = None

    def _write_bytes(self, line: bytes) -> None:
        if (written := self._written) is None:
            return
        if not written:
            written.append(self._header())
        written.append(line)
        self._memory.add(self, len(line))

    def _read(self) -> Sequence[Line]:
        return read_lines(self.path, self._written or ())[0]


def memory_recorder() -> Recorder:
    """Return a recorder for a new call: that of the call inside which it is made, or else one of its own."""
    around = CURRENT_SCOPE.get()
    keepers = () if around is None else around.observers.keepers
    return next((each for each in keepers if isinstance(each, MemoryRecorder)), None) or MemoryRecorder()
