"""A batch that is killed at any moment goes on: every row is in the journal exactly once, and no line is repeated.

`AGUI_BATCH_KILLS=50 AGUI_BATCH_ROWS=2000 pytest -n 0 -s tests/batch/test_killed.py` kills so often, at so many rows.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

from ag_ui.core import RunAgentInput

from agui_client import HttpAgent
from agui_client.batch import run_many
from agui_client.testing import ScriptedAgent, Step, pause, serve, text, turn
from support.programs import Program
from support.waiting import LIMIT, until_sync

PROGRAM = str(Path(__file__).parents[1] / "support" / "killed_batch.py")
KILLS = int(os.environ.get("AGUI_BATCH_KILLS", "2"))
ROWS = int(os.environ.get("AGUI_BATCH_ROWS", str(8 * KILLS)))
AT_ONCE = 4


def whole_lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def await_lines(journal: Path, number: int, program: Program) -> None:
    until_sync(lambda: whole_lines(journal) >= number or program.poll() is not None, 3 * LIMIT)


def test_a_killed_batch_goes_on_and_has_every_row_once(tmp_path: Path) -> None:
    random = Random(int(os.environ.get("AGUI_BATCH_SEED", "1")))
    journal, asked = tmp_path / "out.jsonl", Counter[str]()

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        prompt = str(input.messages[-1].content)
        asked[prompt] += 1
        yield pause(random.uniform(0, 0.01))
        yield turn(text(f"answer to {prompt}"))

    halves = 0
    with serve(ScriptedAgent(answer)) as server:
        for _ in range(KILLS):
            enough = whole_lines(journal) + random.randrange(ROWS // KILLS)
            with Program(PROGRAM, server.url, str(ROWS), str(journal), random.choice(["sync", "async"])) as program:
                await_lines(journal, enough, program)
                time.sleep(random.uniform(0, 0.01))
                program.kill()
                program.wait(LIMIT)
            if random.random() < 0.5 and whole_lines(journal):
                # A kill between two writes of a line is rare, so it is made: half of a line that was never whole.
                halves += 1
                with journal.open("ab") as file:
                    file.write(b'{"key":"r1","agent":"","pro')
        prompts = [{"prompt": f"row {number}", "id": f"r{number}"} for number in range(ROWS)]
        results = list(run_many(HttpAgent(server.url), prompts, key="id", at_once=AT_ONCE, journal=journal))
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    expected = {f"r{number}": f"answer to row {number}" for number in range(ROWS)}
    assert (len(lines), {line["key"]: line["text"] for line in lines}) == (ROWS, expected)
    assert (len(results), {done.key: done.text for done in results}) == (ROWS, expected)
    # A row is asked again only if the kill came before its line.
    assert asked.total() - ROWS <= KILLS * AT_ONCE
    print(f"{KILLS} kills, {ROWS} rows, {asked.total() - ROWS} asked again, {halves} halves")  # noqa: T201 - with -s
