"""Unpacking: a body's content coding undone in pieces of bounded size, however little the server packed a lot into.

httpx unpacks each read whole: a kilobyte that was packed twice becomes gigabytes before anybody can count them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import httpx

ACCEPTED = "gzip, deflate"
"""The codings that are asked for."""
LARGEST_PIECE = 256 * 1024
"""In bytes."""
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_OTHER_CODINGS = ("compress", "x-compress", "br", "zstd")


def packings_of(content_encoding: str) -> list[str]:
    """The codings that a Content-Encoding names; words that are none, such as "none", pack nothing."""
    named = [name.strip().lower() for name in content_encoding.split(",")]
    return [name for name in named if name in _WINDOW_BITS or name in _OTHER_CODINGS]


class Unpacker:
    """Undoes gzip or deflate. What follows its end is left out, as everywhere.

    Args:
        packings: What a body is packed with, at least one coding.
    """

    def __init__(self, packings: list[str]) -> None:
        self._packings = packings
        self._head = b""
        self._zlib = zlib.decompressobj()
        self._is_begun = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Unpack some more.

        Args:
            packed: The next bytes.

        Yields:
            What is in them, at most `LARGEST_PIECE` bytes at a time.

        Raises:
            httpx.DecodingError: They cannot be unpacked.
        """
        waiting, is_full = self._begin(packed), False
        while (waiting or is_full) and not self._zlib.eof:
            try:
                piece = self._zlib.decompress(waiting, LARGEST_PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            waiting, is_full = self._zlib.unconsumed_tail, len(piece) == LARGEST_PIECE
            if piece:
                yield piece

    def _begin(self, packed: bytes) -> bytes:
        """What can be unpacked so far: the first two bytes say how."""
        if self._is_begun:
            return packed
        self._head += packed
        if len(self._head) < 2:
            return b""
        self._is_begun = True
        self._zlib = zlib.decompressobj(self._window_bits())
        return self._head

    def _window_bits(self) -> int:
        if len(self._packings) != 1 or self._packings[0] not in _WINDOW_BITS:
            raise httpx.DecodingError(f"it is packed as {', '.join(self._packings)}; asked for was {ACCEPTED}, once")
        first, second = self._head[:2]
        has_header = first & 15 == zlib.DEFLATED and (first << 8 | second) % 31 == 0
        # Some servers send "deflate" without the header that zlib's format has.
        is_bare = self._packings == ["deflate"] and not has_header
        return -zlib.MAX_WBITS if is_bare else _WINDOW_BITS[self._packings[0]]
