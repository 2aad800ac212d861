"""The time that importing takes, in fresh interpreters whose bytecode is compiled already."""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from benchmarks.measure import Row, child_environment

_PROGRAM = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
_OURS = "agui_client"
_REFERENCE = "ag_ui.core, httpx, httpx_sse"
_ROUNDS = 3


def importing(repeat: int) -> list[Row]:
    """`import agui_client`."""
    with TemporaryDirectory() as cache:
        environment = child_environment(PYTHONPYCACHEPREFIX=cache)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        times = [[_seconds(name, environment) for name in (_OURS, _REFERENCE)] for _ in range(1 + _ROUNDS * repeat)]
    ours, reference = map(min, zip(*times[1:], strict=True))
    absolute = f"{ours * 1e3:.0f} / {reference * 1e3:.0f} ms"
    return [Row("import agui_client", ours / reference, 1.2, f"import {_REFERENCE}", absolute)]


def _seconds(modules: str, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", _PROGRAM.format(modules)]
    run = subprocess.run(command, env=environment, cwd=os.sep, check=True, capture_output=True, text=True)
    return float(run.stdout)
