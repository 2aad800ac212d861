"""What has become slower: each benchmark with this checkout and with an earlier commit, which take turns.

`python -m tests.programs.benchmarks.compare` compares all rows with the commit that `baseline.txt` names, and
`--short` those that take least. Both packages run the benchmarks of this checkout, each in a process of its own, one
after the other and again in the other order, so that a busy moment hits both. The least CPU time of each counts. What
is slower by more than a tenth is measured again as often before it is said, and nothing fails: a machine that others
use as well is no judge. Whoever accepts that a row has become slower writes a later commit into `baseline.txt`.

To change

- the rows that `.ci/run` compares: `SHORT` here; their time: `--seconds` there
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeAlias

TESTS = Path(__file__).resolve().parents[2]
ROOT = TESTS.parent
BASELINE = Path(__file__).with_name("baseline.txt")
"""Names the commit, or the tag, that is compared with."""
SHORT = ("turns", "text", "observed", "extensions", "chunks", "preparing", "snapshot", "state", "sse", "recording")
"""The benchmarks that `.ci/run` has time for: what a turn costs around its events, and each way that an event takes."""
SLOWER = 1.1
"""So many times as slow is said."""
_ROUNDS = 3
"""The times that each package runs a benchmark, and once more if it seems to be slower."""
_WORK_SECONDS = 0.05
"""The least CPU time of all works of a row together, each time."""
_LAYOUT = "{:<58}{:<26}{}"

Costs: TypeAlias = Mapping[str, float]
"""What each row of a benchmark cost, by its name."""
Measure: TypeAlias = Callable[[], Costs]
"""Runs a benchmark once."""


class CannotCompareError(Exception):
    """A benchmark, or the whole comparison, does not work with the earlier commit; the text says why."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row with both packages."""

    work: str
    """The name of the row."""
    before: float
    """What it cost with the earlier package."""
    now: float
    """What it costs with this checkout."""

    @property
    def ratio(self) -> float:
        """What it costs, in units of what it cost before."""
        return self.now / self.before if self.before else 1.0

    @property
    def is_slower(self) -> bool:
        """Whether it has become slower by more than a tenth."""
        return self.ratio > SLOWER


def compared(before: Measure, now: Measure, rounds: int = _ROUNDS) -> list[RowChange]:
    """Run a benchmark with both packages in turn; again as often if a row seems to be slower.

    Args:
        before: Runs it with the earlier package.
        now: Runs it with this checkout.
        rounds: The times that each runs it.
    """
    least: tuple[dict[str, float], dict[str, float]] = {}, {}
    changes: list[RowChange] = []
    for _ in range(2):
        for number in range(rounds):
            # In both orders: what comes second finds warm caches.
            for at in (0, 1) if number % 2 else (1, 0):
                for work, cost in (before, now)[at]().items():
                    least[at][work] = min(cost, least[at].get(work, cost))
        changes = [RowChange(work, least[0][work], cost) for work, cost in least[1].items() if work in least[0]]
        if not any(each.is_slower for each in changes):
            break
    return changes


