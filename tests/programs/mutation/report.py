"""The report of a mutation run: a row for each module, survivors, and what was not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .mutants import Mutant
from .trial import Outcome, Verdict

_COLUMNS = {
    Outcome.FAILED: "failed",
    Outcome.UNCOLLECTED: "not collected",
    Outcome.HUNG: "hung",
    Outcome.PASSED: "survived",
    Outcome.UNJUDGED: "not judged",
}
_HEAD = ("module", "mutants", "drawn", *_COLUMNS.values())


class Report:
    """Prints what becomes of mutants, and writes it to a file after each module.

    Args:
        path: The file, which is Markdown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = [_row(_HEAD), _row(["---"] * len(_HEAD))]
        self._notes: list[str] = []
        self._diffs: list[str] = []

    def note(self, finding: str) -> None:
        """Add a sentence about what could not be judged."""
        self._notes.append(f"- {finding}")
        print(self._notes[-1], flush=True)
        self._write()

    def add(self, module: str, existing: int, verdicts: Sequence[tuple[Mutant, Verdict]]) -> None:
        """Add the mutants of a module, of which so many exist."""
        for mutant, verdict in verdicts:
            if verdict.outcome is Outcome.PASSED:
                self._diffs.append(f"```diff\n{mutant.diff}\n```")
            elif verdict.outcome is Outcome.UNJUDGED:
                self.note(f"{module}:{mutant.line}: not judged, as {verdict.reason}")
        counts = Counter(verdict.outcome for _, verdict in verdicts)
        self._rows.append(_row([module, existing, len(verdicts), *(counts[outcome] for outcome in _COLUMNS)]))
        print(self._rows[-1], flush=True)
        self._write()

    @property
    def is_clean(self) -> bool:
        """Whether every mutant was killed."""
        return not self._notes and not self._diffs

    @property
    def summary(self) -> str:
        """How many survived, and where to read of them."""
        return f"{len(self._diffs)} survived, {len(self._notes)} findings about what was not judged; see {self._path}"

    def _write(self) -> None:
        parts = ["\n".join(self._rows), *(["\n".join(self._notes)] if self._notes else []), *self._diffs]
        self._path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
