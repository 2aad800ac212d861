"""Runs of tests in a copied tree: once to record them, then one per mutant, each in a forked process."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from .mutants import Mutant

if TYPE_CHECKING:
    import pytest

_COPIED = ("agui_client", "tests", "docs", "examples", "README.md", "pyproject.toml")
_ARGUMENTS = ("-o", "addopts=--import-mode=importlib -m 'not soak'", "-p", "no:xdist", "-p", "no:cacheprovider", "-q")
_PRELOADED = (
    "pytest",
    "hypothesis",
    "ag_ui.core",
    "httpx",
    "jsonschema",
    "reactivex",
    "trio",
    "anyio.from_thread",
    "anyio.pytest_plugin",
)
_MEMORY = 4 << 30  # bytes
_START = 10  # seconds to start pytest and to import the package
_SUCCESS, _FAILURE, _INTERNAL_ERROR = 0, 1, 3
"""Exit codes of pytest. The others say nothing about the code: interrupted, used in a wrong way, no test found."""


class Outcome(Enum):
    """The end of a run of tests."""

    PASSED = "survived"
    FAILED = "killed by a failing test"
    UNCOLLECTED = "killed by an import or a collection that fails"
    HUNG = "killed by a hang"
    UNJUDGED = "not judged"


@dataclass(eq=False)  # as pytest hashes its plugins
class Reports:
    """A plugin that collects what pytest reports, in the forked process; the other process reads it from a file."""

    code: int = _INTERNAL_ERROR
    """The exit code of pytest, which is that of an internal error if pytest itself raises."""
    passed: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    """The tests that failed, also those whose fixtures did."""
    uncollected: list[str] = field(default_factory=list[str])
    """The files, or the module that is judged, that could not be imported or collected."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected.append(report.nodeid)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run of tests, and its reason."""

    outcome: Outcome
    reason: str = ""
    """The test that failed, the file that was not collected, or why there is no judgement."""
    reports: Reports = field(default_factory=Reports, compare=False, repr=False)


def copy(root: Path, work: Path) -> Path:
    """Copy the tree; drop what was recorded of another package than this one."""
    tree, data = work / "tree", work / "data"
    before = _digest(tree)
    for name in _COPIED:
        target = tree / name
        if (root / name).is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(root / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            tree.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target)
    if before != _digest(tree):
        shutil.rmtree(data, ignore_errors=True)
    data.mkdir(exist_ok=True)
    return tree


def learn(tree: Path, data: Path, tests: Sequence[str]) -> None:
    """Record which lines the tests run. One file of records per path, so that a path can be recorded again.

    Raises:
        SystemExit: If no test of a path passed.
    """
    for path in tests:
        target = data / re.sub(r"\W", "-", path)
        durations = Path(f"{target}.json")
        durations.unlink(missing_ok=True)
        environment = {**os.environ, **_environment(tree), "MUTATION_DATA_FILE": str(target)}
        arguments = [*_ARGUMENTS, "-p", "tests.programs.mutation.recording", path]
        subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tree, env=environment, check=False)
        if not durations.exists() or not json.loads(durations.read_text(encoding="utf-8")):
            raise SystemExit(f"No test of {path} passed, so nothing of it is recorded.")


def preload() -> None:
    """Import what every test needs, so that forked processes need not. The package itself is not imported."""
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # pytest collects garbage ten times a run, and each time would look at all of this


def judge(tree: Path, mutant: Mutant, tests: Sequence[str], seconds: float) -> Verdict:
    """Run tests on a mutant until one fails. See `run` about the time."""
    with _changed(tree / mutant.module, mutant.mutated):
        return run(tree, mutant.module, tests, seconds, "-x")


