"""`python -m tests.programs.engines [KILLS]`: kills a DBOS application and its server, and counts payments.

Both are killed at random moments, on SQLite and on PostgreSQL, until all workflows have ended. Needs `dbos`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.support.postgres import postgres_server

_HERE = Path(__file__).parent
_SECONDS = 120.0
_PER_ROUND = 3


def killed(service: str, engine: str, kills: int, folder: Path, port: int, chance: random.Random) -> str:
    """Have workflows carried out while both programs are killed; return what was counted."""
    payments, number, done, began = folder / "payments", 0, list[str](), time.monotonic()
    serving = [sys.executable, str(_HERE / "server.py"), service, str(payments), str(port)]
    asking = [sys.executable, str(_HERE.parents[2] / "examples" / "dbos_agent.py"), engine, f"http://127.0.0.1:{port}/"]
    server, times = subprocess.Popen(serving), 0
    while times < kills:
        names = [f"order-{number + each}" for each in range(_PER_ROUND)]
        number += _PER_ROUND
        while True:
            with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
                application = subprocess.Popen([*asking, *names], stdout=out, stderr=err)
                try:
                    while application.poll() is None:
                        with suppress(subprocess.TimeoutExpired):
                            application.wait(chance.uniform(0.5, 2.5))
                        if application.poll() is None and times < kills:
                            times += 1
                            which = chance.choice(["server", "application", "both"])
                            if which != "application":
                                server.kill()
                                server.wait()
                                server = subprocess.Popen(serving)
                            if which != "server":
                                application.kill()
                        if time.monotonic() - began > _SECONDS * 3:
                            raise SystemExit(f"not done in time: {(folder / 'err').read_text()[-2000:]}")
                finally:
                    application.kill()
                    application.wait()
            if application.returncode == 0:
                done += (folder / "out").read_text().splitlines()
                break
    server.kill()
    counted = Counter(payments.read_text().split())
    unknown = sum("unknown" in each for each in done)
    assert len(done) == number, done
    assert len(counted) == 2 * number - unknown, (counted, done)
    assert set(counted.values()) == {1}, counted
    seconds = time.monotonic() - began
    return f"{times} kills, {number} workflows, {len(counted)} payments, each once; {unknown} unknown; {seconds:.0f} s"


def main() -> None:
    """Count on both databases."""
    kills, chance = int(sys.argv[1]) if sys.argv[1:] else 10, random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        sqlite = [f"sqlite:///{folder}/{name}.db" for name in ("service", "engine")]
        print("SQLite:", killed(*sqlite, kills, Path(folder), 18431, chance))  # noqa: T201 - a program
    with tempfile.TemporaryDirectory() as folder, postgres_server() as server:
        postgresql = [f"postgresql://{server.new_database()}" for _ in range(2)]
        print("PostgreSQL:", killed(*postgresql, kills, Path(folder), 18432, chance))  # noqa: T201 - a program


if __name__ == "__main__":
    main()
