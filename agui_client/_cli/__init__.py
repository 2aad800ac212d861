"""The `agui` command, part of the extra `cli`: click reads its arguments, rich draws, prompt_toolkit reads the lines.

click, because uvicorn brings it already and because it lets a command say its exit code itself; prompt_toolkit, because
a question of its can be taken back while it waits, and because readline is not everywhere.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import TextIOWrapper

_NEEDED = ("click", "prompt_toolkit", "rich", "uvicorn")


def main() -> int:
    """Carry out the command line.

    Returns:
        The exit code; `agui --help` lists what each means.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"agui: needs {', '.join(missing)}; install the extra: pip install 'agui-client[cli]'\n")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What an agent sends is not always what the terminal's encoding can show.
            stream.reconfigure(errors="replace")
    from agui_client._cli.commands import agui
    from agui_client._cli.exits import carry_out

    return carry_out(agui)
