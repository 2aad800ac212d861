"""Tracebacks in notebooks, where IPython would show ten lines of each frame that only passes an error on."""

from __future__ import annotations

from pathlib import Path
from traceback import StackSummary, TracebackException

_PASSING_ON = frozenset({"agui_client", "IPython", "asyncio", "anyio", "httpx", "httpcore", "aiohttp"})
"""Packages whose frames say nothing about where the application went wrong."""


def brief(error: BaseException) -> list[str]:
    """Return the lines of an error's traceback, without the frames that only pass the error on."""
    shown = TracebackException.from_exception(error)
    frames = [each for each in shown.stack if _PASSING_ON.isdisjoint(Path(each.filename).parts)]
    shown.stack = StackSummary.from_list(frames)
    return "".join(shown.format()).splitlines()
