"""Fixtures and settings for every test."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.browser import Chromium, chromium
from support.postgres import PostgresServer, postgres_server

# The machines that run this are small and shared: a slow example is no failure.
# Where a submission is judged, the same examples are drawn each time.
settings.register_profile("usual", deadline=None, derandomize="CI" in os.environ, max_examples=15)
# `pytest --hypothesis-profile=soak tests/properties` takes its time; tests/programs/soak.py makes streams in bulk.
settings.register_profile("soak", deadline=None, max_examples=2000)
settings.load_profile("usual")

# Compiling the tests anew takes each worker longer than importing them, and each program compiles the package anew.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False

# What a shell starts in the background of a script ignores Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # pytest may run without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Start two workers per core: a third of the time of the tests is spent waiting for programs and leases."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.soak)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each `anyio` test on asyncio and, in a soak, on trio; the marks `both_loops` and `one_loop` change that."""
    backend: str = request.param
    return backend


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Start one server per worker: to make one takes longer than most tests with it."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Start one browser per module, where one is asked for: it takes a core from all other tests."""
    if "AGUI_BROWSER" not in os.environ:
        pytest.skip("takes AGUI_BROWSER=1, as .ci/run sets it, and Debian's Chromium")
    with chromium() as found:
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that are marked `one_loop` on asyncio alone, and those that are marked `both_loops` always on both."""
    test = metafunc.definition
    has_its_own = any("anyio_backend" in mark.args[0] for mark in test.iter_markers("parametrize"))
    if "anyio_backend" not in metafunc.fixturenames or has_its_own:
        return
    # Only a mark takes precedence over the parameters of the fixture.
    if test.get_closest_marker("one_loop"):
        test.add_marker(pytest.mark.parametrize("anyio_backend", ["asyncio"]))
    elif test.get_closest_marker("both_loops"):
        test.add_marker(pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]))


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker begin to collect at another file: it finds compiled what another one has collected before."""
    if "PYTEST_XDIST_WORKER" in os.environ and config.args == config.getini("testpaths"):
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        worker, workers = os.environ["PYTEST_XDIST_WORKER"], os.environ["PYTEST_XDIST_WORKER_COUNT"]
        first = len(files) * int(worker.removeprefix("gw")) // int(workers)
        config.args = [str(file) for file in (*files[first:], *files[:first])]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring tests into the order that all workers share."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Those of runs wait for a minute in all: the first worker begins with them, and the others have both cores.
        items.sort(key=lambda item: (item.path.parent.name != "runs", item.path))


if "AGUI_CLIENT_FAST" in os.environ:
    from support.on_fast_client import UNLIKE, use_fast_client

    use_fast_client()

    def pytest_itemcollected(item: pytest.Item) -> None:
        """Skip what aiohttp does in another way."""
        if (reason := next((why for part, why in UNLIKE.items() if part in item.nodeid), None)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass by the suite itself, as each look through all of its objects takes a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Begin each test with the first levels of loggers: they are set for a whole program."""
    if logging.root.level != logging.WARNING:  # each new level goes through all loggers
        logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("agui_client") and isinstance(logger, logging.Logger) and logger.level:
            logger.setLevel(logging.NOTSET)
    return (yield)
