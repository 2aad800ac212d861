"""Ids of writes, by which their writers, and nobody else, know them again: one for each write of each process."""

from __future__ import annotations

import os
from itertools import count
from uuid import uuid4

_numbers, _prefix = count(), [uuid4().hex]


def new_write_id() -> str:
    """Return an id that no other write has; a random one for each would let another thread run at every write."""
    return f"{_prefix[0]}-{next(_numbers)}"


def _begin_anew() -> None:
    _prefix[0] = uuid4().hex


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_begin_anew)
