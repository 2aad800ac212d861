"""The meaning of a text that a person typed in a field: numbers, choices, formats, lists, JSON (INT-7).

Nothing is guessed where two readings differ: `129,90` is refused with a sentence, since it is 129.90 to some people and
12990 to others.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from agui_client._core.ground.json_reading import load_json
from agui_client._rendering.form_words import name_of

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"[+-]?[0-9][0-9.,'\u2019\s]*")
"""A number with a comma or with something between its thousands."""
_MAIL = re.compile(r"[^@\s]+@[^@\s]+")
_DURATION = re.compile(r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)")
_HOST = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_MOST_NAMED = 5


# --- formats


def _moment(typed: str) -> str:
    # JSON Schema's date-time has a zone; a time without one is meant by the clock of the person.
    moment = datetime.fromisoformat(typed)
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()


def _address(typed: str) -> str:
    if not (parts := urlsplit(typed)).scheme or not parts.path + parts.netloc or " " in typed:
        raise ValueError
    return typed


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def read(typed: str) -> str:
        """Return a text that has the form of a pattern."""
        if pattern.fullmatch(typed) is None:
            raise ValueError
        return typed

    return read


FORMATS: Mapping[str, tuple[Callable[[str], str], str, str]] = {
    "date": (lambda typed: date.fromisoformat(typed).isoformat(), "date", "2026-11-24"),
    "time": (lambda typed: time.fromisoformat(typed).isoformat(), "time", "14:30"),
    "date-time": (_moment, "date and time", "2026-11-24 14:30"),
    "duration": (_matching(_DURATION), "duration", "P1DT12H"),
    "email": (_matching(_MAIL), "e-mail address", "ann@example.org"),
    "uri": (_address, "address", "https://example.org"),
    "hostname": (_matching(_HOST), "host name", "example.org"),
    "ipv4": (lambda typed: str(ipaddress.IPv4Address(typed)), "IPv4 address", "192.0.2.1"),
    "ipv6": (lambda typed: str(ipaddress.IPv6Address(typed)), "IPv6 address", "2001:db8::1"),
    "ipvanyaddress": (lambda typed: str(ipaddress.ip_address(typed)), "IP address", "192.0.2.1"),
    "uuid": (lambda typed: str(UUID(typed)), "UUID", "123e4567-e89b-12d3-a456-426614174000"),
}
"""The formats of text that a form checks: what reads it, its name, and an example."""


def read_format(name: str, typed: str) -> str:
    """Read a text of a format.

    Args:
        name: The format, one of `FORMATS`.
        typed: The text.

    Raises:
        ValueError: The text does not have it; the message has an example.
    """
    read, what, example = FORMATS[name]
    try:
        return read(typed.strip())
    except ValueError:
        raise ValueError(f"this is no {what}, such as {example}") from None


# --- values


def read_boolean(typed: str) -> bool:
    """Read yes or no.

    Raises:
        ValueError: It is neither.
    """
    word = typed.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("say yes or no")
    return word in _YES


def read_whole(typed: str) -> int:
    """Read a whole number.

    Raises:
        ValueError: It is none.
    """
    text = _plain(typed, "1290")
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("this is not a whole number")
    try:
        return int(text)
    except ValueError:  # more digits than Python reads
        raise ValueError("this number is too long") from None


def read_number(typed: str) -> float:
    """Read a number, without the loss of a digit.

    Raises:
        ValueError: It is none, or has more digits than a number has here.
    """
    text = _plain(typed, "129.90")
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("this is not a number")
    if _WHOLE.fullmatch(text):
        return read_whole(text)
    value = float(text)
    if math.isinf(value):
        raise ValueError("this is not a number: it is out of range")
    if Decimal(text) != Decimal(repr(value)):
        raise ValueError(f"this number has too many digits: it would become {value!r}")
    return value


def read_decimal(typed: str, *, as_text: bool) -> float | str:
    """Read a number whose digits are all kept: as text where a number would lose some.

    Args:
        typed: The text.
        as_text: Whether the value is always text.

    Raises:
        ValueError: It is not a number, or not written as one.
    """
    text = _plain(typed, "129.90")
    if _NUMBER.fullmatch(text) is None:
        if as_text or not text or text[0] in "+-.0123456789":
            raise ValueError("this is not a number")
        return typed
    try:
        return text if as_text else read_number(text)
    except ValueError:
        return text


def _plain(typed: str, example: str) -> str:
    """Return a number without blanks around it; refuse commas, which some read as points, and others as nothing."""
    text = typed.strip().replace("\N{MINUS SIGN}", "-")
    if _GROUPED.fullmatch(text) and not _NUMBER.fullmatch(text):
        raise ValueError(f"write the number with a point, and nothing between thousands, such as {example}")
    return text


def read_choice(typed: str, choices: Sequence[Any], titles: Sequence[str]) -> Any:
    """Read a choice: its value, its title, both in letters of any size, or its number.

    Args:
        typed: The text.
        choices: The values.
        titles: The values as they are shown.

    Raises:
        ValueError: It is none of them, or could be several.
    """
    names = [*map(name_of, choices)]
    for known in (names, titles):
        if typed in known:
            return choices[known.index(typed)]
    word = typed.strip().casefold()
    found = [at for at, pair in enumerate(zip(names, titles, strict=True)) if word in map(str.casefold, pair)]
    if len(found) == 1:
        return choices[found[0]]
    if word.isdecimal() and 1 <= int(word) <= len(choices):
        return choices[int(word) - 1]
    near = [title for title in titles if word and word in title.casefold()][:_MOST_NAMED]
    raise ValueError(f"this is none of the {len(choices)} choices" + (f", such as {', '.join(near)}" if near else ""))


def entries_of(typed: str) -> list[str]:
    """Return the entries of a line: a JSON array of them, as pages send it, or texts between commas.

    Raises:
        ValueError: It begins as a JSON array, and is none.
    """
    if typed.lstrip().startswith("["):
        return [name_of(each) for each in read_json(typed)]
    return [entry for each in typed.split(",") if (entry := each.strip())]


def read_entries(typed: str, read: Callable[[str], Any]) -> list[Any]:
    """Read the entries of a list.

    Args:
        typed: The line.
        read: Reads one entry; raises ValueError.

    Raises:
        ValueError: Entries do not fit; the message says which, by their numbers from 1.
    """
    values, problems = list[Any](), list[str]()
    for number, entry in enumerate(entries_of(typed), 1):
        try:
            values.append(read(entry))
        except ValueError as error:
            problems.append(f"entry {number}: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return values


def read_json(typed: str) -> Any:
    """Read JSON, without the numbers that Python has and JSON does not.

    Raises:
        ValueError: The text is not JSON; the message says why.
    """

    def refuse(word: str) -> None:
        """Refuse NaN and infinity."""
        raise ValueError(f"{word} is not a JSON number")

    def finite(digits: str) -> float:
        """Refuse a number that would become infinity."""
        if math.isinf(number := float(digits)):
            raise ValueError("a number is out of range")
        return number

    try:
        return load_json(typed, parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("this is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
