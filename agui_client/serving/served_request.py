"""The HTTP request that asked for a run, as functions of the application get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """The HTTP request that asked for a run."""

    path: str
    """The path below the place where the app is mounted, such as "/", without a "/connect" at its end."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers, with names in lower case; those of one name as one list, with commas between them."""
    scope: Mapping[str, Any] = field(repr=False)
    """The ASGI scope, for everything else."""
    is_connect: bool = False
    """Whether the caller wants a thread again, rather than a run."""
    caller: Any = field(default=None, repr=False)
    """The value that the function `authorize=` of the app returned; None without one."""
