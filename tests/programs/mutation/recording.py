"""A pytest plugin that records which test runs which line, and how long each test takes.

Loaded by `python -m tests.programs.mutation --learn`; the file to write is named in the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

DATA_FILE = "MUTATION_DATA_FILE"
"""The environment variable that names the coverage data file; the durations are written beside it."""

_recorder = coverage.Coverage(
    data_file=os.environ[DATA_FILE], source_pkgs=["agui_client"], branch=False, config_file=False, messages=False
)
_recorder.start()  # before pytest imports the package for its plugin
_durations: dict[str, float] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record lines under the test's name."""
    _recorder.switch_context(item.nodeid)
    result = yield
    _recorder.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the time of a test that passed."""
    if report.when == "call" and report.passed:
        _durations[report.nodeid] = report.duration


def pytest_sessionfinish() -> None:
    """Write both files."""
    _recorder.stop()
    _recorder.save()
    Path(f"{os.environ[DATA_FILE]}.json").write_text(json.dumps(_durations), encoding="utf-8")
