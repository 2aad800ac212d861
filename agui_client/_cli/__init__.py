"""The `agui` command, part of the extra `cli`: click reads its arguments, rich draws, prompt_toolkit reads the lines.

click, because uvicorn depends on it and because a click command returns its exit code; prompt_toolkit, because a prompt
can be cancelled while it waits, and because readline is not everywhere.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line.

    Returns:
        The exit code; `agui --help` explains each.
    """
    try:
        # Loaded here, as Ctrl-C may come while it is.
        from agui_client._cli.program import run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("agui: stopped\n")
        return 130
