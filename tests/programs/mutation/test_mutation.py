"""A mutation run over a small package: what counts as a kill, and what is told instead of a kill."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from .mutants import Mutant

pytestmark = pytest.mark.soak  # a program for those who change the tests, which takes as long as a thousand of them
PROGRAM = Path(__file__).parent

PROJECT = {
    "pyproject.toml": "[tool.pytest.ini_options]\nfaulthandler_timeout = 120\n",
    "README.md": "",
    "docs/start.md": "",
    "examples/start.py": "",
    "agui_client/__init__.py": "",
    "agui_client/_pytest_plugin.py": "",  # which pytest finds wherever the package is installed
    "agui_client/sums.py": """# adds
def total(first, second):
    return first + second

PAIRS = [(1, 2), (2, 3)]
""",
    "agui_client/seals.py": "def seal(text):\n    return text + '.'\n",
    "agui_client/unused.py": "def unused():\n    return 1\n",
    "tests/test_sums.py": """
import pytest
from agui_client.sums import PAIRS, total
from needed import LIMIT

@pytest.mark.parametrize("pair", PAIRS)
def test_total(pair):
    assert total(*pair) == pair[0] + pair[1] < LIMIT
""",
    "tests/conftest.py": "",
    "tests/more/conftest.py": "",
    "tests/more/test_seals.py": """
from pathlib import Path
from agui_client.seals import seal

def test_seal():
    assert seal("x") == "x." and not Path("broken").exists()
""",
}
"""A project of the layout that the program copies. The tests of one module pass until there is a file "broken"."""

INSTALLED = {
    "agui_client/__init__.py": "raise ImportError('this is not the copy')",
    "needed.py": "LIMIT = 9",
}
"""A folder of installed packages, which has the package itself and what its tests need."""

SUMS = PROJECT["agui_client/sums.py"]
ADDS, PAIRS = "return first + second", "[(1, 2), (2, 3)]"
SURVIVING = [SUMS.replace(ADDS, "return second + first"), SUMS.replace("# adds", "# sums")]
"""Mutants that no test can notice."""
KILLED = [
    (SUMS.replace(ADDS, "return first - second"), FAILED := "killed by a failing test"),
    (SUMS.replace("# adds", "import nothing"), UNCOLLECTED := "killed by an import or a collection that fails"),
    (SUMS.replace(PAIRS, "None"), UNCOLLECTED),  # the module can be imported, and the file of tests cannot
    (SUMS.replace(ADDS, "import os; os.kill(os.getpid(), os.sys.modules['signal'].SIGXCPU)"), "killed by a hang"),
]
"""Mutants that tests notice, in this way."""
UNJUDGED = [
    (SUMS.replace(PAIRS, "[(1, 2)]"), "pytest ended with code 4"),  # one of the tests does not exist
    (SUMS.replace(ADDS, "import pytest; pytest.skip()"), "0 tests passed and 0 failed, and pytest ended with code 0"),
    (SUMS.replace(ADDS, "import pytest; pytest.exit('enough', 1)"), "pytest ended with code 1"),
    (SUMS.replace(ADDS, "raise KeyboardInterrupt"), "pytest ended with code 2"),
    (SUMS.replace(ADDS, "import os; os._exit(1)"), "the process ended with status 1 before pytest did"),
    (SUMS.replace(ADDS, "import os; os.abort()"), "the process ended with status -6 before pytest did"),
]
"""Mutants that end pytest otherwise than by a test that fails, and what is said of them."""
DRAWN = {
    "agui_client/sums.py": [*SURVIVING, *(mutated for mutated, _ in (*KILLED, *UNJUDGED))],
    "agui_client/seals.py": [PROJECT["agui_client/seals.py"].replace("'.'", "'!'")],
}

DRIVER = """
import json, sys
from tests.programs.mutation import __main__ as program
from tests.programs.mutation.mutants import Mutant

drawn = json.loads(sys.argv.pop(1))

def draw(tree, module, sample, seed):  # not by mutmut, which no extra brings
    return [Mutant(module, (tree / module).read_text(), mutated) for mutated in drawn[module]], 99

