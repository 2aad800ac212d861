"""`agui` itself: help, version, and what it says when its extra is not installed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from ag_ui.core import PROTOCOL_VERSION

from agui_client import UsageError
from agui_client._cli import commands
from agui_client._cli.exit_codes import drive
from support.programs import Program
from support.waiting import LIMIT

Agui = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_version_names_the_protocol_too(agui: Agui) -> None:
    done = agui("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("agui ")
    assert done.stdout.endswith(f" (AG-UI {PROTOCOL_VERSION})\n")
    assert agui("--version", "--help").stdout == done.stdout  # click answers where more is given


@pytest.mark.parametrize("group", ["", "runs", "threads"])
def test_the_help_of_a_group_shows_each_summary_as_a_whole(agui: Agui, group: str) -> None:
    shown = agui(*filter(None, [group]), "--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0].strip()
    summaries = re.split(r"\n  (?=\w)", shown)
    assert len(summaries) > 3
    assert [each for each in summaries if not each.endswith(".") or each.endswith("...")] == []


def test_each_help_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    too_large: list[str] = []
    groups = [click.Context(commands.agui, info_name="agui", **commands.agui.context_settings)]
    for context in groups:
        assert isinstance(context.command, click.Group)
        inner = [click.Context(each, context, name) for name, each in context.command.commands.items()]
        groups += [each for each in inner if isinstance(each.command, click.Group)]
        for each in (context, *inner):
            lines = each.get_help().splitlines()
            if len(lines) > 50 or max(map(len, lines)) > 80:
                too_large.append(each.command_path)
    assert len(groups) == 3
    assert too_large == []


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], ["events", "-h"]])
def test_help_explains_the_exit_codes(agui: Agui, arguments: list[str]) -> None:
    done = agui(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Exit codes:\n    0    the run succeeded\n" in done.stdout


def test_without_a_command_the_help_goes_to_stderr(agui: Agui) -> None:
    done = agui()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == agui("--help").stdout


def test_without_its_extra_the_command_says_what_to_install() -> None:
    hidden = "import sys; sys.modules.update(click=None, rich=None)"
    program = f"{hidden}; from agui_client._cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "agui: needs click, rich; install the extra: pip install 'agui-client[cli]'\n"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            ZeroDivisionError("division by zero"),
            3,
            r"ZeroDivisionError: division by zero \(test_command\.py, line \d+\)",
        ),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 3, r"a\.json: No such file or directory"),
        (OSError(28, "No space left on device"), 3, "No space left on device"),
        (UsageError("no such thing"), 2, "no such thing"),
    ],
)
def test_whatever_goes_wrong_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, told: str
) -> None:
    def fail() -> int:
        raise error

    assert drive(fail) == code
    assert re.fullmatch(rf"agui: {told}\n", capsys.readouterr().err)


@pytest.mark.parametrize("module", ["agui_client._cli.program", "agui_client._cli.commands", "agui_client.errors"])
def test_ctrl_c_while_the_command_is_loaded_stops_it(module: str) -> None:
    program = """
import sys

class Stop:
    def find_spec(self, name, *place):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop())
from agui_client._cli import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, module], capture_output=True, encoding="utf-8", timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (130, "agui: stopped\n")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_that_comes_while_python_ignores_exceptions_ends_the_command(number: int, code: int) -> None:
    program = (
        "import click, signal, sys, threading, weakref\n"
        "from agui_client._cli.exit_codes import run_command\n"
        "@click.command()\n"
        "def command():\n"
        "    class Thing: pass\n"
        "    thing = Thing()\n"
        f"    kept = weakref.ref(thing, lambda _: signal.raise_signal({int(number)}))\n"
        "    del thing\n"
        "    while True: threading.Event().wait(0.1)\n"
        "sys.argv = ['agui']\n"
        "sys.exit(run_command(command))\n"
    )
    with Program("-c", program) as process:
        assert process.wait(LIMIT) == code
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
