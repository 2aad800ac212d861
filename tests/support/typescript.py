"""The official client of TypeScript under node, installed once and kept for later runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_CLIENT = "1.0.0"
"""The version of @ag-ui/client."""
_SECONDS = 60.0
_INSTALLING = 240.0


def run_typescript(program: Path, *arguments: str) -> Any:
    """Run a program of the client; return the JSON that it prints. Skips the test where it cannot be installed."""
    # Node looks for packages from the folder of a program on.
    with tempfile.TemporaryDirectory(dir=installed(), prefix="run-") as folder:
        command = ["node", shutil.copy(program, folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def installed() -> Path:
    """Return a folder with the client."""
    kept = Path(tempfile.gettempdir()) / f"agui-client-typescript-{_CLIENT}"
    if not (kept / "node_modules").exists():
        _install(kept)
    return kept


def _install(kept: Path) -> None:
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        pytest.skip("node and npm run the TypeScript client, and are not both on PATH")
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f"{kept.name}-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        wanted = {"private": True, "type": "module", "dependencies": {"@ag-ui/client": _CLIENT}}
        (made / "package.json").write_text(json.dumps(wanted), "utf-8")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev"]
        try:
            subprocess.run(command, cwd=made, capture_output=True, timeout=_INSTALLING, check=True)
        except subprocess.SubprocessError as error:
            pytest.skip(f"npm cannot install @ag-ui/client {_CLIENT}: {error}")
        with suppress(OSError):  # another run was quicker
            made.rename(kept)
