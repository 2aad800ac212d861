"""The official client of TypeScript, and CopilotKit's runtime, under node; installed once and kept for later runs.

`PYTHONPATH=tests python -m support.typescript` installs the client before any test waits for it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_CLIENT = "@ag-ui/client", "1.0.0"
COPILOTKIT = "@copilotkit/runtime", "1.75.0"
"""The package and the version of CopilotKit's runtime, which brings a client of its own."""
_SECONDS = 60.0
_INSTALLING = 540.0


def run_typescript(program: Path, *arguments: str, package: tuple[str, str] = _CLIENT) -> Any:
    """Run a program of a package; return the JSON that it prints. Skips the test where it cannot be installed."""
    # Node looks for packages from the folder of a program on.
    with tempfile.TemporaryDirectory(dir=installed(package), prefix="run-") as folder:
        command = ["node", shutil.copy(program, folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def installed(package: tuple[str, str] = _CLIENT) -> Path:
    """Return a folder with a package, by default the client."""
    name = "typescript" if package == _CLIENT else package[0].strip("@").replace("/", "-")
    kept = Path(tempfile.gettempdir()) / f"agui-client-{name}-{package[1]}"
    if not (kept / "node_modules").exists():
        _install(kept, {"private": True, "type": "module", "dependencies": dict([package])})
    return kept


def folder_of(package: Path) -> Path:
    """Return a folder with the packages that a package.json asks for, which a change of it makes anew."""
    wanted = package.read_text("utf-8")
    kept = Path(tempfile.gettempdir()) / f"agui-client-pages-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not (kept / "node_modules").exists():
        _install(kept, json.loads(wanted))
    return kept


def _install(kept: Path, wanted: dict[str, Any]) -> None:
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        pytest.skip("node and npm run the TypeScript client, and are not both on PATH; nothing else needs them")
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f"{kept.name}-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        (made / "package.json").write_text(json.dumps(wanted), "utf-8")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev"]
        try:
            subprocess.run(command, cwd=made, capture_output=True, timeout=_INSTALLING, check=True)
        except subprocess.SubprocessError as error:
            pytest.skip(f"npm cannot install {wanted['dependencies']}, which no other test needs: {error}")
        with suppress(OSError):  # another run was quicker
            made.rename(kept)


if __name__ == "__main__":
    try:
        installed()
    except pytest.skip.Exception as nothing:
        sys.exit(f"{nothing}: the tests with the TypeScript client are SKIPPED")
