"""Docstrings of fields in `help()`: Python shows those of slots, but a dataclass has no place for them before 3.14."""

from __future__ import annotations

import ast
import inspect
import sys
from contextlib import suppress
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any, is_typeddict

if TYPE_CHECKING:
    from collections.abc import Mapping


class Record:
    """The base of a dataclass with slots, whose fields `help()` shows with their docstrings."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind: Any = cls
        if "__slots__" in vars(cls):  # the decorator makes the class a second time, with its slots
            kind.__slots__ = _FieldDocs(kind)


class _FieldDocs(dict[str, str]):
    """The docstrings of a class's fields by name, read at the first use."""

    def __init__(self, kind: Any) -> None:
        super().__init__(dict.fromkeys(kind.__slots__, ""))
        self._kind = kind

    def __getitem__(self, name: str) -> str:
        return field_docs(self._kind).get(name, "")


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """Read the docstrings of the fields of a class off its source, and those of its bases."""
    found: dict[str, str] = {}
    above: list[Any] = [each for each in kind.__mro__[1:] if issubclass(each, Record)]
    for record in reversed(above):
        found |= field_docs(record)
    with suppress(OSError):  # no source, no docstrings
        (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
        if not isinstance(tree, ast.ClassDef):
            return found
        for base in tree.bases:  # a TypedDict knows the fields of its bases, and not the bases
            named = getattr(sys.modules[kind.__module__], getattr(base, "id", ""), None)
            if is_typeddict(named):
                found |= field_docs(named)
        for pair in pairwise(tree.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(ast.Constant(str(text))):
                    found[field] = inspect.cleandoc(text)
                case _:
                    pass
    return found
