"""The command line of mutation runs: see the package's docstring."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import __doc__ as about
from . import trial
from .choosing import Recorded
from .judging import Judge
from .mutants import Mutant, draw
from .report import Report
from .trial import Outcome, Verdict

ROOT = Path(__file__).resolve().parents[3]


_KILLS = (Outcome.FAILED, Outcome.UNCOLLECTED, Outcome.HUNG)


def main() -> int:
    """Record tests, or run mutants; 1 if one of them survived, or if something could not be judged."""
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
    tree, outcomes = work / "tree", work / "outcomes.json"
    known: dict[str, list[str]] = {} if options.fresh or not outcomes.exists() else json.loads(outcomes.read_text())
    report = Report(options.report)
    recorded = Recorded(work / "data")
    judge = Judge(tree, recorded, options.seconds, report.note)
    for module in _modules(tree, options.module):
        if not recorded.runs(module):
            report.note(f"{module}: no recorded test runs or imports it")
            continue
        mutants, existing = draw(tree, module, options.sample, options.seed)
        judge.check(module, [mutant for mutant in mutants if _key(mutant) not in known])
        verdicts: list[tuple[Mutant, Verdict]] = []
        for mutant in mutants:
            key = _key(mutant)
            verdict = Verdict(Outcome(known[key][0]), known[key][1]) if key in known else judge.judge(mutant)
            if verdict.outcome in _KILLS:
                known[key] = [verdict.outcome.value, verdict.reason, f"{module}:{mutant.line}"]
                outcomes.write_text(json.dumps(known, indent=1))
            verdicts.append((mutant, verdict))
        report.add(module, existing, verdicts)
    print(report.summary)
    return int(not report.is_clean)


def _modules(tree: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        files = sorted((tree / path).rglob("*.py")) if (tree / path).is_dir() else [tree / path]
        yield from (str(file.relative_to(tree)) for file in files)


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.module}\0{mutant.mutated}".encode()).hexdigest()[:16]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.programs.mutation", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
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
