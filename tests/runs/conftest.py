"""The places where runs are kept."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from support.postgres import postgres_server

_POSTGRESQL = pytest.param(
    "postgresql",
    marks=pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it"),
)


@pytest.fixture(params=["memory", "sqlite", _POSTGRESQL])
def runs_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str | None]:
    """The URL for `Runs`: None for memory, or that of an empty database."""
    if request.param == "memory":
        yield None
        return
    pytest.importorskip("dbos")
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'runs.db'}"
        return
    with postgres_server() as server:
        yield f"postgresql://{server.address}"
