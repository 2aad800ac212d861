"""The places where runs are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.postgres import PostgresServer

if TYPE_CHECKING:
    from support.telemetry import StoreMetrics

_POSTGRESQL = pytest.param(
    "postgresql",
    marks=pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it"),
)


@pytest.fixture(params=["sqlite", _POSTGRESQL])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database for `Runs`."""
    return _new_database(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", _POSTGRESQL])
def runs_url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """The URL for `Runs`: None for memory, or that of an empty database."""
    return None if request.param == "memory" else _new_database(request, tmp_path)


@pytest.fixture(params=["sqlite", *(["postgresql"] if os.environ.get("AGUI_CLIENT_KILLS") else [])])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database for servers that are killed; with AGUI_CLIENT_KILLS on PostgreSQL, too."""
    return _new_database(request, tmp_path)


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> StoreMetrics:
    """The metrics of the stores of a test."""
    from support.telemetry import StoreMetrics

    return StoreMetrics(monkeypatch)


def _new_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    server: PostgresServer = request.getfixturevalue("postgresql")
    return f"postgresql://{server.new_database()}"
