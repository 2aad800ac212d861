"""The choice of tests for a mutant, by recorded coverage."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

import coverage

from .mutants import Mutant

_FILES, _TESTS = 3, 40
"""How many test files prove a mutant, and how many tests of each."""
_MORE_TESTS = 8
"""How many tests of every other file prove a mutant that survived those."""


def _distance(module: str, file: str) -> tuple[bool, bool]:
    """Compare a test file with a module: first the module's own file, then those of its room."""
    path = Path(module)
    room = "tests/test_" if path.parent.name == "agui_client" else f"/{path.parent.name.strip('_')}/"
    return f"test_{path.stem.strip('_')}" not in file, room not in file


class Recorded:
    """The recorded tests: which lines they run, and how long they take."""

    def __init__(self, data: Path) -> None:
        durations = sorted(data.glob("*.json"))  # of recordings that came to their end
        self._files = [path.with_suffix("") for path in durations]
        self._seconds: dict[str, float] = {}
        for path in durations:
            self._seconds |= json.loads(path.read_text(encoding="utf-8"))
        self._left_out: set[str] = set()
        self._lines: dict[str, defaultdict[int, set[str]]] = {}

    def runs(self, module: str) -> bool:
        """Return whether the tests run a line of a module, if only by importing it."""
        return bool(self._tests_by_line(module))

    def leave_out(self, tests: Iterable[str]) -> None:
        """Do not choose these tests any more."""
        self._left_out.update(tests)

    def seconds(self, tests: Iterable[str]) -> float:
        """Return the time that tests took when they were recorded."""
        return sum(self._seconds[test] for test in tests)

    def tests(self, mutant: Mutant, seconds: float, *, apart_from: Collection[str] = ()) -> list[str]:
        """Return tests that run the line of a mutant, as many as fit into the time.

        Args:
            mutant: The mutant. A line that makes a constant runs when the module is imported: tests that run lines
                with the constant are meant. If no test runs its line otherwise, as it runs in a program that a test
                starts, all tests of the module and of its room are meant.
            seconds: The time.
            apart_from: Tests that it survived; a few of every file are returned then.
        """
        module, lines = mutant.module, self._tests_by_line(mutant.module)
        # Of a statement of several lines, the first one is recorded.
        nearest = next((lines[at] for at in range(mutant.line, mutant.function, -1) if lines.get(at)), None)
        nearest = nearest or self._of_the_constant(mutant)
        # A line that no test runs in its own process may be run by a program that a test of the room starts.
        candidates = nearest or set[str]().union(*lines.values(), self._of_the_room(module))
        files: defaultdict[str, list[str]] = defaultdict(list)
        for test in candidates.difference(apart_from, self._left_out):
            files[test.partition("::")[0]].append(test)
        closest = sorted(files, key=lambda file: (*_distance(module, file), -len(files[file])))
        closest, most = (closest, _MORE_TESTS) if apart_from else (closest[:_FILES], _TESTS)
        return self._fitting([test for file in closest for test in self._fastest(files[file])[:most]], seconds)

    def _of_the_constant(self, mutant: Mutant) -> set[str]:
        """Return the tests that run a line with the constant that a mutant changes, as it is made by an import."""
        if (name := mutant.constant) is None:
            return set()
        source, uses = mutant.original.splitlines(), re.compile(rf"\b{name}\b")
        by_line = self._tests_by_line(mutant.module).items()
        return set[str]().union(*(tests for line, tests in by_line if uses.search(source[line - 1])))

    def _of_the_room(self, module: str) -> set[str]:
        return {test for test in self._seconds if not _distance(module, test.partition("::")[0])[1]}

    def _fastest(self, tests: list[str]) -> list[str]:
        """Return the fastest case of every test function, then the second case of each, and so on."""
        cases: defaultdict[str, int] = defaultdict(int)
        ranked: list[tuple[int, str]] = []
        for test in sorted(tests, key=self._seconds.__getitem__):
            function = test.partition("[")[0]
            ranked.append((cases[function], test))
            cases[function] += 1
        return [test for _, test in sorted(ranked, key=lambda case: case[0])]

    def _fitting(self, tests: list[str], seconds: float) -> list[str]:
        chosen: list[str] = []
        for test in tests:
            seconds -= self._seconds[test] + 0.01  # fixtures
            if seconds >= 0 or not chosen:
                chosen.append(test)
        return chosen

    def _tests_by_line(self, module: str) -> dict[int, set[str]]:
        if module not in self._lines:
            self._lines[module] = by_line = defaultdict[int, set[str]](set)
            for path in self._files:
                data = coverage.CoverageData(str(path))
                data.read()
                measured = next((file for file in data.measured_files() if file.endswith(f"/{module}")), "")
                for line, contexts in data.contexts_by_lineno(measured).items():
                    by_line[line].update(test for test in contexts if test in self._seconds)
        return self._lines[module]