program.draw = draw
sys.exit(program.main())
"""


@dataclass
class Run:
    """A mutation run over the project."""

    status: int
    printed: list[str]
    report: str
    kills: list[list[str]]
    """The outcome, the reason and the place of each mutant that was killed."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("mutation")
    project, installed, work, report = (folder / name for name in ("project", "installed", "work", "report.md"))
    for root, files in ((project, PROJECT), (installed, INSTALLED)):
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
    shutil.copytree(
        PROGRAM, project / "tests/programs/mutation", ignore=shutil.ignore_patterns("test_*", "__pycache__")
    )
    (folder / "driver.py").write_text(DRIVER, encoding="utf-8")
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (project, installed))),
    }

    def python(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, arguments), "--work", str(work)]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    learned = python("-m", "tests.programs.mutation", "--learn", "tests")
    assert learned.returncode == 0, learned.stdout + learned.stderr
    (work / "tree/broken").touch()
    modules = [f"--module=agui_client/{name}.py" for name in ("sums", "seals", "unused")]
    done = python(folder / "driver.py", json.dumps(DRAWN), *modules, "--report", report)
    assert done.stderr == ""
    kills = json.loads((work / "outcomes.json").read_text(encoding="utf-8"))
    return Run(done.returncode, done.stdout.splitlines(), report.read_text(encoding="utf-8"), list(kills.values()))


def test_only_what_tests_notice_is_a_kill(run: Run) -> None:
    assert [outcome for outcome, _, _ in run.kills] == [outcome for _, outcome in KILLED]
    for outcome, reason, place in run.kills:
        assert reason.startswith("tests/test_sums.py::test_total[") == (outcome == FAILED)
        assert place.startswith("agui_client/sums.py:")


def test_a_mutant_that_no_test_can_notice_survives(run: Run) -> None:
    changed = [line[1:] for line in run.report.splitlines() if re.match(r"\+[^+]", line)]
    assert changed == ["    return second + first", "# sums"]
    assert run.status == 1


def test_what_ends_pytest_otherwise_is_told_and_is_no_kill(run: Run) -> None:
    told = [line for line in run.printed if line.startswith("- agui_client/sums.py")]
    assert len(told) == len(UNJUDGED)
    for line, (_, reason) in zip(told, UNJUDGED, strict=True):
        assert re.match(r"- agui_client/sums\.py:\d+: not judged, as ", line)
        assert reason in line
        assert line in run.report


def test_tests_that_fail_on_unmutated_code_judge_no_module(run: Run) -> None:
    assert [line for line in run.printed if line.startswith("- agui_client/seals.py")] == [
        "- agui_client/seals.py: 1 of 1 tests do not pass on unmutated code: tests/more/test_seals.py::test_seal",
        "- agui_client/seals.py:2: not judged, as none of its tests passes on unmutated code",
    ]


def test_a_module_that_no_test_runs_is_a_finding(run: Run) -> None:
    assert "- agui_client/unused.py: no recorded test runs or imports it" in run.printed


def test_the_table_counts_each_outcome_apart(run: Run) -> None:
    head, _, *rows = [line for line in run.report.splitlines() if line.startswith("|")]
    assert head == "| module | mutants | drawn | failed | not collected | hung | survived | not judged |"
    assert rows == [
        "| agui_client/sums.py | 99 | 12 | 1 | 2 | 1 | 2 | 6 |",
        "| agui_client/seals.py | 99 | 1 | 0 | 0 | 0 | 0 | 1 |",
    ]


@pytest.mark.parametrize(
    ("original", "mutated", "constant"),
    [
        ("MOST = 5\n", "MOST = 6\n", "MOST"),
        ("NAMES: dict[str, int] = {\n    'a': 1,\n}\n", "NAMES: dict[str, int] = {\n    'a': 2,\n}\n", "NAMES"),
        ("A = 1\n\ndef f():\n    a = 1\n", "A = 1\n\ndef f():\n    a = 2\n", None),
    ],
)
def test_a_mutant_of_a_constant_is_judged_by_tests_of_what_uses_it(
    original: str, mutated: str, constant: str | None
) -> None:
    assert Mutant("m.py", original, mutated).constant == constant
