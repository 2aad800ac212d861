"""The input of a batch: rows of a file, a DataFrame or an iterable, checked as a whole before anything is sent."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic_core import to_json

from agui_client._field_docs import Record
from agui_client.errors import UsageError
from agui_client.messages import Prompt

RowSource: TypeAlias = str | Path | Iterable[Any] | Any
"""A file (.csv, .tsv, .jsonl, .ndjson, .parquet), a DataFrame, an Arrow table, or an iterable of mappings or texts."""
PromptOf: TypeAlias = str | Callable[[Mapping[str, Any]], Prompt]
"""The column that has the prompts, or a function that makes a prompt of a row."""

_SHOWN = 5
_LONGEST_CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Row(Record):
    """A row of the input."""

    number: int
    """The number of the row in the input, from 1."""
    key: str
    """The key of the row, different from those of all others."""
    data: Mapping[str, Any]
    """The columns of the row."""
    prompt: Prompt
    """The prompt."""
    asked: str
    """The prompt as the journal has it: the text, or a digest of anything else."""


def read_rows(source: RowSource, prompt: PromptOf, key: str | None) -> list[Row]:
    """Read and check all rows.

    Args:
        source: See `RowSource`.
        prompt: The column of the prompts, or a function of a row; a text in an iterable is the prompt itself.
        key: The column of the keys; None numbers the rows from 1.

    Returns:
        The rows in their order.

    Raises:
        UsageError: The source cannot be read, a column is missing, a prompt is empty, or two rows have one key.
    """
    tables = [_mapping(each, number, prompt) for number, each in enumerate(_read(source), start=1)]
    columns = [name for name in (prompt, key) if isinstance(name, str)]
    for name in columns:
        _check_column(name, tables)
    keys = [str(number) if key is None else _key(data[key]) for number, data in enumerate(tables, start=1)]
    _check_keys(keys, key)
    prompts = [data[prompt] if isinstance(prompt, str) else prompt(data) for data in tables]
    if empty := [key for key, each in zip(keys, prompts, strict=True) if _is_missing(each)]:
        where = f"column {prompt!r}" if isinstance(prompt, str) else "the function of prompt="
        raise UsageError(f"{where} has no prompt for {_some(empty)}; leave such rows out, or fill them in")
    return [
        Row(number, key, data, _sendable(each), _asked(each))
        for number, (key, data, each) in enumerate(zip(keys, tables, prompts, strict=True), start=1)
    ]


def _read(source: Any) -> Iterable[Any]:
    """Return what is in a source, row by row."""
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    if hasattr(source, "to_pylist"):  # a table of pyarrow
        return cast("Iterable[Any]", source.to_pylist())
    if hasattr(source, "to_dicts"):  # polars
        return cast("Iterable[Any]", source.to_dicts())
    if hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        return cast("Iterable[Any]", source.to_dict("records"))
    given = cast("object", source)
    kind = type(given).__name__
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"rows are a file, a DataFrame, or an iterable of mappings or texts, not a {kind}")
    return cast("Iterable[Any]", source)


def _read_file(path: Path) -> list[dict[str, Any]]:
    readers: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
        ".parquet": _read_parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{path}: the name of a file of rows ends with {', '.join(readers)}")
    try:
        return reader(path)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start} is {error.object[error.start]:#x}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_csv(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(_LONGEST_CELL)  # a prompt may be longer than the 128 KiB that are the default
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            names = list(reader.fieldnames or ())
            if doubled := sorted({name for name in names if names.count(name) > 1}):
                raise UsageError(f"{path} has two columns {doubled[0]!r}")
            for row in reader:
                if None in row or None in row.values():
                    raise UsageError(
                        f"{path}, line {reader.line_num}: the row has not the {len(names)} cells of the first line"
                    )
                rows.append(row)
        except csv.Error as error:
            raise UsageError(f"{path}, line {reader.line_num}: {error}") from error
    return rows


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row: object = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}, line {number} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UsageError(f"{path}, line {number} is no JSON object")
            rows.append(cast("dict[str, Any]", row))
    return rows


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    arrow = arrow_library("pyarrow")
    with path.open("rb") as file:
        try:
            return cast("list[dict[str, Any]]", arrow_library("pyarrow.parquet").read_table(file).to_pylist())
        except arrow.ArrowInvalid as error:
            raise UsageError(f"{path} is no Parquet file: {error}") from error


def arrow_library(module: str) -> Any:
    """Import a module of pyarrow.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; install the extra: pip install 'agui-client[batch]'") from error


def _mapping(each: Any, number: int, prompt: PromptOf) -> Mapping[str, Any]:
    """Return a row as a mapping; a text is the prompt of its row."""
    if isinstance(each, str) and isinstance(prompt, str):
        return {prompt: each}
    if not isinstance(each, Mapping):
        raise UsageError(f"row {number} is a {type(each).__name__}; rows are mappings of columns to values, or texts")
    return cast("Mapping[str, Any]", each)


def _check_column(name: str, rows: list[Mapping[str, Any]]) -> None:
    for number, row in enumerate(rows, start=1):
        if name not in row:
            raise UsageError(f"row {number} has no column {name!r}; it has {', '.join(map(repr, row)) or 'none'}")


def _key(value: Any) -> str:
    return "" if _is_missing(value) else str(value)


def _check_keys(keys: list[str], column: str | None) -> None:
    if missing := [str(number) for number, key in enumerate(keys, start=1) if not key]:
        raise UsageError(f"column {column!r} has no key in {_some(missing)}")
    seen: set[str] = set()
    doubled: dict[str, None] = {}
    for key in keys:
        if key in seen:
            doubled[key] = None
        seen.add(key)
    if doubled:
        raise UsageError(
            f"column {column!r} has one key for several rows: {', '.join(map(repr, list(doubled)[:_SHOWN]))}"
        )


def _is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, blank text, an empty list, or the NaN, NaT or NA of pandas."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or value == [] or type(value).__name__ in ("NAType", "NaTType")


def _sendable(prompt: Any) -> Prompt:
    """Return a prompt; a number in a column of prompts is a text."""
    return str(prompt) if isinstance(prompt, int | float) else cast("Prompt", prompt)


def _asked(prompt: Any) -> str:
    if isinstance(prompt, str | int | float):
        return str(prompt)
    return f"sha256:{hashlib.sha256(to_json(prompt, by_alias=True, fallback=str)).hexdigest()}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"row {shown}" if len(names) == 1 else f"rows {shown}" + (", …" if len(names) > _SHOWN else "")
