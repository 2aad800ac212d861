"""The program `agui`: its streams, what it needs installed, and its loggers; the command itself is in `commands`."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

from agui_client._version import VERSIONS

_NEEDED = ("click", "prompt_toolkit", "rich", "uvicorn")


def run() -> int:
    """Run the command line; return the exit code."""
    _replace_closed_streams()
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"agui: needs {', '.join(missing)}; install the extra: pip install 'agui-client[cli]'\n")
        return 2
    if sys.argv[1:] == ["--version"]:  # scripts ask for it, and wait for none of the commands
        sys.stdout.write(f"{VERSIONS}\n")
        return 0
    stdout: object = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        # An agent may send characters that the terminal's encoding does not have; they are escaped, as on stderr.
        stdout.reconfigure(errors="backslashreplace")
    from agui_client._cli.commands import agui
    from agui_client._cli.exit_codes import run_command

    logger, runs = logging.getLogger("agui_client"), logging.getLogger("agui_client.run")
    handlers, propagate, levels = logger.handlers, logger.propagate, (logger.level, runs.level)
    try:
        return run_command(agui)
    finally:  # for programs that call this function and continue
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(levels[0])
        runs.setLevel(levels[1])


def _replace_closed_streams() -> None:
    """Use the null device for streams that the program was started without, as with `agui run ... 2>&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
