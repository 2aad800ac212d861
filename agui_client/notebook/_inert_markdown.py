"""Markdown of an agent for a page that draws it itself: in pieces, and nothing is fetched for it (SEC-8).

An image, an HTML tag or a link to anything but http, https and mailto is broken by a character without width, outside
of blocks of code. Where a block of code begins
and ends has to be what the page's reader of Markdown says: so only the plainest form begins one, three backticks at the
beginning of a line, and everything else that could begin a block which hides that form is broken, too.
"""

from __future__ import annotations

import re

_JOINT = "\u200b"
_BREAKS = re.compile(
    r"<(?=[A-Za-z/!?])|!(?=\[)|\$(?=\$)|`(?=``)|~(?=~~)|\](?=\((?!\s*<?(?:https?://|mailto:)))|\](?=:)", re.IGNORECASE
)
_UNFINISHED = re.compile(r"[<!$`~]+\Z|\](?:\(\s*<?[a-z:/]{0,8})?\Z", re.IGNORECASE)
_OPENING, _PERHAPS_OPENING = re.compile(r"```[^`]*"), re.compile(r"`{1,2}|```[^`]*")
_CLOSING, _PERHAPS_CLOSING = re.compile(r" {0,3}`{3,}[ \t]*"), re.compile(r" {0,3}`*[ \t]*")


class InertMarkdown:
    """One text of an agent, made harmless while it arrives."""

    def __init__(self) -> None:
        self._line, self._sent = "", 0
        self._is_code = False
        self._is_after_return = False

    def feed(self, delta: str) -> str:
        """Take a piece of the text.

        Args:
            delta: The piece.

        Returns:
            What can be shown of the text now; the end of it may have to wait for the next piece.
        """
        if self._is_after_return:
            delta = delta.removeprefix("\n")
        self._is_after_return = delta.endswith("\r") or (not delta and self._is_after_return)
        *lines, rest = delta.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        made = ""
        for line in lines:
            self._line += line
            made += self._whole_line() + "\n"
        self._line += rest
        return made + self._begun_line()

    def end(self) -> str:
        """Return what waited for a further piece."""
        return self._whole_line()

    def _whole_line(self) -> str:
        line, text = self._line, self._line[self._sent :]
        self._line, self._sent = "", 0
        if self._is_code:
            self._is_code = _CLOSING.fullmatch(line) is None
            return text
        self._is_code = _OPENING.fullmatch(line) is not None
        return text if self._is_code else _BREAKS.sub(rf"\g<0>{_JOINT}", text)

    def _begun_line(self) -> str:
        marks = _PERHAPS_CLOSING if self._is_code else _PERHAPS_OPENING
        if not self._line or (not self._sent and marks.fullmatch(self._line)):
            return ""
        text = self._line[self._sent :]
        if not self._is_code:
            text = _UNFINISHED.sub("", text)
        self._sent += len(text)
        return text if self._is_code else _BREAKS.sub(rf"\g<0>{_JOINT}", text)