def run(tree: Path, module: str, tests: Sequence[str], seconds: float, *arguments: str) -> Verdict:
    """Run tests in a forked process.

    They hang if they use three times the CPU time that they took when they were recorded. A machine that is busy with
    something else costs none, so the limit in wall time is wide; only tests that sleep come to it.

    Args:
        tree: The copied tree.
        module: The path of the module that is judged, relative to the tree.
        tests: The ids of the tests.
        seconds: The time that the tests took when they were recorded.
        *arguments: Further arguments of pytest.
    """
    file = tree.parent / "reports.json"
    file.unlink(missing_ok=True)
    if (child := os.fork()) == 0:
        _run(tree, module, [*arguments, *tests], _START + 3 * int(seconds))
    status = _wait(child, 6 * (_START + seconds))
    if file.exists():
        return _verdict(Reports(**json.loads(file.read_text(encoding="utf-8"))), _last_line(tree))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return Verdict(Outcome.HUNG)
    code = os.waitstatus_to_exitcode(status)
    return Verdict(Outcome.UNJUDGED, f"the process ended with status {code} before pytest did: {_last_line(tree)}")


def _verdict(reports: Reports, last_line: str) -> Verdict:
    if reports.failed and reports.code == _FAILURE:
        return Verdict(Outcome.FAILED, reports.failed[0], reports)
    if reports.uncollected and not reports.failed:
        return Verdict(Outcome.UNCOLLECTED, reports.uncollected[0], reports)
    if reports.passed and reports.code == _SUCCESS:
        return Verdict(Outcome.PASSED, "", reports)
    counts = f"{len(reports.passed)} tests passed and {len(reports.failed)} failed"
    return Verdict(Outcome.UNJUDGED, f"{counts}, and pytest ended with code {reports.code}: {last_line}", reports)


def _last_line(tree: Path) -> str:
    log = (tree.parent / "last.log").read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(log) if line.strip()), "nothing was printed")


def _wait(child: int, seconds: float) -> int:
    """Return the status of a process, which is killed after some seconds, as is afterwards what its tests started."""
    deadline = time.monotonic() + seconds
    ended, status = 0, 0
    while not ended and time.monotonic() < deadline:
        time.sleep(0.02)
        ended, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status if ended else os.waitpid(child, 0)[1]


def _run(tree: Path, module: str, arguments: Sequence[str], seconds: int) -> None:
    """Become a test run, which the system ends after some seconds of CPU time. Never returns."""
    status = 1
    try:
        _enter(tree, seconds)
        reports = Reports()
        ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of what is preloaded
        # A test that hangs is ended by the limits: pytest would end the process as if a test had failed.
        options = [*_ARGUMENTS, *ignored, "-o", "faulthandler_timeout=0"]
        try:
            reports.code = int(importlib.import_module("pytest").main([*options, *arguments], plugins=[reports]))
        except BaseException:
            traceback.print_exc()
        if not reports.passed and not reports.failed:
            # A plugin or a conftest.py that imports the module does not get as far as a report.
            reports.uncollected += _unimportable(module)
        (tree.parent / "reports.json").write_text(json.dumps(asdict(reports)), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _enter(tree: Path, seconds: int) -> None:
    """Make this process a group of its own, with limits, that finds the package and its tests in the tree."""
    os.setsid()
    log = os.open(tree.parent / "last.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tree)
    os.environ.update(_environment(tree))
    # Before what is installed, and not instead of it: a package that is installed shares its folder with all others.
    sys.path.insert(0, str(tree))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or tests/conftest.py takes the next line back
    sys.dont_write_bytecode = True  # two mutants may be of the same size and second


def _environment(tree: Path) -> dict[str, str]:
    """Return what makes programs that tests start find the tree, too."""
    return {"CI": "1", "PYTHONPATH": os.pathsep.join([str(tree), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}


def _unimportable(module: str) -> list[str]:
    """Return the error of importing a module, if there is one."""
    try:
        importlib.import_module(module.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    except BaseException as error:
        return [f"{module}: {error!r}"]
    return []


@contextlib.contextmanager
def _changed(module: Path, source: str) -> Generator[None]:
    original = module.read_bytes()
    _forget_compiled(module)
    module.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        module.write_bytes(original)
        _forget_compiled(module)  # programs that tests start do compile


def _forget_compiled(module: Path) -> None:
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
        compiled.unlink()


def _digest(tree: Path) -> str:
    sources = sorted((tree / "agui_client").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
