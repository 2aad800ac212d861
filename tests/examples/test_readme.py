"""README's snippets run as they stand, one after the other, against the demo agent."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from agui_client.testing import demo_agent, serve

README = Path(__file__).parents[2] / "README.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def ask(question: str | None) -> bool:
    return True


GIVEN: dict[str, Any] = {"ask": ask, "png": b"\x89PNG"}
"""What README leaves to the reader."""


def run(snippet: str, namespace: dict[str, Any]) -> None:
    code = compile(snippet, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, namespace))
    else:
        exec(code, namespace)


def test_every_snippet_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tower.png").write_bytes(GIVEN["png"])
    with serve(demo_agent(pace=0)) as server:
        namespace = dict(GIVEN)
        for snippet in SNIPPETS:
            run(snippet.replace("http://localhost:8000/", server.url), namespace)
    assert "18 degrees and clear" in capsys.readouterr().out
    assert len(SNIPPETS) > 10