class Worker:
    """A process that runs benchmarks of this checkout with one package.

    Args:
        folder: The folder that has the package.
    """

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(folder), str(TESTS)])
        command = [sys.executable, "-m", "programs.benchmarks.compare", "--work"]
        pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": path}
        # What agents log of the streams that are measured says nothing here.
        self._process = subprocess.Popen(
            command, env=environment, cwd=os.sep, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.cpu_seconds = 0.0
        """The CPU time that it took, with its servers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def measure(self, name: str) -> Costs:
        """Run a benchmark once.

        Raises:
            CannotCompareError: It does not work with this package.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise CannotCompareError("these benchmarks cannot be run with that package")
        answer = json.loads(line)
        self.cpu_seconds = answer["cpu_seconds"]
        if "problem" in answer:
            raise CannotCompareError(answer["problem"])
        return {str(work): float(cost) for work, cost in answer["costs"].items()}


@contextmanager
def package_of(commit: str) -> Generator[Path]:
    """Give a folder that has the package as it was in a commit, while the block lasts.

    Raises:
        CannotCompareError: The commit is not in this clone, or this is none.
    """
    with TemporaryDirectory() as folder:
        command = ["git", "-C", str(ROOT), "archive", commit, "agui_client"]
        try:
            packed = subprocess.run(command, check=True, capture_output=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            why = f"{commit} is not in this clone; a shallow one has its last commits alone"
            raise CannotCompareError(why) from error
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def main() -> int:
    """Compare and print; 0 whatever came of it."""
    options = _options()
    if options.work:
        _serve()
        return 0
    names = options.only or (SHORT if options.short else _all_names())
    try:
        with package_of(options.base) as folder, Worker(folder) as before, Worker(ROOT) as now:
            print(_LAYOUT.format(f"CPU, compared with {options.base[:12]}", "before / now", "ratio"))
            rows = [each for changes in _tables(names, before, now, options) for each in changes]
    except CannotCompareError as problem:
        print(f"not compared: {problem}")
        return 0
    slower = [each for each in rows if each.is_slower]
    for each in slower:
        print(f"SLOWER by more than a tenth: {each.work}, {each.ratio:.2f} x")
    print(f"{len(slower)} of {len(rows)} rows have become slower; {before.cpu_seconds + now.cpu_seconds:.0f} s of CPU")
    return 0


def _tables(
    names: Sequence[str], before: Worker, now: Worker, options: argparse.Namespace
) -> Generator[Sequence[RowChange]]:
    """Print the rows of benchmarks, as long as there is time for another one."""
    longest = 0.0
    for at, name in enumerate(names):
        began = before.cpu_seconds + now.cpu_seconds
        if began + longest > options.seconds:
            print(f"no time was left for {', '.join(names[at:])}")
            return
        try:
            changes = compared(partial(before.measure, name), partial(now.measure, name), options.rounds)
        except CannotCompareError as problem:
            print(f"{name}: {problem}")
            continue
        longest = max(longest, before.cpu_seconds + now.cpu_seconds - began)
        for each in changes:
            print(_LAYOUT.format(each.work, f"{each.before:.4g} / {each.now:.4g}", f"{each.ratio:.2f} x"), flush=True)
        yield changes


def _serve() -> None:
    """Run the benchmarks whose names come, one to a line, with the package that is found; write what they cost."""
    from programs.benchmarks import measure
    from programs.benchmarks.run import BENCHMARKS

    measure.LEAST_SECONDS = _WORK_SECONDS
    for line in sys.stdin:
        answer: dict[str, object] = {}
        try:
            with redirect_stdout(sys.stderr):
                rows = BENCHMARKS[line.strip()](1)
            # Seconds on the clock are those of the machine, which is busy with the other package, too.
            answer["costs"] = {row.work: row.cost for row in rows if "clock" not in row.work}
        except Exception:
            answer["problem"] = traceback.format_exc(0).strip().splitlines()[-1]
        times = os.times()
        answer["cpu_seconds"] = times.user + times.system + times.children_user + times.children_system
        print(json.dumps(answer), flush=True)


def _all_names() -> Sequence[str]:
    sys.path.insert(0, str(TESTS))
    from programs.benchmarks.run import BENCHMARKS

    return list(BENCHMARKS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What has become slower since an earlier commit.")
    parser.add_argument("--base", metavar="COMMIT", default=BASELINE.read_text().split()[0], help="the earlier commit")
    parser.add_argument("--only", metavar="NAME", action="append", help="a benchmark, such as text")
    parser.add_argument("--short", action="store_true", help="those that take least, as .ci/run has them")
    parser.add_argument("--rounds", metavar="N", type=int, default=_ROUNDS, help=f"the least of N counts ({_ROUNDS})")
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=float("inf"), help="begin no benchmark that may take more CPU"
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
