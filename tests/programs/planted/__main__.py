"""A gate before real servers with planted faults: `python -m tests.programs.planted [FRAMEWORK]... [--starts N]`.

Below /fault/NAME, a server of tests.programs.interop has a fault in the second turn. gate.sh evaluates it as a release
would be: each fault is to be named with its turn, on the table and in JUnit, and to shut the gate. Then starts are
stopped with Ctrl-C at random moments, the agent is away in the middle, and kept tests are renewed: nothing that was
written may be lost. What is not so is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from agui_client import HttpAgent
from agui_client.evaluation import Reproduction, reproductions

from ..interop.environments import made, running, say
from ..interop.frameworks import FRAMEWORKS
from .door import Door

HERE = Path(__file__).parent
_DEFAULT = ("pydantic-ai", "langgraph", "agno", "strands")
_LIMIT = 300
_LATEST = 3.0
"""The seconds after which a start is stopped at the latest."""


@dataclass(frozen=True)
class Fault:
    """What is to be found of a fault."""

    scenario: str
    """The scenario that fails."""
    sentence: str
    """What is said of it."""
    options: tuple[str, ...] = ()
    """Further options of the command."""
    others: frozenset[str] | None = frozenset()
    """The other scenarios that may fail; None for any."""


FAULTS: Mapping[str, Fault] = {
    "arguments": Fault(
        "purchase", 'buy_tickets({"count": "three"}) in turn 2: the arguments do not fit', others=frozenset({"refusal"})
    ),
    "denial": Fault(
        "refusal",
        "the agent called buy_tickets again in turn 2, which was denied",
        others=frozenset({"purchase"}),
    ),
    "thought": Fault("thought", 'the agent sent "PIN-4711" in its reasoning in turn 2'),
    "state": Fault("move", 'the agent sent "PIN-4711" in the arguments of move_to in turn 2'),
    "order": Fault("weather", 'get_weather({"city": "Turin"}), get_weather({"city": "Oslo"}) in turn 2'),
    "crash": Fault("answer", "completes: in turn 2, ", others=None),
    "hang": Fault("answer", "turn 2 was not over", ("--only", "answer")),
    "slow": Fault("purchase", "the first text of turn 2 came after", ("--only", "purchase")),
    "wrong": Fault(
        "answer", 'said: "Answer 2" in turn 2: the agent did not say it', ("--only", "answer", "--repeat", "20")
    ),
    "ids": Fault("answer", "in turn 2, 3, LIFE-15 (warning): text message 'answer' has the id", others=None),
    "patch": Fault("answer", "in turn 2, SNAP-5 (warning)", others=None),
}
_WITHOUT: Mapping[str, tuple[str, ...]] = {"agno": ("thought",), "llamaindex": ("thought",)}
"""The faults that a framework cannot have, as its adapter sends no reasoning."""


@dataclass
class Trial:
    """What was found of one framework."""

    url: str
    folder: Path
    problems: list[str] = field(default_factory=list[str])

    def expect(self, holds: object, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(problem)
            say(f"  PROBLEM: {problem}")

    def gate(self, url: str, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Let the gate look at an agent; its files are in a folder of that name."""
        (self.folder / name).mkdir(exist_ok=True)
        command = ["bash", str(HERE / "gate.sh"), url, str(self.folder / name), *options]
        done = subprocess.run(
            command, env=_environment(), capture_output=True, text=True, timeout=_LIMIT, check=False, cwd=self.folder
        )
        self.expect("Traceback" not in done.stderr, f"{name}: a traceback: {done.stderr[-2000:]}")
        return done

    def find_faults(self, names: list[str]) -> None:
        """Look at the agent without a fault, and then with each of them."""
        done = self.gate(f"{self.url}", "healthy", "--repeat", "3", "--at-once", "3")
        is_open = done.returncode == 0 and done.stdout.endswith("released\n")
        self.expect(is_open, f"healthy: {done.returncode}\n{done.stdout}{done.stderr}")
        for name in names:
            self._find(name, FAULTS[name])

    def _find(self, name: str, fault: Fault) -> None:
        baseline = str(self.folder / "healthy" / "today.jsonl")
        options = ("--baseline", baseline, "--at-once", "3", *fault.options)
        start = time.monotonic()
        done = self.gate(self._faulty(name), name, *options)
        folder = self.folder / name
        self.expect((folder / "report.json").exists(), f"{name}: no report: {done.stdout}{done.stderr}")
        if not (folder / "report.json").exists():
            return
        failed = {
            (each.get("name") or "").partition(" #")[0]: " ".join(part.get("message") or "" for part in each)
            for each in ElementTree.parse(folder / "junit.xml").iter("testcase")
            if len(each.findall("failure"))
        }
        self.expect(
            done.returncode == 1 and "released" not in done.stdout, f"{name}: the gate ends with {done.returncode}"
        )
        self.expect(fault.sentence in done.stdout, f"{name}: not named: {done.stdout}{done.stderr}")
        self.expect(
            fault.sentence in (folder / "junit.xml").read_text("utf-8").replace("&quot;", '"'),
            f"{name}: not in JUnit: {failed}",
        )
        self.expect(fault.scenario in failed, f"{name}: {fault.scenario} passes")
        if fault.others is not None:
            wrong = failed.keys() - {fault.scenario} - fault.others
            self.expect(not wrong, f"{name}: {', '.join(wrong)} failed, too: {done.stdout}")
        report = json.loads((folder / "report.json").read_text("utf-8"))
        self.expect(report["gate"]["passed"] is False, f"{name}: the report says that it passed")
        self.expect("not replay" in done.stderr or reproductions(folder / "kept"), f"{name}: no reproduction")
        self.expect((folder / "page.html").stat().st_size > 10_000, f"{name}: no page")
        say(f"  {name}: found in {time.monotonic() - start:.0f} s")

    def _faulty(self, name: str) -> str:
        return urljoin(self.url, f"/fault/{name}{urlsplit(self.url).path}")

    def stop_starts(self, starts: int, seed: int) -> None:
        """Stop starts with Ctrl-C at random moments; whatever an earlier one wrote stays."""
        chance, codes = random.Random(seed), Counter[int]()
        folder = self.folder / "stopped"
        folder.mkdir()
        command = _command(self._faulty("denial"), folder, "--repeat", "40", "--at-once", "4")
        before: dict[str, bytes] = {}
        for number in range(starts):
            with subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as start:
                # Every other start is stopped while modules are loaded, and the rest while conversations are held.
                wanted = len(_lines(folder)) + chance.randint(1, 12) if number % 2 else 0
                while start.poll() is None and len(_lines(folder)) < wanted:
                    time.sleep(0.02)
                time.sleep(chance.uniform(0, _LATEST / (1 + number % 2 * 9)))
                start.send_signal(signal.SIGINT)
                _, told = start.communicate(timeout=_LIMIT)
            codes[start.returncode] += 1
            errors = told.decode()
            # Before the command has begun, Ctrl-C ends the interpreter by the signal: 130 for a shell.
            self.expect(
                start.returncode in (130, -signal.SIGINT, 1), f"start {number} ended with {start.returncode}: {errors}"
            )
            is_ours = "agui_client/" in errors and "Traceback" in errors and "<module>" not in errors
            self.expect(not is_ours, f"start {number}: a traceback: {errors}")
            before = self._look_for(before, folder, f"start {number}")
        self.expect(codes[130] > starts / 4, f"hardly a start was stopped: {dict(codes)}")
        say(f"  {starts} starts stopped: {dict(codes)}; {len(_lines(folder))} conversations in the journal")
        done = self.gate(self._faulty("denial"), "stopped", "--repeat", "40", "--at-once", "4")
        before = self._look_for(before, folder, "the last start")
        self.expect("of 240 conversations passed" in done.stdout.partition("\n")[0], f"the end: {done.stdout[:200]}")
        left = [each.name for each in (folder / "kept").iterdir() if each.suffix != ".jsonl"]
        self.expect(not left, f"left over: {left}")
        failed = len(reproductions(folder / "kept"))
        self.expect(failed == 80, f"{failed} reproductions of 80 failures")

    def _look_for(self, before: Mapping[str, bytes], folder: Path, when: str) -> dict[str, bytes]:
        """Look for all that was there before; return what is there now."""
        now = {f"row {key}": line for key, line in _lines(folder).items()}
        now |= {each.name: each.read_bytes() for each in (folder / "kept").glob("*.jsonl")}
        lost = [name for name, content in before.items() if now.get(name) != content]
        self.expect(not lost, f"{when}: lost or changed: {lost}")
        return now

    def let_it_be_away(self) -> None:
        """Let the agent be away in the middle; the journal is whole, and the next start holds the rest."""
        door = Door(self.url)
        path = urlsplit(self.url).path
        folder = self.folder / "away"
        folder.mkdir()
        command = _command(f"{door.url}{path}", folder, "--repeat", "10", "--at-once", "2", "--retry", "0")
        with subprocess.Popen(
            command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as start:
            end = time.monotonic() + _LIMIT
            while len(_lines(folder)) < 10 and time.monotonic() < end:
                time.sleep(0.05)
            door.shut()
            out, told = start.communicate(timeout=_LIMIT)
        before = self._look_for({}, folder, "away")
        self.expect(start.returncode == 3, f"away: {start.returncode}: {out}{told}")
        self.expect("could not be held" in out and "Traceback" not in told, f"away: {out}{told}")
        door.open()
        done = subprocess.run(
            [*command, "--rerun-failed"],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        door.shut()
        held = {name: line for name, line in before.items() if b'"error":null' in line or not name.startswith("row")}
        self._look_for(held, folder, "back")
        first = done.stdout.partition("\n")[0]
        self.expect("of 60 conversations passed" in first and "not be held" not in first, f"back: {first}{done.stderr}")
        say(f"  away: {out.partition(chr(10))[0]}; then {first}")

    def renew(self) -> None:
        """Renew kept tests with the mended agent; no later start touches them."""
        kept = self.folder / "arguments" / "kept"
        for reproduction in reproductions(kept):
            try:
                reproduction.renew(HttpAgent(self.url))
            except AssertionError as failure:
                self.expect(False, f"{reproduction} is not renewed: {failure}")
        renewed = {path: path.read_bytes() for path in kept.iterdir()}
        self.expect(len(renewed) >= 2, f"{len(renewed)} reproductions were kept")
        for number in range(3):
            options = (
                "--journal",
                str(self.folder / f"later{number}.jsonl"),
                "--only",
                "purchase",
                "--only",
                "refusal",
            )
            self.gate(self._faulty("arguments"), "arguments", *options)
        changed = [path.name for path, content in renewed.items() if not path.exists() or path.read_bytes() != content]
        self.expect(not changed, f"renewed tests were changed: {changed}")
        for path in renewed:
            Reproduction.read(path).check()
        more = [each for each in reproductions(kept) if each.path not in renewed]
        self.expect(len(more) == 3 * 2, f"{len(more)} new reproductions beside {len(renewed)}")
        self.expect(all(each.replay().failed for each in more), "new reproductions pass")


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _command(url: str, folder: Path, *options: str) -> list[str]:
    """Return the command, as a process that gets the signal itself."""
    files = ("--journal", str(folder / "today.jsonl"), "--keep", str(folder / "kept"))
    program = str(Path(sys.executable).parent / "agui")
    return [program, "evaluate", str(HERE / "scenarios.yaml"), url, *files, *options]


def _lines(folder: Path) -> dict[str, bytes]:
    """Return the whole lines of a journal by their keys; each must be JSON."""
    path = folder / "today.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return {json.loads(line)["key"]: line for line in lines}


def _examined(names: list[str], root: Path, starts: int, seed: int) -> Iterator[str]:
    for name in names:
        framework = FRAMEWORKS[name]
        environment = made(framework.environment, root)
        with running(framework.environment, environment) as (url, _), tempfile.TemporaryDirectory() as folder:
            say(f"{name}:")
            trial = Trial(url + framework.path, Path(folder))
            trial.find_faults([each for each in FAULTS if each not in _WITHOUT.get(name, ())])
            trial.renew()
            trial.let_it_be_away()
            if starts:
                trial.stop_starts(starts, seed)
        yield from (f"{name}: {each}" for each in trial.problems)


def main() -> int:
    """Examine the frameworks; return 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=_DEFAULT, metavar="FRAMEWORK")
    parser.add_argument("--root", type=Path, default=Path(tempfile.gettempdir()) / "agui-interop")
    parser.add_argument("--starts", type=int, default=30, help="Starts with each framework that are stopped.")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["INTEROP_LONGEST"] = "5400"
    # A shell's background jobs ignore Ctrl-C, and so would all that this program starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    problems = list(_examined(list(given.names), given.root, given.starts, given.seed))
    for each in problems:
        say(f"PROBLEM {each}")
    say("nothing was lost, and all faults were found" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
