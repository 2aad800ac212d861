"""Numbers, amounts of money and dates as text: American English, as the official renderer writes them by default.

Words of other languages would cost a library of locales; the agent writes its texts in the person's language anyway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

_SYMBOLS = {
    "AUD": "A$",
    "BRL": "R$",
    "CAD": "CA$",
    "CNY": "CN¥",
    "EUR": "€",
    "GBP": "£",
    "HKD": "HK$",
    "ILS": "₪",
    "INR": "₹",
    "JPY": "¥",
    "KRW": "₩",
    "MXN": "MX$",
    "NZD": "NZ$",
    "PHP": "₱",
    "TWD": "NT$",
    "USD": "$",
    "VND": "₫",
    "XAF": "FCFA\u00a0",
    "XCD": "EC$",
    "XOF": "F\u202fCFA\u00a0",
    "XPF": "CFPF\u00a0",
}
"""The symbols that stand for a currency's code in American English."""
_NO_DECIMALS = {
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
    *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
}
_THREE_DECIMALS = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])

_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_TOKENS = re.compile(r"''|'(?:''|[^'])*(?:'|$)|do|([A-Za-z])\1*|[^A-Za-z']+")
"""The parts of a date pattern: a quote, quoted text, an ordinal, one letter several times, or anything else."""


def number_text(value: float, decimals: int | None = None, *, grouping: bool = True) -> str:
    """Return a number as text.

    Args:
        value: The number.
        decimals: The digits behind the point; up to three if left out.
        grouping: Whether thousands are separated.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    exact = Decimal(str(value))
    places = 3 if decimals is None else decimals
    # No float has more digits before its point than 309, which the context's precision must hold.
    rounded = f"{_quantized(exact, places):f}"
    if decimals is None and "." in rounded:
        rounded = rounded.rstrip("0").rstrip(".")
    sign, digits = ("-", rounded[1:]) if rounded.startswith("-") else ("", rounded)
    whole, point, rest = digits.partition(".")
    return f"{sign}{f'{int(whole):,}' if grouping else whole}{point}{rest}"


def _quantized(exact: Decimal, places: int) -> Decimal:
    from decimal import Context

    return exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, context=Context(prec=500))


def money_text(value: float, currency: str, decimals: int | None = None, *, grouping: bool = True) -> str:
    """Return an amount with the symbol of its currency, or with its code.

    Args:
        value: The amount.
        currency: The code of ISO 4217; of anything else the amount alone is returned.
        decimals: The digits behind the point; those of the currency if left out.
        grouping: Whether thousands are separated.
    """
    code = currency.upper()
    if not (len(code) == 3 and code.isascii() and code.isalpha()):
        return number_text(value, 2 if decimals is None else decimals, grouping=False)
    if decimals is None:
        decimals = 0 if code in _NO_DECIMALS else 3 if code in _THREE_DECIMALS else 2
    text = number_text(value, decimals, grouping=grouping)
    symbol = _SYMBOLS.get(code, f"{code}\u00a0")
    return f"-{symbol}{text[1:]}" if text.startswith("-") else f"{symbol}{text}"


def moment_of(value: object) -> datetime | None:
    """Return the moment that a value means, in the local zone: ISO 8601 text, or milliseconds since 1970.

    A text without a zone is a local time, and a date alone is that day wherever the person is.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC).astimezone()
        return datetime.fromisoformat(value).astimezone() if isinstance(value, str) and len(value) < 50 else None
    except (ValueError, OverflowError, OSError):
        return None


def date_text(moment: datetime, pattern: str) -> str:
    """Return a moment as a pattern of Unicode's TR35 writes it; as ISO 8601 if a letter of the pattern is unknown.

    Args:
        pattern: The pattern; text stands in single quotes.
    """
    if pattern == "ISO":
        return iso_text(moment)
    written: list[str] = []
    for found in _TOKENS.finditer(pattern):
        part, letter = found[0], found[1]
        if letter is not None or part == "do":
            if (write := _LETTERS.get(letter or "do")) is None or (text := write(moment, len(part))) is None:
                return iso_text(moment)
            written.append(text)
        elif part == "''":
            written.append("'")
        elif part.startswith("'"):
            written.append(part[1:].removesuffix("'").replace("''", "'"))
        else:
            written.append(part)
    return "".join(written)


def iso_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _year(moment: datetime, count: int) -> str:
    return f"{moment.year % 100:02}" if count == 2 else f"{moment.year:0{count}}"


def _month(moment: datetime, count: int) -> str:
    name = _MONTHS[moment.month - 1]
    return f"{moment.month:0{count}}" if count < 3 else {3: name[:3], 4: name}.get(count, name[0])


def _weekday(moment: datetime, count: int) -> str:
    name = _DAYS[moment.weekday()]
    return {4: name, 5: name[0], 6: name[:2]}.get(count, name[:3])


def _half(moment: datetime, count: int) -> str:
    name = "AM" if moment.hour < 12 else "PM"
    return {3: name.lower(), 4: "a.m." if moment.hour < 12 else "p.m.", 5: name[0].lower()}.get(count, name)


def _ordinal(moment: datetime, count: int) -> str:
    day = moment.day
    suffix = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def _offset(moment: datetime, count: int) -> str:
    text = f"{moment:%z}"
    return text if count == 2 else f"{text[:3]}:{text[3:]}" if count == 3 else text[:3] + text[3:].replace("00", "")


def _offset_or_z(moment: datetime, count: int) -> str:
    return "Z" if not moment.utcoffset() else _offset(moment, count)


def _fraction(moment: datetime, count: int) -> str:
    return f"{moment.microsecond // 1000:03}"[:count].ljust(count, "0") if count < 10 else ""


def _padded(read: Callable[[datetime], int]) -> Callable[[datetime, int], str | None]:
    # A width of thousands would be a text of thousands.
    return lambda moment, count: f"{read(moment):0{count}}" if count < 10 else None


_LETTERS: dict[str, Callable[[datetime, int], str | None]] = {
    "y": lambda moment, count: _year(moment, count) if count < 10 else None,
    "M": _month,
    "L": _month,
    "d": _padded(lambda moment: moment.day),
    "do": _ordinal,
    "E": _weekday,
    "a": _half,
    "h": _padded(lambda moment: moment.hour % 12 or 12),
    "H": _padded(lambda moment: moment.hour),
    "K": _padded(lambda moment: moment.hour % 12),
    "k": _padded(lambda moment: moment.hour or 24),
    "m": _padded(lambda moment: moment.minute),
    "s": _padded(lambda moment: moment.second),
    "S": _fraction,
    "x": _offset,
    "X": _offset_or_z,
}
"""The letters of date patterns, each with a function of the moment and the number of times that it stands."""
