"""The call shapes of the design, as a user's file that mypy and pyright check with everything else (see `.ci/run`).

Nothing of it is executed; here it is only held against the public names, so that none of them is forgotten in it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import agui_client

_FILES = sorted((Path(__file__).parent / "typing").glob("*.py"))
_MET_BUT_NOT_WRITTEN = {"Reducer"}
"""A name that only people who build on the package write."""


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_every_public_name_has_a_call_shape_that_is_type_checked() -> None:
    written = {name for file in _FILES for name in _names(ast.parse(file.read_text(encoding="utf-8")))}
    errors = {name for name in agui_client.__all__ if name.endswith("Error")}
    assert len(_FILES) == 3
    assert set(agui_client.__all__) - written - errors == _MET_BUT_NOT_WRITTEN


def test_nothing_of_it_runs_by_itself() -> None:
    body = [node for file in _FILES for node in ast.parse(file.read_text(encoding="utf-8")).body]
    assert not [node for node in body if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)]
