"""The displays that objects of an application bring with them: HTML, pictures, Markdown, LaTeX, and records as a table.

A picture stands in the HTML by value, so that it is there in a saved notebook and in what is made of one.
"""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import Any, cast

from pydantic import BaseModel

from agui_client._core.protocol.schema import is_object
from agui_client._rendering.escaping import exact
from agui_client._rendering.markdown import prose

_METHODS = {
    "text/html": "_repr_html_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
}
"""The methods with which objects display themselves in notebooks, the fullest form first."""
_MOST_ROWS = 100
_LONGEST_CELL = 200


def bundle_of_object(shown: Any) -> Mapping[str, Any]:
    """Return what an object displays of itself by MIME type; empty if it does not."""
    if hasattr(shown, "_repr_mimebundle_"):
        made = cast("tuple[Any, ...] | dict[str, Any] | None", shown._repr_mimebundle_(include=None, exclude=None))
        if bundle := (made[0] if isinstance(made, tuple) else made):
            return cast("Mapping[str, Any]", bundle)
    bundle = {kind: _data_of(shown, method) for kind, method in _METHODS.items() if hasattr(shown, method)}
    if bundle := {kind: data for kind, data in bundle.items() if data is not None}:
        return bundle
    if callable(getattr(shown, "savefig", None)):
        return {"image/png": _saved(shown)}
    return _formatted(shown)


def html_of_bundle(bundle: Mapping[str, Any]) -> str | None:
    """Write the fullest form of what an object displays as HTML; None if it displays text alone."""
    for kind, write in _WRITERS.items():
        if bundle.get(kind) is not None:
            return write(bundle[kind])
    return None


def records_of(shown: Any) -> list[Mapping[str, Any]] | None:
    """Return the records of a list, by the names of their members; None for anything else, and for an empty list."""
    if not isinstance(shown, list | tuple):
        return None
    values = cast("Sequence[Any]", shown)
    if hasattr(values, "_fields"):  # a record itself
        return None
    records = [record for each in values if (record := _record(each)) is not None]
    return records if records and len(records) == len(values) else None


def table_html(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a table of HTML, with numbers at the right."""
    columns = _columns(records)
    head = "".join(f"<th>{html.escape(exact(name))}</th>" for name in columns)
    rows = "".join(f"<tr>{''.join(_cell(each.get(name)) for name in columns)}</tr>" for each in _few(records))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{html.escape(_rest(records))}"


def table_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as lines of text, in columns."""
    columns = _columns(records)
    rows = [columns, *([_text(each.get(name)) for name in columns] for each in _few(records))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *filter(None, [_rest(records)])])


def _data_of(shown: Any, method: str) -> Any:
    data: Any = getattr(shown, method)()
    is_with_metadata = isinstance(data, tuple)
    return cast("tuple[Any, ...]", data)[0] if is_with_metadata else data


def _saved(figure: Any) -> bytes:
    """Return a figure of matplotlib, which displays itself only where a notebook has set it up."""
    out = BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def _formatted(shown: object) -> Mapping[str, Any]:
    """Return what the formatters of the notebook make of an object, which libraries register for their classes."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or isinstance(shown, str | int | float | list | tuple | dict | bool):
        return {}
    made: dict[str, Any] = shell.display_formatter.format(shown)[0]
    return {kind: data for kind, data in made.items() if kind != "text/plain"}  # which is the repr of anything


def _picture(kind: str) -> Callable[[Any], str]:
    """Return what writes the data of a picture as HTML; a picture of SVG runs nothing and loads nothing."""

    def write(data: Any) -> str:
        """Write the picture."""
        if isinstance(data, str) and kind != "image/svg+xml":
            encoded = "".join(data.split())  # as bundles have it
        else:
            encoded = base64.b64encode(data.encode() if isinstance(data, str) else data).decode()
        return f'<img src="data:{kind};base64,{html.escape(encoded)}" alt="">'

    return write


def _tex(text: str) -> str:
    return f'<span class="tex2jax_process mathjax_process">{html.escape(exact(text))}</span>'


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text/html": str,
    **{kind: _picture(kind) for kind in ("image/svg+xml", "image/png", "image/jpeg")},
    "text/markdown": lambda text: prose(str(text), has_math=True),
    "text/latex": lambda text: _tex(str(text)),
}


def _record(value: Any) -> Mapping[str, Any] | None:
    if is_object(value):
        return value
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    as_dict: Callable[[], Mapping[str, Any]] | None = getattr(value, "_asdict", None)  # of named tuples
    return None if as_dict is None else as_dict()


def _columns(records: Sequence[Mapping[str, Any]]) -> list[str]:
    return [*dict.fromkeys(str(name) for each in _few(records) for name in each)]


def _few(records: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return records[:_MOST_ROWS]


def _rest(records: Sequence[Mapping[str, Any]]) -> str:
    return f"and {len(records) - _MOST_ROWS} more" if len(records) > _MOST_ROWS else ""


def _cell(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    align = ' style="text-align:right"' if is_number else ""
    return f"<td{align}>{html.escape(exact(_text(value)))}</td>"


def _text(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
