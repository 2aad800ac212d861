"""Characters that the encoding of a stream does not have: written so that one can read them, and named at the end."""

# ruff: noqa: RUF001 - characters that are taken for each other are the subject

from __future__ import annotations

import codecs
from io import TextIOWrapper
from typing import TextIO
from unicodedata import normalize

_NAME = "agui.readable"
_MOST_NAMED = 8
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‘’‹›", "'"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("‐‑‒–−·─━", "-"),
        **dict.fromkeys("│┃", "|"),
        **dict.fromkeys("\xa0\u202f", " "),
        "—": "--",
        "•": "*",
        "×": "x",
        "→": "->",
        "←": "<-",
        "≤": "<=",
        "≥": ">=",
        "≠": "!=",
        "✓": "+",
        "✗": "x",
        "ß": "ss",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "€": "EUR",
    }
)
_BOXES, _BRAILLE = range(0x2500, 0x2580), range(0x2800, 0x2900)
"""Characters of frames, and of spinners."""
_DRAWN = frozenset((*_BOXES, *_BRAILLE))
"""Characters that the commands draw with, and that say nothing."""


class MissingCharacters:
    """Replaces what streams cannot write: by a similar character, or by its escape."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._encoding = ""

    def watch(self, stream: TextIO) -> None:
        """Replace characters in a stream from now on, as far as it is a file or a terminal."""
        codecs.register_error(_NAME, self._replace)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_NAME)

    def warning(self) -> str | None:
        """Return a sentence about what was replaced; None if nothing was."""
        if not self._found:
            return None
        named = ", ".join(f"U+{ord(character):04X}" for character in list(self._found)[:_MOST_NAMED])
        more = ", ..." if len(self._found) > _MOST_NAMED else ""
        how = "set PYTHONUTF8=1, or a locale with UTF-8, to see them"
        return f"the encoding {self._encoding} lacks characters, which were written differently: {named}{more}; {how}"

    def _replace(self, error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        self._encoding = error.encoding
        missing = error.object[error.start : error.end]
        self._found.update(dict.fromkeys(each for each in missing if each != "·" and ord(each) not in _DRAWN))
        return "".join(_readable(character, error.encoding) for character in missing), error.end


def _readable(character: str, encoding: str) -> str:
    """Return text in place of a character that an encoding does not have."""
    plain = character.translate(_ALIKE)
    if plain == character:
        parts = normalize("NFKD", character).translate(_ALIKE)
        plain = "".join(part for part in parts if _has(encoding, part))
    if plain and plain != character and _has(encoding, plain):
        return plain
    code = ord(character)
    if code in _BOXES:
        return "+"
    return "*" if code in _BRAILLE else character.encode("ascii", "backslashreplace").decode("ascii")


def _has(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
