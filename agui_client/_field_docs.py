"""Docstrings of fields in `help()`: Python shows those of slots, but a dataclass has no place for them before 3.14."""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress
from itertools import pairwise
from textwrap import dedent
from typing import Any, TypeVar, cast

T = TypeVar("T")


def documented(kind: type[T]) -> type[T]:
    """Decorate a dataclass with slots, so that `help()` shows the docstrings of its fields."""
    record: Any = kind
    record.__slots__ = _FieldDocs(record)
    return kind


class _FieldDocs(dict[str, str]):
    """The docstrings of a class's fields by name, read off its source when somebody asks for one."""

    def __init__(self, kind: Any) -> None:
        super().__init__(dict.fromkeys(kind.__slots__, ""))
        self._kind = kind

    def __getitem__(self, name: str) -> str:
        with suppress(OSError):  # no source, no docstrings
            module = ast.parse(dedent(inspect.getsource(self._kind)))
            for pair in pairwise(cast("ast.ClassDef", module.body[0]).body):
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(ast.Constant(str(text))) if field == name:
                        return inspect.cleandoc(text)
                    case _:
                        pass
        return ""
