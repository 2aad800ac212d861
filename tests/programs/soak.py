"""Random spoiled streams in bulk: `python tests/programs/soak.py --streams 100000 --seed 1`.

Weaves legal streams, spoils one thing in each, runs them through the client's stages and counts the verdicts. What is
neither a verdict of the client's own nor what the naive model says is a finding: it is printed with the seed that makes
it, and the program ends with status 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from support.json_patches import difference_findings, patch_findings  # noqa: E402 - as below
from weaves import Spoiled, encoded, findings, judged, spoil, weave  # noqa: E402 - found by the lines above

_MOST_FINDINGS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=10_000, help="how many streams")
    parser.add_argument("--seed", type=int, default=1, help="of the first stream; the others count on")
    parser.add_argument("--patches", action="store_true", help="patch and compare JSON values instead")
    parser.add_argument("--legal", action="store_true", help="do not spoil them")
    options = parser.parse_args()
    logging.getLogger("agui_client").disabled = True
    if options.patches:
        return soak_patches(options.streams, options.seed)
    return soak(options.streams, options.seed, legal=options.legal)


def soak(streams: int, seed: int, *, legal: bool = False) -> int:
    """Run the streams, print what came of them, and say how many findings there were."""
    verdicts: Counter[str] = Counter()
    by_spoiler: Counter[str] = Counter()
    wrong = events = 0
    started = time.perf_counter()
    for each in range(seed, seed + streams):
        spoiled = stream_of(each, legal=legal)
        events += len(spoiled.frames)
        by_spoiler[spoiled.how] += 1
        try:
            verdict = judged(spoiled.frames)
            verdicts[verdict.name] += 1
            found = findings(verdict)
        except Exception:
            verdicts["NO VERDICT"] += 1
            found = [traceback.format_exc(limit=-6)]
        for finding in found[: max(0, _MOST_FINDINGS - wrong)]:
            sys.stdout.write(f"seed {each} ({spoiled.how}): {finding}\n")
        wrong += len(found)
    seconds = time.perf_counter() - started
    _print("how they were spoiled", by_spoiler)
    _print("verdicts", verdicts)
    sys.stdout.write(f"{streams} streams, {events} frames, {seconds:.0f} s, {wrong} findings\n")
    return min(wrong, 1)


def soak_patches(count: int, seed: int) -> int:
    """Hold patches to jsonpatch's answers, and differences to what they make; print what is wrong."""
    wrong = 0
    started = time.perf_counter()
    for each in range(seed, seed + count):
        found = [*patch_findings(Random(each)), *difference_findings(Random(each))]
        for finding in found[: max(0, _MOST_FINDINGS - wrong)]:
            sys.stdout.write(f"seed {each}: {finding}\n")
        wrong += len(found)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{count} patches and {count} pairs of values, {seconds:.0f} s, {wrong} findings\n")
    return min(wrong, 1)


def stream_of(seed: int, *, legal: bool = False) -> Spoiled:
    """The spoiled stream that a seed makes."""
    random = Random(seed)
    woven = weave(random)
    if legal:
        return Spoiled("not at all", [encoded(event) for event in woven.events])
    return spoil(random, woven.events)


def _print(title: str, counts: Counter[str]) -> None:
    sys.stdout.write(f"\n{title}\n")
    for name, count in counts.most_common():
        sys.stdout.write(f"{count:9d}  {name}\n")
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
