"""The snippets of README and of each page in docs run as they stand, one after the other, against the demo agent.

They have no faults of types either: each page becomes a module, and pyright checks all of them in one run.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from agui_client._widgets import views
from agui_client.testing import demo_agent, serve

ROOT = Path(__file__).parents[2]
SNIPPETS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITTEN = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
PAGES = [page for page in WRITTEN if SNIPPETS.search(page.read_text("utf-8"))]


def ask(question: str | None) -> bool:
    return True


_ELSEWHERE = ("marimo", "panel")
"""Libraries that a page uses and the tests do without."""
GIVEN: dict[str, Any] = {"ask": ask, "png": b"\x89PNG"}
"""Names that the pages leave to the reader."""
_GIVEN_TYPES = "def ask(question: str | None) -> bool: ...\npng: bytes\n"
_PYRIGHT = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}


def run(snippet: str, namespace: dict[str, Any]) -> None:
    code = compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, namespace))
    else:
        exec(code, namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_runs(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(views, "_views", {})  # a page registers a view
    for name in _ELSEWHERE:
        if find_spec(name) is None:
            monkeypatch.setitem(sys.modules, name, MagicMock())
    Path("tower.png").write_bytes(GIVEN["png"])
    snippets = SNIPPETS.findall(page.read_text(encoding="utf-8"))
    with serve(demo_agent(pace=0)) as server:
        namespace = dict(GIVEN)
        for snippet in snippets:
            run(snippet.replace("http://localhost:8000/", server.url), namespace)
    if page.stem == "README":
        assert "18 degrees and clear" in capsys.readouterr().out
        assert len(snippets) == 6


def as_module(page: Path) -> str:
    """Return the snippets of a page as one function, which may await, each line where the page has it."""
    text = page.read_text(encoding="utf-8")
    lines = ["from given import *", "async def page() -> None:", *[""] * text.count("\n")]
    for snippet in SNIPPETS.finditer(text):
        start = text.count("\n", 0, snippet.start(1))
        for number, line in enumerate(snippet[1].splitlines(), start):
            lines[number] = f"    {line}"
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright")
def test_no_snippet_has_a_fault_of_types(tmp_path: Path) -> None:
    for page in PAGES:
        (tmp_path / f"page_{page.stem}.py").write_text(as_module(page), encoding="utf-8")
    (tmp_path / "given.pyi").write_text(_GIVEN_TYPES, encoding="utf-8")
    for name in _ELSEWHERE:
        (tmp_path / f"{name}.pyi").write_text(
            "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n", "utf-8"
        )
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(_PYRIGHT), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", tmp_path], capture_output=True, timeout=100, check=False)
    report = json.loads(done.stdout)
    faults = [
        f"{Path(each['file']).stem}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
    ]
    assert (faults, report["summary"]["filesAnalyzed"]) == ([], len(PAGES) + 1 + len(_ELSEWHERE))
