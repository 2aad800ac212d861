"""A stored team that is killed goes on where it was: no member that was done runs again, and what is once is once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from support.programs import Program
from support.waiting import LIMIT, until_sync

PROGRAM = str(Path(__file__).parents[1] / "support" / "killed_team.py")


def test_a_team_that_is_killed_again_and_again_asks_no_member_again_that_was_done(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    arguments = (PROGRAM, f"sqlite:///{tmp_path / 'threads.db'}", "thread", str(ledger))
    ledger.touch()
    for last in ("c begins", "d begins"):
        with Program(*arguments) as program:
            until_sync(partial(_is_over, program, ledger, last), 3 * LIMIT)
            program.kill()
            program.wait(LIMIT)
    with Program(*arguments) as program:
        _, errors = program.communicate(timeout=3 * LIMIT)
        assert program.wait(LIMIT) == 0, errors
    *began, ended = ledger.read_text().splitlines()
    assert began == ["once", *(f"{name} begins" for name in "abccdd")]
    words = [word for name in "abcd" for word in (f"{name} is ", "done.")]
    assert ended == f"ended {{}} {['Hi', *words]}"


def _is_over(program: Program, ledger: Path, last: str) -> bool:
    return last in ledger.read_text() or program.poll() is not None
