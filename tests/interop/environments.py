"""Environments: one for each framework, made of its requirements file, and the server that runs in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

HERE = Path(__file__).parent
_INSTALLING = 1200
_STARTING = 180
_SILENT = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "COPILOTKIT_TELEMETRY_DISABLED": "true",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "ignore",
}
"""What keeps frameworks from reporting home."""
_KEPT = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")


def made(name: str, root: Path) -> Path:
    """Return the environment of a framework, which is made if it is not there or its requirements have changed.

    Args:
        name: The name of its requirements file; one that lists npm's packages is for node.
        root: The directory of all environments.

    Raises:
        RuntimeError: The packages cannot be installed.
    """
    environment, wanted = root / name, (HERE / "requirements" / f"{name}.txt").read_text()
    mark = environment / "requirements.txt"
    if mark.exists() and mark.read_text() == wanted:
        return environment
    shutil.rmtree(environment, ignore_errors=True)
    environment.mkdir(parents=True)
    if is_for_node(name):
        packages = [line for line in wanted.splitlines() if line and not line.startswith("#")]
        _run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages], environment)
    else:
        _run([sys.executable, "-m", "venv", str(environment)], root)
        install = ["-m", "pip", "install", "-q", "-r", str(HERE / "requirements" / f"{name}.txt")]
        _run([str(environment / "bin" / "python"), *install], root)
    mark.write_text(wanted)
    return environment


def is_for_node(name: str) -> bool:
    """Whether a framework's server is a node program."""
    return (HERE / "servers" / f"{name}_server.mjs").exists()


@contextmanager
def running(name: str, environment: Path) -> Generator[tuple[str, Path]]:
    """Run a framework's server; gives its address, and the file of all that it prints.

    It ends with the block, with this process, and by itself after a while.

    Raises:
        RuntimeError: The server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as home:
        printed = Path(home) / "server.log"
        variables = {key: os.environ[key] for key in _KEPT if key in os.environ}
        with printed.open("wb") as log:
            process = subprocess.Popen(
                _command(name, environment),
                cwd=home,
                env={
                    "INTEROP_DEBUG": "1",
                    **variables,
                    **_SILENT,
                    "HOME": home,
                    "NODE_PATH": str(environment / "node_modules"),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        deadline = Timer(_STARTING, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None
            port = next((line for line in process.stdout if line.startswith(b"PORT ")), None)
            deadline.cancel()
            if port is None:
                raise RuntimeError(f"{name} does not start: {printed.read_text(errors='replace')[-2000:]}")
            yield f"http://127.0.0.1:{int(port.split()[1])}", printed
        finally:
            deadline.cancel()
            process.kill()
            process.communicate()


def _command(name: str, environment: Path) -> list[str]:
    if not is_for_node(name):
        return [str(environment / "bin" / "python"), str(HERE / "servers" / f"{name}_server.py")]
    # Node resolves the imports of a module from the directory that it is in.
    for program in (f"{name}_server.mjs", "script.mjs"):
        shutil.copy(HERE / "servers" / program, environment / program)
    return ["node", str(environment / f"{name}_server.mjs")]


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_INSTALLING, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} fails: {(done.stdout + done.stderr)[-2000:]}")
