"""Texts that an application looks at while they grow: each look joins the pieces to a text that is a little longer.

glibc maps a block that is larger than any it has freed into memory of its own, page by page, and unmaps it with the
block: a text that grows to 2 MB and is looked at 100 000 times takes 20 seconds in the kernel. It reuses what is not
larger, so that one large block, which is freed untouched, spares all that follow.
"""

from __future__ import annotations

from sys import getsizeof

_FACTOR = 4
_LARGEST = 2**25 - 2**16
"""The bytes of about the largest block that glibc learns from; larger ones are always mapped."""


_reserved = [128 * 1024]
"""The bytes of the longest text that needs no further block, in the whole process: at first those that glibc maps."""


def joined(pieces: list[str]) -> str:
    """Join the pieces of a text.

    Args:
        pieces: The text at the last look, and what has come since. If it is long already, it is looked at while it
            grows, and memory is reserved: once, and again whenever a text is four times as long.
    """
    if (size := getsizeof(pieces[0])) > _reserved[0]:
        _reserved[0] = _FACTOR * size
        bytes(min(_reserved[0], _LARGEST))
    return "".join(pieces)
