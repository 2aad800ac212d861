"""The Python snippets of README and of the pages in docs; as a program, whether they have faults of types.

PYTHONPATH=tests python -m support.snippets
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SNIPPETS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITTEN = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
NEEDS = {"adapters": "langchain_core", "aws": "botocore"}
"""Libraries of extras without which a page is left out."""
PAGES = [
    page
    for page in WRITTEN
    if SNIPPETS.search(page.read_text("utf-8")) and (page.stem not in NEEDS or find_spec(NEEDS[page.stem]))
]
ELSEWHERE = ("dbos", "marimo", "panel")
"""Libraries that a page uses and the tests do without."""
_GIVEN_TYPES = "def ask(question: str | None) -> bool: ...\n"
"""Names that the pages leave to the reader."""
_ANYTHING = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
_PYRIGHT = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}


def _as_module(page: Path) -> str:
    """Return the snippets of a page as one function, which may await, each line where the page has it."""
    text = page.read_text(encoding="utf-8")
    lines = ["from given import *", "async def page() -> None:", *[""] * text.count("\n")]
    for snippet in SNIPPETS.finditer(text):
        start = text.count("\n", 0, snippet.start(1))
        for number, line in enumerate(snippet[1].splitlines(), start):
            lines[number] = f"    {line}"
    return "\n".join(lines)


def _faults(folder: Path) -> list[str]:
    """Let pyright check all pages in one run."""
    for page in PAGES:
        (folder / f"page_{page.stem}.py").write_text(_as_module(page), encoding="utf-8")
    (folder / "given.pyi").write_text(_GIVEN_TYPES, encoding="utf-8")
    for name in ELSEWHERE:
        (folder / f"{name}.pyi").write_text(_ANYTHING, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(_PYRIGHT), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", folder], capture_output=True, timeout=1500, check=False)
    report = json.loads(done.stdout)
    checked, expected = report["summary"]["filesAnalyzed"], len(PAGES) + 1 + len(ELSEWHERE)
    faults = [
        f"{Path(each['file']).stem}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
    ]
    return faults if checked == expected else [*faults, f"pyright checked {checked} files of {expected}"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit("\n".join(_faults(Path(folder))) or None)
