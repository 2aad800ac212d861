"""The local zone of tests that compare dates."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the local zone be UTC, for programs that are started, too."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
