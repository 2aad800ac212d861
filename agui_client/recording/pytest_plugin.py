"""The pytest plugin: tests that were run once with their agents pass without them.

    def test_weather(agui_cassette):
        assert "Oslo" in my_program("How is the weather?")

The fixture, or the marker of the same name, answers for every `HttpAgent` of the test out of a recording in the folder
`cassettes` beside the test. `pytest --agui-record=once` makes the recordings that are missing, `all` makes all anew.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from agui_client.recording.cassettes import Cassette

_MARKER = """agui_cassette(name=None, *, match=None, redact=None): answer for the HTTP agents of the test out of a \
recording; its name is that of the test if it is left out, match= is as for ReplayAgent and redact= as for record."""
_PASSED = pytest.StashKey[bool]()
_blocked: list[str] = []
"""The connections that were blocked in the present phase of a test; libraries keep that to themselves."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("agui", "recordings of AG-UI agents")
    group.addoption(
        "--agui-record",
        choices=("none", "once", "all"),
        default="none",
        help="Recordings that are made: none (the default), those that are missing (once), or all of them.",
    )
    group.addoption(
        "--agui-block-network", action="store_true", help="Let every attempt of a test to connect to a network fail."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and block the network if that is asked for."""
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("--agui-block-network"):
        config.add_cleanup(_block_network())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test passed: only then its recording is kept."""
    report = yield
    if _blocked:
        report.sections.append(("Blocked connections", "\n".join(_blocked)))
        _blocked.clear()
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def agui_cassette(request: pytest.FixtureRequest) -> Generator[Cassette]:
    """Answer for every `HttpAgent` of the test out of its recording, or make the recording."""
    from agui_client.recording.cassettes import Cassette

    marker = request.node.get_closest_marker("agui_cassette")
    name, options = _arguments(*marker.args, **marker.kwargs) if marker else (None, {})
    path = request.path.parent / "cassettes" / (name or f"{request.path.stem}/{_file_name(request.node.nodeid)}.jsonl")
    asked = request.config.getoption("--agui-record")
    is_recorded = asked == "all" or (asked == "once" and not path.exists())
    cassette = Cassette(path, "record" if is_recorded else "replay", **options)
    try:
        with cassette.inserted():
            yield cassette
            if not request.node.stash.get(_PASSED, False):
                raise _NotPassed
    except _NotPassed:
        pass


@pytest.fixture(autouse=True)
def _agui_marked(request: pytest.FixtureRequest) -> None:
    """Use the fixture for tests that only have the marker."""
    if request.node.get_closest_marker("agui_cassette") is not None:
        request.getfixturevalue("agui_cassette")


class _NotPassed(Exception):  # noqa: N818 - no error: it leaves a block without keeping the recording
    """The test did not pass."""


def _file_name(node_id: str) -> str:
    """Return the name of a test as that of a file, with a checksum where another test's could become the same."""
    test = node_id.partition("::")[2].replace("::", "-").replace("[", "-", 1).removesuffix("]")
    name = re.sub(r"[^\w.-]+", "-", test)
    return name if name == test else f"{name.strip('-')}-{crc32(test.encode()):08x}"


def _arguments(name: str | None = None, **options: Any) -> tuple[str | None, dict[str, Any]]:
    return name, options


def _block_network() -> Any:
    """Let connections to any host fail; return a function that lets them pass again."""
    stack = ExitStack()
    for method in ("connect", "connect_ex"):
        stack.enter_context(patch.object(socket.socket, method, _blocking(getattr(socket.socket, method))))
    return stack.close


def _blocking(connect: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
    def blocked(self: socket.socket, address: Any) -> Any:
        """Refuse to connect to a host."""
        # The pair of sockets of an event loop is a connection to the machine itself on Windows.
        is_pair = sys.platform == "win32" and address[0] in ("127.0.0.1", "::1")
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_pair:
            what = f"a connection to {address[0]}, port {address[1]}, was blocked by --agui-block-network"
            _blocked.append(what)
            raise PermissionError(what)
        return connect(self, address)

    return blocked
