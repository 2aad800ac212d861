"""Mutants of a module, made by mutmut's operators."""

from __future__ import annotations

import ast
import difflib
import importlib
import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

MISSING = 'A mutation run needs mutmut, which no extra brings: pip install "mutmut>=3.8"'

_UNTESTED = re.compile(r"^(__all__ |\w+: TypeAlias |\w+ = (TypeVar|ParamSpec|Callable\[)|if TYPE_CHECKING)")
"""The beginning of statements that only type checkers and readers of a module know."""


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    """The path of the module, relative to the tree."""
    original: str
    mutated: str

    @cached_property
    def line(self) -> int:
        """The first line that differs, counted from 1."""
        pairs = zip(self.original.splitlines(), self.mutated.splitlines(), strict=False)
        return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 1)

    @property
    def function(self) -> int:
        """The line at which the function around the change begins; the changed line itself if there is none."""
        starts = [
            node.lineno
            for node in ast.walk(ast.parse(self.original))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body[0].lineno <= self.line <= (node.end_lineno or 0)
        ]
        return max(starts, default=self.line)

    @property
    def constant(self) -> str | None:
        """The name that the changed statement gives to a value of the module; None if it does something else."""
        for node in ast.parse(self.original).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= self.line <= (node.end_lineno or 0):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                return target.id if isinstance(target, ast.Name) else None
        return None

    @property
    def diff(self) -> str:
        """The change as a unified diff with two lines around it."""
        old, new = self.original.splitlines(), self.mutated.splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.module, self.module, n=2, lineterm=""))


def draw(tree: Path, module: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """Draw mutants of a module; also return how many it has, with those that no test can notice."""
    source = (tree / module).read_text(encoding="utf-8")
    cst: Any = _import("libcst")
    visitor: Any = _import("mutmut.mutation.file_mutation").MutationVisitor(
        _import("mutmut.mutation.mutators").mutation_operators,
        _import("mutmut.mutation.pragma_handling").IgnoredCode(set(), set(), set()),
    )
    wrapper = importlib.import_module("libcst.metadata").MetadataWrapper(cst.parse_module(source))
    wrapper.visit(visitor)
    changes: list[Any] = list(visitor.mutations)
    random.Random(f"{seed} {module}").shuffle(changes)
    # The code of a mutant takes a tenth of a second to make, so that of the others is not made.
    mutants = (
        Mutant(module, source, wrapper.module.deep_replace(change.original_node, change.mutated_node).code)
        for change in changes
    )
    chosen = list(itertools.islice(filter(_noticing(source), mutants), sample))
    return sorted(chosen, key=lambda mutant: mutant.line), len(changes)


def _noticing(source: str) -> Callable[[Mutant], bool]:
    """Return a function that says whether a test can notice a mutant of a module."""
    lines, untested = source.splitlines(), _untested(source)
    return lambda mutant: mutant.line not in untested and not re.search(r"\bcast\(", lines[mutant.line - 1])


def _untested(source: str) -> set[int]:
    """Return the lines of statements that no test can notice."""
    lines = source.splitlines()
    return {
        line
        for statement in ast.parse(source).body
        if _UNTESTED.match(lines[statement.lineno - 1])
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(MISSING) from error
