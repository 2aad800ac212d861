"""The pytest plugin: tests that were run once with their agents pass without them.

    def test_weather(agui_cassette):
        assert "Oslo" in my_program("How is the weather?")

The fixture, or the marker of the same name, replays a recording for every `HttpAgent` of the test, from the folder
`cassettes` beside the test. `pytest --agui-record=once` makes the recordings that are missing, `all` makes all anew.

Every pytest session of an environment imports this module, and with it the package, which loads next to nothing: what
the plugin needs of it is imported when a test asks for it.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from agui_client.recording._cassettes import CassetteFixture

_MARKER = """agui_cassette(name=None, *, match=None, ignore=(), redact=None): serve the HTTP agents of the test \
out of a recording; its name is that of the test if it is left out; match= and ignore= are as for ReplayAgent, redact= \
as for record."""
_ADDRESS = re.compile(r"[\d.]+|[0-9A-Fa-f:.]*:[^/]*")
"""A host that is not a name."""
_PASSED, _HAS_CASSETTE = pytest.StashKey[bool](), pytest.StashKey[bool]()
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
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test passed: only then its recording is kept."""
    if call.excinfo is not None and item.stash.get(_HAS_CASSETTE, False):
        _shorten(call.excinfo)
    report = yield
    if _blocked:
        report.sections.append(("Blocked connections", "\n".join(_blocked)))
        _blocked.clear()
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _shorten(failure: pytest.ExceptionInfo[BaseException]) -> None:
    """End the traceback of an error of this package where the test's own code ends.

    The way of a run through the package is some ninety lines, which say nothing about a recording that does not fit.
    """
    from agui_client import errors

    last, package = failure.tb, Path(errors.__file__).parent
    while (following := last.tb_next) is not None and isinstance(failure.value, errors.AGUIError):
        if Path(following.tb_frame.f_code.co_filename).is_relative_to(package):
            # In the traceback itself: pytest makes its list of entries anew.
            last.tb_next = None
            return
        last = following


@pytest.fixture
def agui_cassette(request: pytest.FixtureRequest) -> Generator[CassetteFixture]:
    """Replay the recording of the test for every `HttpAgent` in it, or make the recording."""
    from agui_client.recording._cassettes import CassetteFixture

    marker = request.node.get_closest_marker("agui_cassette")
    name, options = _arguments(*marker.args, **marker.kwargs) if marker else (None, {})
    path = request.path.parent / "cassettes" / (name or f"{request.path.stem}/{_file_name(request.node.nodeid)}.jsonl")
    asked = request.config.getoption("--agui-record")
    is_recorded = asked == "all" or (asked == "once" and not path.exists())
    request.node.stash[_HAS_CASSETTE] = True
    cassette = CassetteFixture(path, "record" if is_recorded else "replay", **options)
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
    from unittest.mock import patch  # which imports asyncio

    stack = ExitStack()
    for method, place in {"connect": 0, "connect_ex": 0, "sendto": -1, "sendmsg": 3}.items():
        if (send := getattr(socket.socket, method, None)) is not None:  # Windows has no sendmsg
            stack.enter_context(patch.object(socket.socket, method, _blocking(send, place)))
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        stack.enter_context(patch.object(socket, name, _blocking_look_up(getattr(socket, name))))
    return stack.close


def _blocking(send: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a method of sockets that refuses to reach a host, whose address is its argument at a place."""

    def blocked(self: socket.socket, *arguments: Any) -> Any:
        """Refuse to reach a host."""
        if self.family in (socket.AF_INET, socket.AF_INET6) and len(arguments) > place:
            host, port = arguments[place][:2]
            # The pair of sockets of an event loop is a connection to the machine itself on Windows.
            if sys.platform != "win32" or host not in ("127.0.0.1", "::1"):
                _refuse(f"a connection to {host}, port {port},")
        return send(self, *arguments)

    return blocked


def _blocking_look_up(look_up: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that refuses to look up names."""

    def blocked(host: Any, *arguments: Any, **options: Any) -> Any:
        """Refuse to look up a name, for which other machines are asked."""
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name and name != "localhost" and not _ADDRESS.fullmatch(name):
            _refuse(f"a look-up of the name {name}")
        return look_up(host, *arguments, **options)

    return blocked


def _refuse(what: str) -> NoReturn:
    _blocked.append(f"{what} was blocked by --agui-block-network")
    raise PermissionError(_blocked[-1])
