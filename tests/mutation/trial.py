"""Runs of tests in a copied tree: once to record them, then one per mutant, each in a forked process."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from enum import Enum
from pathlib import Path

from .mutants import Mutant

_COPIED = ("agui_client", "tests", "docs", "examples", "README.md", "pyproject.toml")
_ARGUMENTS = ("-o", "addopts=--import-mode=importlib", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", "-x")
_PRELOADED = ("pytest", "hypothesis", "ag_ui.core", "httpx", "jsonschema", "reactivex", "trio", "anyio.from_thread")
_MEMORY = 4 << 30  # bytes
_START = 10  # seconds to start pytest and to import the package


class Outcome(Enum):
    """The end of a run of tests."""

    PASSED = "survived"
    FAILED = "killed by a failing test"
    HUNG = "killed by a hang"


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
    """Record which lines the tests run. One file of records per path, so that a path can be recorded again."""
    for path in tests:
        target = data / re.sub(r"\W", "-", path)
        environment = os.environ | {"MUTATION_DATA_FILE": str(target), "PYTHONPATH": str(tree), "CI": "1"}
        arguments = [*_ARGUMENTS[:-1], "-p", "tests.mutation.recording", "-m", "not slow", path]
        subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tree, env=environment, check=False)


def preload() -> None:
    """Import what every test needs, so that forked processes need not. The package itself is not imported."""
    for name in _PRELOADED:
        importlib.import_module(name)


def judge(tree: Path, mutant: Mutant, tests: Sequence[str], seconds: float) -> Outcome:
    """Run tests on a mutant. See `run` about the time."""
    with _changed(tree / mutant.module, mutant.mutated):
        return run(tree, tests, seconds)


def run(tree: Path, tests: Sequence[str], seconds: float) -> Outcome:
    """Run tests in a forked process.

    They hang if they use three times the CPU time that they took when they were recorded. A machine that is busy with
    something else costs none, so the limit in wall time is wide; only tests that sleep come to it.

    Args:
        tree: The copied tree.
        tests: The ids of the tests.
        seconds: The time that the tests took when they were recorded.
    """
    if (child := os.fork()) == 0:
        _run(tree, tests, _START + 3 * int(seconds))
    deadline = time.monotonic() + 6 * (_START + seconds)
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            if os.WIFSIGNALED(status):
                return Outcome.HUNG
            return Outcome.FAILED if status else Outcome.PASSED
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Outcome.HUNG


def last_failure(tree: Path) -> str:
    """Return the line of the last run's log that names a test that failed."""
    lines = (tree.parent / "last.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), "")


def _run(tree: Path, tests: Sequence[str], seconds: int) -> None:
    """Become a test run, which the system ends after some seconds of CPU time. Never returns."""
    code = 3
    try:
        os.setsid()
        log = os.open(tree.parent / "last.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(tree)
        os.environ["CI"] = "1"
        sys.path[:] = [str(tree), *(path for path in sys.path if not (Path(path) / "agui_client").exists())]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or tests/conftest.py takes the next line back
        sys.dont_write_bytecode = True  # two mutants may be of the same size and second
        ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of what is preloaded
        code = int(importlib.import_module("pytest").main([*_ARGUMENTS, *ignored, *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextlib.contextmanager
def _changed(module: Path, source: str) -> Generator[None]:
    original = module.read_bytes()
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
        compiled.unlink()
    module.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        module.write_bytes(original)


def _digest(tree: Path) -> str:
    sources = sorted((tree / "agui_client").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
