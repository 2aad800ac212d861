"""Servers that are told to stop (SIGTERM) under load: what was begun ends, is saved, and is not begun again.

`python -m tests.programs.deploys` stops a hundred under 24 users, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from programs.deploys import deploy

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


async def test_servers_that_are_told_to_stop_lose_no_payment_and_make_none_twice(
    shared_url: str, tmp_path: Path
) -> None:
    stops = int(os.environ.get("AGUI_CLIENT_KILLS", "2"))
    assert await deploy(tmp_path, shared_url, stops=stops, users=5) == []
