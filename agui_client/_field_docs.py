"""Docstrings of fields in `help()`: Python shows those of slots, but a dataclass has no place for them before 3.14."""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress
from itertools import pairwise
from textwrap import dedent
from typing import Any


class Record:
    """The base of a dataclass with slots, whose fields `help()` shows with their docstrings."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind: Any = cls
        if "__slots__" in vars(cls):  # the decorator makes the class a second time, with its slots
            kind.__slots__ = _FieldDocs(kind)


class _FieldDocs(dict[str, str]):
    """The docstrings of a class's fields by name, read off its source at the first use."""

    def __init__(self, kind: Any) -> None:
        super().__init__(dict.fromkeys(kind.__slots__, ""))
        self._kind = kind

    def __getitem__(self, name: str) -> str:
        with suppress(OSError):  # no source, no docstrings
            module = ast.parse(dedent(inspect.getsource(self._kind)))
            members = [member for each in module.body if isinstance(each, ast.ClassDef) for member in each.body]
            for pair in pairwise(members):
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(ast.Constant(str(text))) if field == name:
                        return inspect.cleandoc(text)
                    case _:
                        pass
        return ""
