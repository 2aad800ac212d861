"""The command line: see the package's docstring."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from importlib import import_module
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from . import __doc__ as about  # noqa: E402 - the suites import `support`, found by the lines above
from .judging import faults  # noqa: E402

SUITES = ("patches", "texts", "frames", "nulls", "mcp", "surfaces", "aimock")


def main() -> int:
    """Run the suites; return 1 if a case differs for which there is no reason, or a reason without a difference."""
    parser = argparse.ArgumentParser("python -m tests.programs.external", description=about, formatter_class=_AsWritten)
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES, metavar="SUITE", help="of the table above")
    logging.disable(logging.WARNING)
    status = 0
    for name in parser.parse_args().only:
        suite, begun = import_module(f".{name}", __package__), time.monotonic()
        number, lines = faults(suite.cases(), suite.ON_PURPOSE)
        seconds, on_purpose = time.monotonic() - begun, len(suite.ON_PURPOSE)
        counts = f"{number} cases, {on_purpose} differ on purpose, {len(lines)} faults"
        print("\n  ".join((f"{name}: {counts}, {seconds:.1f} s", *lines)), flush=True)
        status = status or bool(lines) or number == 0
    return int(status)


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the lines of the table as they are."""


if __name__ == "__main__":
    sys.exit(main())
