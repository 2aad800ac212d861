"""Runs a program as it stands, apart from a demo agent that speaks twenty times as fast.

`python -P hurried.py program.py ARGUMENTS`, or `python -P hurried.py -m module ARGUMENTS`.
"""

from __future__ import annotations

import runpy
import sys

from agui_client.testing import demo_agent


def command(*arguments: str) -> list[str]:
    """What to call for it."""
    return [sys.executable, "-P", "-W", "error", __file__, *arguments]


if __name__ == "__main__":
    assert demo_agent.__kwdefaults__ is not None
    demo_agent.__kwdefaults__["pace"] = 0.05
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
