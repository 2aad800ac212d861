"""docs/frameworks.md says what the matrix of real servers found; its programs are started with the servers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from programs.interop.frameworks import FRAMEWORKS, ServerBug

PAGE = (Path(__file__).parents[3] / "docs" / "frameworks.md").read_text("utf-8")
ROWS = {
    "pydantic-ai": ("pydantic-ai",),
    "LangGraph": ("langgraph",),
    "Agno": ("agno",),
    "ADK": ("adk",),
    "Strands": ("strands",),
    "LlamaIndex": ("llamaindex",),
    "CrewAI": ("crewai", "crewai-review"),
    "Microsoft Agent Framework": ("microsoft", "microsoft-state", "microsoft-kept"),
    "AG2": ("ag2",),
}
"""The servers that show what a framework can do, by the headings of the page."""
COLUMNS = {
    "Text": ("hello",),
    "History": ("turns",),
    "Tools": ("server_tool",),
    "Tools here": ("tool_here", "two_tools", "failing_tool", "denial"),
    "Approval": ("asked", "approved", "denied", "cancelled"),
    "State": ("state_up", "state_down", "state_edited"),
    "Regenerate": ("regenerate",),
    "Reconnect": ("reconnect",),
}
"""The stories that a column of the table stands for."""


def _mark(names: tuple[str, ...], story: str) -> str:
    """How a story ends with the best of a framework's servers."""
    told = [FRAMEWORKS[name] for name in names if not FRAMEWORKS[name].stories or story in FRAMEWORKS[name].stories]
    verdicts = [each.verdicts.get(story) for each in told]
    if None in verdicts:
        return "yes"
    return "bug" if any(isinstance(each, ServerBug) for each in verdicts) else "no"


def _cell(names: tuple[str, ...], stories: tuple[str, ...]) -> str:
    marks = {_mark(names, story) for story in stories}
    return next(mark for mark in ("no", "bug", "yes") if mark in marks)


def test_the_table_of_frameworks_says_what_their_servers_showed() -> None:
    rows = [("", *COLUMNS), ("---",) * (len(COLUMNS) + 1)]
    rows += [(f"[{name}](#{name.lower().replace(' ', '-')})", *(_cell(servers, each) for each in COLUMNS.values()))
             for name, servers in ROWS.items()]  # fmt: skip
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    assert re.findall(r"^\|.*\|$", PAGE, re.MULTILINE) == table.splitlines()


def test_each_framework_has_a_program_of_some_ten_lines_which_the_matrix_starts() -> None:
    sections = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    served = (Path(__file__).parent / "servers").glob("*_server.py")
    headings = {name for path in served for name in re.findall(r'script\.serve\(.*, "([^"]+)", ', path.read_text())}
    assert headings == ROWS.keys()
    assert {each.name for each in FRAMEWORKS.values() if each.name.endswith("-page")} == {
        f"{servers[0]}-page" for servers in ROWS.values()
    }
    for name in ROWS:
        (program,) = re.findall(r"^```py\n(.*?)^```", sections[name], re.MULTILINE | re.DOTALL)
        statements = [line for line in program.splitlines() if line and not re.match(r"from .* import |@|#", line)]
        assert len(statements) <= 10, name
        assert max(map(len, program.splitlines())) <= 88, name
        assert ast.parse(program).body
