"""The `agui` command, part of the extra `cli`: click reads its arguments, rich draws, prompt_toolkit reads the lines.

click, because uvicorn brings it already and because it lets a command say its exit code itself; prompt_toolkit, because
a question of its can be taken back while it waits, and because readline is not everywhere.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

_NEEDED = ("click", "prompt_toolkit", "rich", "uvicorn")


def main() -> int:
    """Carry out the command line.

    Returns:
        The exit code; `agui --help` lists what each means.
    """
    _open_what_is_closed()
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"agui: needs {', '.join(missing)}; install the extra: pip install 'agui-client[cli]'\n")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What an agent sends is not always what the terminal's encoding can show.
            stream.reconfigure(errors="replace")
    try:
        from agui_client._cli.commands import agui
        from agui_client._cli.exits import carry_out
    except KeyboardInterrupt:
        sys.stderr.write("agui: stopped\n")
        return 130
    return carry_out(agui)


def _open_what_is_closed() -> None:
    """Put the null device where the program was started without a stream, as `agui run ... 2>&-` does."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
