"""The command line of mutation runs: see the package's docstring."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from . import __doc__ as about
from . import trial
from .choosing import Recorded
from .mutants import Mutant, draw
from .trial import Outcome

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Record tests, or run mutants; 1 if one of them survived."""
    options = _options()
    work: Path = options.work.resolve()
    if options.learn:
        trial.learn(trial.copy(ROOT, work), work / "data", options.learn)
        return 0
    if not any((work / "data").glob("*.json")):
        raise SystemExit("Nothing is recorded yet: run with --learn and the paths of tests first.")
    if not options.module:
        raise SystemExit("Name at least one --module, a file or a folder.")
    return _mutate(options, work)


def _mutate(options: argparse.Namespace, work: Path) -> int:
    trial.preload()
    tree, results = work / "tree", work / "results.json"
    recorded = Recorded(work / "data")
    known: dict[str, list[str]] = {} if options.fresh or not results.exists() else json.loads(results.read_text())
    rows: list[str] = []
    survivors: list[Mutant] = []
    for module in _modules(tree, options.module):
        mutants, existing = draw(tree, module, options.sample, options.seed)
        if not rows:
            _check_unmutated(tree, mutants[:1], recorded, options)
        outcomes: Counter[Outcome] = Counter()
        for mutant in mutants:
            key = _key(mutant)
            if key not in known or known[key][0] == Outcome.PASSED.value:
                known[key] = [*_judged(tree, mutant, recorded, options), f"{module}:{mutant.line}"]
                results.write_text(json.dumps(known, indent=1))
            outcome = Outcome(known[key][0])
            outcomes[outcome] += 1
            survivors += [mutant] if outcome is Outcome.PASSED else []
        counts = (outcomes[outcome] for outcome in (Outcome.FAILED, Outcome.HUNG, Outcome.PASSED))
        rows.append(f"| {module} | {existing} | {len(mutants)} | {' | '.join(map(str, counts))} |")
        print(rows[-1], flush=True)
        _report(options.report, rows, survivors)
    print(f"{len(survivors)} survived; see {options.report}")
    return int(bool(survivors))


def _check_unmutated(tree: Path, mutants: list[Mutant], recorded: Recorded, options: argparse.Namespace) -> None:
    """Raise if the tests fail without any change, since each mutant would then look killed."""
    for mutant in mutants:
        tests, seconds = recorded.tests(mutant, options.seconds)
        if trial.run(tree, tests, seconds) is not Outcome.PASSED:
            raise SystemExit(f"The tests of {mutant.module} fail unmutated: see {tree.parent / 'last.log'}")


def _judged(tree: Path, mutant: Mutant, recorded: Recorded, options: argparse.Namespace) -> tuple[str, str]:
    """Return a mutant's outcome, and the test that failed; few tests are run first, and then more."""
    outcome, survived = Outcome.PASSED, list[str]()
    for limit in (options.seconds, 4 * options.seconds):
        tests, seconds = recorded.tests(mutant, limit, apart_from=survived)
        if tests and (outcome := trial.judge(tree, mutant, tests, seconds)) is not Outcome.PASSED:
            break
        survived += tests
    return outcome.value, trial.last_failure(tree) if outcome is Outcome.FAILED else ""


def _modules(tree: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        files = sorted((tree / path).rglob("*.py")) if (tree / path).is_dir() else [tree / path]
        yield from (str(file.relative_to(tree)) for file in files)


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.module}\0{mutant.mutated}".encode()).hexdigest()[:16]


def _report(path: Path, rows: list[str], survivors: list[Mutant]) -> None:
    table = ["| module | mutants | drawn | failed | hung | survived |", "| --- |" + " --- |" * 5, *rows]
    diffs = [f"```diff\n{mutant.diff}\n```" for mutant in survivors]
    path.write_text("\n".join(table) + "\n\n" + "\n\n".join(diffs) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.mutation", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learn", metavar="PATH", nargs="+", help="copy the tree and record these tests")
    parser.add_argument("--module", metavar="PATH", action="append", help="a module or folder to mutate; repeatable")
    parser.add_argument("--sample", metavar="N", type=int, default=8, help="mutants per module (8)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="the seed that draws them (1)")
    parser.add_argument("--seconds", metavar="S", type=float, default=15, help="the tests' time per mutant (15)")
    parser.add_argument("--fresh", action="store_true", help="run again what was killed before")
    parser.add_argument("--report", metavar="FILE", type=Path, default=Path("mutation-report.md"))
    usual = Path(tempfile.gettempdir()) / "agui-client-mutation"
    parser.add_argument("--work", metavar="DIR", type=Path, default=usual, help="where copy and records are kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
