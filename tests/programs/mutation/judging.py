"""The judgement of mutants by tests that pass without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from . import trial
from .choosing import Recorded
from .mutants import Mutant
from .trial import Outcome, Verdict

_MORE = 4
"""The time of the tests that a survivor meets after the first ones, as a multiple of the time of those."""


class Judge:
    """Chooses tests for mutants and runs them, each once on unmutated code before it runs on a mutant.

    Args:
        tree: The copied tree.
        recorded: The recorded tests.
        seconds: The time of the first tests of a mutant.
        note: Called with a sentence about tests that do not pass on unmutated code.
    """

    def __init__(self, tree: Path, recorded: Recorded, seconds: float, note: Callable[[str], None]) -> None:
        self._tree, self._recorded, self._seconds, self._note = tree, recorded, seconds, note
        self._passing: set[str] = set()
        """The tests that passed on unmutated code."""

    def check(self, module: str, mutants: Iterable[Mutant]) -> None:
        """Run the first tests of all these mutants of a module on unmutated code, which is quicker than one by one."""
        tests = {test: None for mutant in mutants for test in self._recorded.tests(mutant, self._seconds)}
        self._check(module, tests)

    def judge(self, mutant: Mutant) -> Verdict:
        """Run few tests on a mutant, and then more if it survives them."""
        verdict, survived = Verdict(Outcome.UNJUDGED, "none of its tests passes on unmutated code"), list[str]()
        for limit in (self._seconds, _MORE * self._seconds):
            chosen = self._recorded.tests(mutant, limit, apart_from=survived)
            self._check(mutant.module, chosen)
            if tests := [test for test in chosen if test in self._passing]:
                verdict = trial.judge(self._tree, mutant, tests, self._recorded.seconds(tests))
                if verdict.outcome is not Outcome.PASSED:
                    break
                survived += tests
        return verdict

    def _check(self, module: str, tests: Iterable[str]) -> None:
        """Run tests on unmutated code that did not run on it yet; one that does not pass is not chosen any more."""
        if not (unknown := [test for test in tests if test not in self._passing]):
            return
        seconds = self._recorded.seconds(unknown)
        verdict = trial.run(self._tree, module, unknown, seconds, "--continue-on-collection-errors")
        self._passing.update(set(verdict.reports.passed).difference(verdict.reports.failed))
        if wrong := [test for test in unknown if test not in self._passing]:
            self._recorded.leave_out(wrong)
            end = verdict.reason or verdict.outcome.value
            self._note(f"{module}: {len(wrong)} of {len(unknown)} tests do not pass on unmutated code: {end}")
