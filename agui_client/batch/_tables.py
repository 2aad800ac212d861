"""Tables of results: one flat mapping for each row, and files of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json, to_jsonable_python

from agui_client._core.ground.files import replacing, usual_mode
from agui_client.batch._rows import arrow_library, is_missing, quoted
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client.batch._results import RowResult

_OWN = ("key", "agent", "text", "parsed", "error", "error_code", "attempts", "cost", "seconds", "first_text")
_PARSED, _USAGE = "parsed.", "usage."


def table(results: Iterable[RowResult]) -> list[dict[str, Any]]:
    """Return results as flat rows, all with the same columns, for `pandas.DataFrame(table(results))`.

    The columns of the input come first, then "text", those of the parsed reply as "parsed.NAME", "error",
    "error_code", "attempts", "cost" where money was counted, "seconds", "first_text", and tokens as "usage.NAME". A
    column of the input with one of these names becomes "input.NAME".

    Returns:
        The rows; None where a row has no value.
    """
    rows = [_flat(each) for each in results]
    # Each group of columns stays together, however rows differ.
    names = {name: None for row in rows for name in row}
    own = [name for name in names if _is_own(name)]
    order = [*(name for name in names if not _is_own(name)), *sorted(own, key=_rank)]
    return [{name: row.get(name) for name in order} for row in rows]


def write_table(results: Iterable[RowResult], path: str | Path) -> None:
    """Write results as a table to a file, which is replaced as a whole.

    In a .csv, a text that a spreadsheet would run as a formula has an apostrophe in front of it: one that begins with
    `=`, `+`, `-`, `@`, a tab or a line break, and is not a number. `run_many` takes it off when it reads the file.

    Args:
        path: The file, which ends with .csv, .jsonl or .parquet.

    Raises:
        UsageError: The name ends otherwise, or pyarrow is not installed.
        OSError: The file cannot be written.
    """
    path = Path(path)
    write = table_writer(path)
    rows = table(results)
    with replacing(path, path.stat().st_mode if path.exists() else usual_mode(path.absolute().parent)) as draft:
        write(rows, draft)


def table_writer(path: Path) -> Callable[[list[dict[str, Any]], Path], None]:
    """Return the function that writes tables to files of a kind.

    Raises:
        UsageError: There is none, or pyarrow is not installed.
    """
    writers = {".csv": _write_csv, ".jsonl": _write_json_lines, ".parquet": _write_parquet}
    if (write := writers.get(path.suffix.lower())) is None:
        raise UsageError(f"{path}: the name of a file of results ends with {', '.join(writers)}")
    if write is _write_parquet:
        arrow_library("pyarrow.parquet")
    return write


def _flat(done: RowResult) -> dict[str, Any]:
    columns = ((str(name), value) for name, value in done.row.items())
    row: dict[str, Any] = {f"input.{name}" if _is_own(name) else name: _input_cell(value) for name, value in columns}
    row["key"] = done.key
    if done.agent:
        row["agent"] = done.agent
    row["text"] = done.text
    parsed = to_jsonable_python(done.parsed, fallback=repr)
    if isinstance(parsed, Mapping):
        row |= {f"{_PARSED}{name}": value for name, value in cast("Mapping[str, Any]", parsed).items()}
    elif parsed is not None:
        row["parsed"] = parsed
    row["error"] = None if done.error is None else f"{done.error.type}: {done.error.message}"
    row["error_code"] = None if done.error is None else done.error.code
    row |= {"attempts": done.attempts} | ({} if done.cost is None else {"cost": done.cost})
    row |= {"seconds": done.seconds, "first_text": done.first_text}
    return row | {f"{_USAGE}{name}": count for name, count in done.usage.items()}


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith((_PARSED, _USAGE))


def _input_cell(value: object) -> object:
    """Return a value of the input, None for NaN, NaT and NA, which only pandas knows."""
    if isinstance(value, str | list):
        return cast("object", value)
    return None if is_missing(value) else value


def _rank(name: str) -> int:
    if name.startswith(_USAGE):
        return len(_OWN)
    return _OWN.index("parsed" if name.startswith(_PARSED) else name)


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(quoted, rows[0] if rows else ()))
        writer.writerows(map(_cell, row.values()) for row in rows)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, Number):
        return value
    if isinstance(value, list | dict):
        return to_json(value, fallback=str).decode()
    return quoted(value if isinstance(value, str) else str(value))


def _write_json_lines(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_bytes(b"".join(to_json(row, fallback=str) + b"\n" for row in rows))


def _write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    arrow = arrow_library("pyarrow")
    try:
        made = arrow.Table.from_pylist(rows)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        # A column with values of several kinds has no type in Parquet, so its values become text.
        mixed = {name for name in rows[0] if _has_no_type([row[name] for row in rows])}
        made = arrow.Table.from_pylist(
            [{name: _text(value) if name in mixed else value for name, value in row.items()} for row in rows]
        )
    arrow_library("pyarrow.parquet").write_table(made, path)


def _has_no_type(values: list[Any]) -> bool:
    """Return whether values are lists or mappings, or of several types."""
    kinds: set[type] = {type(value) for value in values if value is not None}
    return len(kinds) > 1 or not kinds.isdisjoint((list, dict))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else to_json(value, fallback=str).decode()
