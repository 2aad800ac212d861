"""The recipes of examples/evaluators in environments of their own: python -m tests.programs.evaluators [NAME]...

Each of pydantic-evals, inspect-ai, ragas and promptfoo is installed into an environment, which takes minutes and some
hundred megabytes; tests/examples/test_evaluators.py runs in it. A recipe that fails is named at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_PROJECT = Path(__file__).parents[3]
_RECIPES = {
    "pydantic-evals": "pydantic_evals",
    "inspect-ai": "inspect",
    "ragas": "ragas",
    "promptfoo": "promptfoo",
}
"""The packages, each with a word in the names of its tests."""
_BESIDE = {"ragas": ["langchain-community<0.4"]}
"""What a package needs beside what it asks for: ragas 0.4.3 imports a module that newer ones have not."""
_SECONDS = 1800


def main() -> int:
    """Make the environments, and run the tests in them; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_RECIPES))
    parser.add_argument("--root", type=Path, default=Path(tempfile.gettempdir()) / "agui-evaluators")
    given = parser.parse_args()
    failed = [name for name in given.names or _RECIPES if not _passes(name, given.root / name)]
    _say(f"failed: {', '.join(failed)}" if failed else "all recipes work")
    return 1 if failed else 0


def _passes(name: str, root: Path) -> bool:
    """Return whether the tests of a recipe pass, and none of them is skipped."""
    python = root / "bin" / "python"
    env = dict(os.environ)
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(root)])
    packages = [] if name == "promptfoo" else [name, *_BESIDE.get(name, ())]
    _run([str(python), "-m", "pip", "install", "-q", "-e", f"{_PROJECT}[cli,evaluate]", "pytest>=9", *packages])
    if name == "promptfoo":
        _run(["npm", "install", "--prefix", str(root), "--no-audit", "--no-fund", "promptfoo"])
        env["AGUI_PROMPTFOO"] = str(root / "node_modules" / ".bin" / "promptfoo")
    tests = [str(_PROJECT / "tests" / "examples" / "test_evaluators.py"), "-k", _RECIPES[name]]
    # Neither the settings nor the plugins of the project, which need all of its environment.
    settings = [
        "-c",
        os.devnull,
        "--rootdir",
        str(root),
        "--noconftest",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    command = [str(python), "-m", "pytest", "-q", "-rs", *settings, *tests]
    done = subprocess.run(
        command, cwd=_PROJECT, env=env, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=False
    )
    _say(f"== {name}\n{done.stdout}")
    return done.returncode == 0 and "skipped" not in done.stdout


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=_SECONDS, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
