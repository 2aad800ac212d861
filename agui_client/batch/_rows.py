"""The input of a batch: rows of a file, a DataFrame or an iterable, checked as a whole before anything is sent.

In a CSV file of results, a text that a spreadsheet would run as a formula stands behind an apostrophe (`quoted`).

To change

- a kind of file that a batch reads or writes: `_read_file` here, `table_writer` in `batch/_tables.py`
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from numbers import Number
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic_core import PydanticSerializationError, to_json

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.prompts import Prompt
from agui_client._core.protocol.schema import is_a
from agui_client.errors import UsageError

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
    if not (isinstance(prompt, str) or callable(prompt)):
        raise UsageError(f"prompt= is the name of a column, or a function of a row, not {prompt!r}")
    if not is_a(key, str | None):
        raise UsageError(f"key= is the name of a column, not {key!r}")
    tables = [_mapping(each, number, prompt) for number, each in enumerate(_read(source), start=1)]
    columns = [name for name in (prompt, key) if isinstance(name, str)]
    for name in columns:
        _check_column(name, tables)
    keys = [str(number) if key is None else _key(data[key]) for number, data in enumerate(tables, start=1)]
    _check_keys(keys, key)
    prompts = [_prompt(prompt, data, number) for number, data in enumerate(tables, start=1)]
    if empty := [key for key, each in zip(keys, prompts, strict=True) if is_missing(each)]:
        where = f"column {prompt!r}" if isinstance(prompt, str) else "the function of prompt="
        raise UsageError(f"{where} has no prompt for {_some(empty)}; leave such rows out, or fill them in")
    return [
        _row(number, key, data, each)
        for number, (key, data, each) in enumerate(zip(keys, tables, prompts, strict=True), start=1)
    ]


def _read(source: Any) -> Iterable[Any]:
    """Return what is in a source, row by row."""
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    for names in ("column_names", "columns"):  # of pyarrow; of pandas
        _check_names(getattr(source, names, ()), "the table")
    rows: Iterable[Any] = source
    if hasattr(source, "to_pylist"):  # a table of pyarrow
        rows = source.to_pylist()
    elif hasattr(source, "to_dicts"):  # polars
        rows = source.to_dicts()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        rows = source.to_dict("records")
    elif is_a(source, Mapping) or not is_a(source, Iterable):
        kind = type(source).__name__
        raise UsageError(f"rows are a file, a DataFrame, or an iterable of mappings or texts, not a {kind}")
    return rows


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
        raise UsageError(_not_utf8(path)) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_csv(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(_LONGEST_CELL)  # a prompt may be longer than the 128 KiB that are the default
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            names = list(reader.fieldnames or ())
            if not names:
                raise UsageError(f"{path} is empty: its first line has the names of the columns")
            is_quoted = is_table(names)
            if is_quoted:
                reader.fieldnames = names = list(map(unquoted, names))
            _check_names(names, str(path))
            for row in reader:
                if None in row or None in row.values():
                    raise UsageError(
                        f"{path}, line {reader.line_num}: the row has not the {len(names)} cells of the first line"
                    )
                rows.append({name: unquoted(cell) for name, cell in row.items()} if is_quoted else row)
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
                row: object = parse_json(line)
            except ValueError as error:
                raise UsageError(f"{path}, line {number} is not JSON: {getattr(error, 'msg', error)}") from error
            if not isinstance(row, dict):
                raise UsageError(f"{path}, line {number} is not a JSON object")
            rows.append(cast("dict[str, Any]", row))
    return rows


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    arrow = arrow_library("pyarrow")
    with path.open("rb") as file:
        try:
            rows: list[dict[str, Any]] = arrow_library("pyarrow.parquet").read_table(file).to_pylist()
        except arrow.ArrowInvalid as error:
            raise UsageError(f"{path} is not a Parquet file: {error}") from error
    return rows


def arrow_library(module: str) -> Any:
    """Import a module of pyarrow.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; install the extra: pip install 'agui-client[batch]'") from error


def _not_utf8(path: Path) -> str:
    """Return where a file is not UTF-8; the decoder that found it knows its place in a block alone."""
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        return f"{path}, line {number} is not UTF-8: it has the byte {content[error.start]:#x}"
    return f"{path} was not UTF-8 when it was read"


def _check_names(names: Iterable[object], where: str) -> None:
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"{where} has two columns {doubled[0]!r}")


def _prompt(prompt: PromptOf, data: Mapping[str, Any], number: int) -> Any:
    if isinstance(prompt, str):
        return data[prompt]
    try:
        return prompt(data)
    except Exception as error:
        error.add_note(f"in the function of prompt=, for row {number}")
        raise


def _row(number: int, key: str, data: Mapping[str, Any], prompt: Any) -> Row:
    """Make a row.

    Raises:
        UsageError: Its key or its prompt is not text that can be sent or written.
    """
    for text, name in ((key, "key"), (prompt, "prompt")):
        try:
            to_json(text, by_alias=True, fallback=str)
        except PydanticSerializationError as error:
            raise UsageError(f"row {number} has half a character in its {name}") from error
    return Row(number, key, data, _sendable(prompt), _asked(prompt))


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
            raise UsageError(
                f"row {number} has no column {name!r}; it has {', '.join(map(repr, row)) or 'none'}; "
                "name the columns with prompt= and key=, or --prompt and --key"
            )


def _key(value: Any) -> str:
    return "" if is_missing(value) else str(value)


def _check_keys(keys: list[str], column: str | None) -> None:
    if missing := [str(number) for number, key in enumerate(keys, start=1) if not key]:
        raise UsageError(f"column {column!r} has no key in {_some(missing)}")
    if doubled := [key for key, count in Counter(keys).items() if count > 1]:
        raise UsageError(f"column {column!r} has one key for several rows: {', '.join(map(repr, doubled[:_SHOWN]))}")


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, blank text, an empty list, or the NaN, NaT or NA of pandas."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, list):
        return not value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _sendable(prompt: Any) -> Prompt:
    """Return a prompt; a number in a column of prompts is a text."""
    return str(prompt) if isinstance(prompt, Number) else cast("Prompt", prompt)


def _asked(prompt: Any) -> str:
    if isinstance(prompt, str | Number):
        return str(prompt)
    return f"sha256:{hashlib.sha256(to_json(prompt, by_alias=True, fallback=str)).hexdigest()}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"row {shown}" if len(names) == 1 else f"rows {shown}" + (", …" if len(names) > _SHOWN else "")


# The characters are those that OWASP's page on CSV injection and its ASVS name, the full-width ones among them.
_IS_RUN = re.compile("'*[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a text that gets an apostrophe; one that has some already gets another, which is taken off again."""
_IS_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OF_EVERY_TABLE = frozenset({"key", "text", "error", "error_code", "attempts", "seconds", "first_text"})


def quoted(text: str) -> str:
    """Return a text as a cell that no spreadsheet runs; numbers stay as they are."""
    return "'" + text if _IS_RUN.match(text) and not _IS_NUMBER.fullmatch(text) else text


def unquoted(cell: str) -> str:
    """Return the text that `quoted` made a cell of."""
    return cell[1:] if cell.startswith("'") and _IS_RUN.match(cell) else cell


def is_table(columns: Iterable[str]) -> bool:
    """Return whether columns are those of a table of results; in other files an apostrophe is part of the text."""
    return _OF_EVERY_TABLE.issubset(columns)
