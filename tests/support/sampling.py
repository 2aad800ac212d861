"""Samples of sweeps over the places at which bytes are cut."""

from __future__ import annotations

import os
import random


def cuts_of(body: bytes, border: bytes, start: int = 1) -> list[int]:
    """Return places at which to cut a body: around its first, middle and last border, and others drawn with a seed.

    With AGUI_ALL_SPLITS, all places from the start on are returned.
    """
    places = range(start, len(body))
    if "AGUI_ALL_SPLITS" in os.environ:
        return [*places]
    ends = [at for at in places if body.endswith(border, 0, at)]
    around = [end + step for end in (ends[0], ends[len(ends) // 2], ends[-1]) for step in (-1, 0, 1)]
    return sorted({start, len(body) - 1, *around, *random.Random(1).sample(places, 8)}.intersection(places))
