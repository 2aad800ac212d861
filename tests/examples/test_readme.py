"""The snippets of README and of each page in docs run as they stand, one after the other, against the demo agent.

`.ci/run` sees that they have no faults of types.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from agui_client._rendering import views
from agui_client.demo import demo_agent
from agui_client.testing import serve
from support.snippets import ELSEWHERE, PAGES, SNIPPETS


def ask(question: str | None) -> bool:
    return True


GIVEN: dict[str, Any] = {"ask": ask}
"""Names that the pages leave to the reader."""


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
    for name in ELSEWHERE:
        if find_spec(name) is None:
            monkeypatch.setitem(sys.modules, name, MagicMock())
    for name in ("tower.png", "menu.pdf"):
        Path(name).write_bytes(b"\x89PNG")
    snippets = SNIPPETS.findall(page.read_text(encoding="utf-8"))
    with serve(demo_agent(pace=0)) as server:
        namespace = dict(GIVEN)
        for snippet in snippets:
            run(snippet.replace("http://localhost:8000/", server.url), namespace)
    if page.stem == "README":
        assert "18 degrees and clear" in capsys.readouterr().out
        assert len(snippets) == 6 + 5
