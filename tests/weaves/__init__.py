"""Woven streams: random legal streams of every event family, what they come to, and ways to spoil them.

Everything is drawn from a `random.Random`, so that hypothesis can drive it (and shrink it) as well as a plain seed:
`strands` weaves, `naive` says what a stream comes to, `spoiling` breaks one thing, `stages` runs it through the client.
"""

from __future__ import annotations

from weaves.checks import exact, findings
from weaves.material import SECRET
from weaves.naive import Naive
from weaves.spoiling import Spoiled, spoil
from weaves.stages import Verdict, Way, as_json, encoded, judged
from weaves.strands import RUN_ID, THREAD_ID, Weave, weave

__all__ = [
    "RUN_ID",
    "SECRET",
    "THREAD_ID",
    "Naive",
    "Spoiled",
    "Verdict",
    "Way",
    "Weave",
    "as_json",
    "encoded",
    "exact",
    "findings",
    "judged",
    "spoil",
    "weave",
]
