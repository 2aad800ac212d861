"""Two texts side by side, with marks where they differ."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from agui_client._rendering.escaping import sentence
from agui_client._rendering.markdown import cut, literal

_WORDS = re.compile(r"\S+\s*|\s+")
_MOST_COMPARED = 600
"""The words of both sides that are compared one by one; more of them are one difference."""
_AROUND = 30
"""The number of characters before the first difference that a short form shows."""
_MARKS = {"before": ("[-", "-]"), "after": ("{+", "+}")}


@dataclass(frozen=True, slots=True)
class MarkedText:
    """One of two texts, in which the parts that the other has not are marked."""

    parts: tuple[tuple[str, bool], ...]
    """The pieces of the text, each with whether it is marked."""
    side: Literal["before", "after"]

    def html(self) -> str:
        """Write the text as it was written, with its marks."""
        shown = "".join(self._part(*each) for each in self.parts)
        return f'<div class="agui-compared" dir="auto">{shown}</div>'

    def _part(self, part: str, is_marked: bool) -> str:
        text = html.escape(sentence(part.expandtabs(4)))
        return f'<mark class="agui-{self.side}">{text}</mark>' if is_marked else text

    def markdown(self) -> str:
        """Write the text as one line, what is marked in bold letters."""
        return "".join(f"**{literal(part)}** " if is_marked else literal(part) + " " for part, is_marked in self.parts)

    def plain(self) -> str:
        """Write the text with marks, as `git diff --word-diff` does."""
        begins, ends = _MARKS[self.side]
        return "".join(
            sentence(cut(f"{begins}{part.strip()}{ends} " if is_marked else part)) for part, is_marked in self.parts
        )

    @property
    def around(self) -> str:
        """The text from a little before its first mark on; from its beginning if nothing is marked."""
        first, (part, is_marked) = 0, self.parts[0] if self.parts else ("", True)
        if not is_marked and len(self.parts) > 1:
            first = max(0, part.find(" ", len(part) - _AROUND) + 1) if len(part) > _AROUND else 0
        text = "".join(part for part, _ in self.parts)
        return f"…{text[first:]}" if first else text


def differences(before: str, after: str) -> tuple[MarkedText, MarkedText]:
    """Mark where two texts differ, word by word."""
    one, other = _WORDS.findall(cut(before)), _WORDS.findall(cut(after))
    start = _same(one, other)
    stop = _same(one[start:][::-1], other[start:][::-1])
    middles = one[start : len(one) - stop], other[start : len(other) - stop]
    if max(map(len, middles)) <= _MOST_COMPARED:
        stretches = SequenceMatcher(None, *middles).get_opcodes()
    else:
        stretches = [("replace", 0, len(middles[0]), 0, len(middles[1]))]
    same_begin, same_end = "".join(one[:start]), "".join(one[len(one) - stop :])
    sides: list[list[tuple[str, bool]]] = [[(same_begin, False)], [(same_begin, False)]]
    for kind, begin, end, other_begin, other_end in stretches:
        for side, words in zip(sides, (middles[0][begin:end], middles[1][other_begin:other_end]), strict=True):
            side.append(("".join(words), kind != "equal"))
    marked = [tuple(each for each in (*side, (same_end, False)) if each[0]) for side in sides]
    return MarkedText(marked[0], "before"), MarkedText(marked[1], "after")


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words that two lists begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (word, theirs) in pairs if word != theirs), min(len(one), len(other)))
