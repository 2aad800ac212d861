"""The environments that real servers run in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from programs.interop import environments
from support.waiting import until_sync

PRINTING = """
import sys
print("PORT 1", flush=True)
print("word " * 100_000, flush=True)
print("all is printed", file=sys.stderr, flush=True)
sys.stdin.read()
"""


def test_a_server_that_prints_much_is_not_held_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in ("servers", "requirements", "bin"):
        (tmp_path / directory).mkdir()
    (tmp_path / "servers" / "printing_server.py").write_text(PRINTING)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(environments, "HERE", tmp_path)
    with environments.running("printing", tmp_path) as (_, printed):
        until_sync(lambda: "all is printed" in printed.read_text())
