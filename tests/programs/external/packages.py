"""Packages of other registries, each in a folder of its own that is kept for later runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.typescript import installed

_SECONDS = 120.0


def printed_by_node(package: tuple[str, str], program: str, given: object = None) -> Any:
    """Run a program of some lines where a package is installed.

    Args:
        package: The name and the version of the package.
        program: The text of an ES module.
        given: The JSON value that it reads from its standard input.

    Returns:
        The JSON value that it prints.
    """
    command = ["node", "--input-type=module", "--eval", program]
    text = json.dumps(given)
    done = subprocess.run(
        command, cwd=installed(package), input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise SystemExit(f"{package[0]}: {done.stderr}")
    return json.loads(done.stdout)


def python_package(name: str, version: str) -> Path:
    """Return a folder with one Python package, without what it needs, for `sys.path`."""
    kept = Path(tempfile.gettempdir()) / f"agui-client-{name}-{version}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f"{kept.name}-") as folder:
            made = Path(folder) / "made"
            pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(made)]
            subprocess.run([*pip, f"{name}=={version}"], check=True, timeout=_SECONDS)
            with suppress(OSError):  # another run was quicker
                made.rename(kept)
    return kept
