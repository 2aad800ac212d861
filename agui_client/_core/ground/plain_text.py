"""Text of any origin that can be shown and sent: in one line, cut, without controls; and short tracebacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import Any, cast

_PASSING_ON = frozenset({"agui_client", "IPython", "asyncio", "anyio", "httpx", "httpcore", "aiohttp"})
"""Packages whose frames say nothing about where the application went wrong."""
_LONGEST_MESSAGE = 4000
_EXTENSION, _RETRY_AFTER = "agui-client", "retryAfter"
"""The place in a RUN_ERROR's metadata for the seconds after which a server may be asked again."""


def cut_short(text: str, longest: int) -> str:
    """Cut a text that has too many characters."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def printable(text: str) -> str:
    """Return a text for a message, cut, in one line, and its controls escaped: anybody may have written it."""
    cut = cut_short(text, _LONGEST_MESSAGE)
    shown = (" " if each.isspace() else each if each.isprintable() else repr(each)[1:-1] for each in cut)
    return cut if cut.isprintable() else "".join(shown)


def sendable(text: str) -> str:
    """Text as UTF-8 can hold it: half a character, as file names may hold one, becomes a question mark."""
    return text.encode(errors="replace").decode()


def failure_text(kind: str, message: object) -> str:
    """Return a sentence about the failure of a run.

    Args:
        kind: The class of the exception.
        message: Its text; None if that may quote secrets.
    """
    return f"failed: {kind}: {message}" if message else f"failed: {kind}"


def brief_traceback(error: BaseException) -> list[str]:
    """Return a traceback for IPython, which would show ten lines of each frame that only passes the error on."""
    shown = TracebackException.from_exception(error)
    frames = [each for each in shown.stack if _PASSING_ON.isdisjoint(Path(each.filename).parts)]
    shown.stack = StackSummary.from_list(frames)
    return "".join(shown.format()).splitlines()


def metadata_with_retry_after(seconds: float | None) -> dict[str, Any] | None:
    """Return the metadata of a RUN_ERROR that says when a server may be asked again; None if nobody knows."""
    return None if seconds is None else {_EXTENSION: {_RETRY_AFTER: seconds}}


def retry_after_in(metadata: Mapping[str, Any] | None) -> float | None:
    """Return the seconds after which a server may be asked again, by the metadata of a RUN_ERROR; None if not said."""
    said: object = (metadata or {}).get(_EXTENSION)
    seconds = cast("Mapping[str, object]", said).get(_RETRY_AFTER) if isinstance(said, Mapping) else None
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
