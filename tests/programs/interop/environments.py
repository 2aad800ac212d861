"""Environments: one for each framework, made of its requirements file, and the server that runs in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, Timer

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
_KEPT = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE", "INTEROP_LONGEST")


def made(name: str, root: Path) -> Path:
    """Return the environment of a framework, which is made if it is not there or its requirements have changed.

    Args:
        name: The name of its requirements file: `NAME.txt` is for pip, `NAME.json` a package.json for npm.
        root: The directory of all environments.

    Raises:
        RuntimeError: The packages cannot be installed.
    """
    environment, requirements = root / name, _requirements(name)
    wanted = requirements.read_text()
    mark = environment / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return environment
    shutil.rmtree(environment, ignore_errors=True)
    environment.mkdir(parents=True)
    say(f"{name}: installing {requirements.name} into {environment}, which can take some minutes")
    begun = time.monotonic()
    if is_for_node(name):
        shutil.copy(requirements, environment / "package.json")
        _install(name, ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev"], environment)
    else:
        _install(name, [sys.executable, "-m", "venv", str(environment)], root)
        alone = ["--no-deps"] if wanted.startswith("# pip: --no-deps\n") else []
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", *alone]
        _install(name, [*pip, "-r", str(requirements)], root)
    mark.write_text(wanted)
    say(f"{name}: installed in {time.monotonic() - begun:.0f} s")
    return environment


def is_for_node(name: str) -> bool:
    """Whether a framework's server is a node program."""
    return _requirements(name).suffix == ".json"


def say(line: str) -> None:
    """Tell how far the program is."""
    print(line, file=sys.stderr, flush=True)


def _requirements(name: str) -> Path:
    package = HERE / "requirements" / f"{name}.json"
    return package if package.exists() else package.with_suffix(".txt")


@contextmanager
def running(name: str, environment: Path) -> Generator[tuple[str, Path]]:
    """Run a framework's server; gives its address, and the file of all that it prints.

    It ends with the block, with this process, and by itself after a while.

    Raises:
        RuntimeError: The server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as home, (Path(home) / "server.log").open("wb") as log:
        variables = {key: os.environ[key] for key in _KEPT if key in os.environ}
        with subprocess.Popen(
            _command(name, environment),
            cwd=home,
            env={"INTEROP_DEBUG": "1", **variables, **_SILENT, "HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process:
            assert process.stdout is not None
            deadline = Timer(_STARTING, process.kill)
            deadline.start()
            # A server that prints would block if nobody read the pipe.
            reader = Thread(target=shutil.copyfileobj, args=(process.stdout, log), daemon=True)
            try:
                port = next((line for line in process.stdout if line.startswith(b"PORT ")), None)
                deadline.cancel()
                if port is None:
                    raise RuntimeError(f"{name} does not start: {Path(log.name).read_text(errors='replace')[-2000:]}")
                reader.start()
                yield f"http://127.0.0.1:{int(port.split()[1])}", Path(log.name)
            finally:
                deadline.cancel()
                process.kill()
                if reader.is_alive():
                    reader.join(5)


def _command(name: str, environment: Path) -> list[str]:
    if not is_for_node(name):
        return [str(environment / "bin" / "python"), str(HERE / "servers" / f"{name}_server.py")]
    # Node resolves the imports of a module from the directory that it is in.
    for program in (f"{name}_server.mjs", "script.mjs"):
        shutil.copy(HERE / "servers" / program, environment / program)
    return ["node", str(environment / f"{name}_server.mjs")]


def _install(name: str, command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_INSTALLING, check=False)
    except FileNotFoundError:
        raise RuntimeError(f"{name} cannot be installed: there is no {command[0]} on PATH") from None
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{name} cannot be installed: its packages took more than {_INSTALLING} s") from None
    if done.returncode:
        said = re.sub(r" \(from versions: .*\)", "", done.stderr)
        lines = [line for line in said.splitlines() if line.lower().startswith(("error", "npm error"))]
        why = "\n".join(lines[:8]) or (done.stdout + said)[-2000:]
        raise RuntimeError(f"{name} cannot be installed, see requirements/{_requirements(name).name}: {why}")
