"""The parts of docs/ that a program makes: the picture of the demo, and the lists of rules, changes, names and members.

`PYTHONPATH=.:tests python -m support.made_pages` makes them anew; tests/examples/test_site.py compares them.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import re
from collections.abc import Iterator
from html import unescape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from textwrap import dedent
from typing import Any

from rich.console import Console

from agui_client import HttpAgent, Resolve, RunResult, ToolExecution
from agui_client._cli.demo import PROGRAM, PROMPT, SCRIPTED
from agui_client._cli.live_view import DemoView
from agui_client.a2ui import Surface
from agui_client.batch import RowResult
from agui_client.demo import demo_agent
from agui_client.terminal._watching import watch
from agui_client.testing import serve
from requirements import FAMILIES
from support.public_names import PUBLIC_MODULES, public_names

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = DOCS / "demo.svg"
RULES = DOCS / "protocol.md"
CHANGES = DOCS / "changes.md"
NAMES = DOCS / "reference" / "index.md"
MEMBERS = DOCS / "names.md"
MARK = "<!-- The tables below are made by tests/support/made_pages.py. -->\n"
_TITLES = {
    "PROC": "Processing",
    "STREAM": "Streams of messages and tool calls",
    "TOOL": "Conversations: tools, snapshots, state, activities, interrupts",
    "INPUT": "Requests and responses",
    "SET": "Questions that the specification leaves open",
}
_CALLED = {"find()", "inspect()", "parse()", "press()", "set()", "to_json()"}
"""The methods of results and surfaces that are not for the package alone."""
_PACKAGE = DOCS.parent / "agui_client"
_FILM = (
    "@keyframes demo-line{from{opacity:0}}.demo-matrix text,[shape-rendering]{animation:demo-line .3s both}"
    "@media (prefers-reduced-motion:reduce){.demo-matrix text,[shape-rendering]{animation:none}}"
)
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that rich would load from the net."""


class _Paper(Console):
    """A terminal that is drawn on a picture, and whose user says yes."""

    def __init__(self) -> None:
        super().__init__(record=True, file=io.StringIO(), width=100, height=60, force_terminal=False)

    def input(self, prompt: Any = "", **options: Any) -> str:
        self.print(prompt, end="")
        self.print("y")
        return "y"


def picture() -> str:
    """Return an SVG of what `agui demo` shows at a terminal."""
    console = _Paper()
    view = DemoView(console, can_ask=True)
    with serve(demo_agent(pace=0)) as server, asyncio.Runner() as runner:
        view.begin(["The demo agent is served at http://127.0.0.1:8000/", SCRIPTED], PROMPT)
        agent = HttpAgent(server.url)
        results = [runner.run(watch(agent.stream(PROMPT), view))]
        while interrupts := results[-1].interrupts:
            answers = {each.id: Resolve({"approved": view.ask(each.message or each.reason)}) for each in interrupts}
            results.append(runner.run(watch(agent.stream(resume=answers), view)))
        view.finish(results, PROGRAM)
    console.print()  # rich cuts the last line off below its letters
    drawn = _FONT.sub("", console.export_svg(title="agui demo", unique_id="demo"))
    # A short film: one line after the other, and all of them where nothing may move.
    drawn = drawn.replace("</style>", _FILM + "</style>", 1)
    return re.sub(r'<(?:text class="demo-r|rect fill=)[^>]* y="([\d.]+)"', _appearing, drawn)


def _appearing(mark: re.Match[str]) -> str:
    """Return the beginning of a mark with the time at which it appears: a line of text is 24.4 units high."""
    return f'{mark[0]} style="animation-delay:{float(mark[1]) // 24.4 * 0.15:.2f}s"'


def words(svg: str) -> list[str]:
    """Return the words of a picture, without the times that the runs took."""
    text = unescape(" ".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg)))
    return re.sub(r"[\d.]+\s(?=m?s\b)", "", text).split()


def rules() -> str:
    """Return the tables of rules."""
    tables: list[str] = []
    for family in FAMILIES:
        title = _TITLES[family[0].id.partition("-")[0]]
        rows = (f"| {each.id} | {_cell(each.sentence)} | {each.source} |" for each in family)
        tables.append("\n".join((f"## {title}\n", "| rule | agui_client | source |", "| --- | --- | --- |", *rows)))
    return "\n\n".join(tables) + "\n"


def notes() -> dict[str, dict[str, str]]:
    """Return what the docstrings of modules say below "To change": by the module's path, a note for each subject."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "\nTo change\n\n" not in text:
            continue  # to parse the whole package takes seconds
        docstring = ast.get_docstring(ast.parse(text)) or ""
        lines = docstring.partition("\nTo change\n\n")[2].replace("\n  ", " ").splitlines()
        if lines:
            pairs = (line.removeprefix("- ").partition(": ") for line in lines)
            found[str(path.relative_to(_PACKAGE))] = {subject: note for subject, _, note in pairs}
    return found


def changes() -> str:
    """Return the list of subjects by folders, with the module at whose top the note stands."""
    rows = sorted((*path.rpartition("/")[::2], subject) for path, each in notes().items() for subject in each)
    tables = [
        f"## {f'`{folder}`' if folder else 'Beside the folders'}\n\n| to change | open |\n| --- | --- |\n"
        + "\n".join(f"| {_cell(subject)} | `{file}` |" for _, file, subject in of_folder)
        for folder, of_folder in groupby(rows, itemgetter(0))
    ]
    return "\n\n".join(tables) + "\n"


def names() -> str:
    """Return the list of public modules, with their names."""
    errors = public_names("agui_client.errors")
    rows = {
        module: [name for name in public_names(module) if name not in errors or module == "agui_client.errors"]
        for module in PUBLIC_MODULES
    }
    table = "\n".join(f"| `{module}` | {', '.join(f'`{name}`' for name in own)} |" for module, own in rows.items())
    return f"| module | names |\n| --- | --- |\n{table}\n"


def members() -> str:
    """Return, for each class whose objects one looks at, a table of its attributes and of what programs call."""
    tables: list[str] = []
    for kind in (RunResult, ToolExecution, Surface, RowResult):
        found = {name: about for each in reversed(kind.__mro__[:-1]) for name, about in _members(each)}
        shown = sorted((name, about) for name, about in found.items() if name[-1] != ")" or name in _CALLED)
        rows = "\n".join(f"| `{name}` | {_cell(_sentence(about))} |" for name, about in shown)
        tables.append(f"### `{kind.__name__}`\n\n| name | meaning |\n| --- | --- |\n{rows}\n")
    return "\n".join(tables)


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """List the public attributes and methods that a class has of its own, with their docstrings."""
    if not kind.__module__.startswith("agui_client"):
        return
    [own] = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(own, ast.ClassDef)
    blocks = [
        own.body,
        *(each.body for each in own.body if isinstance(each, ast.FunctionDef) if each.name == "__init__"),
    ]
    for block in blocks:
        for statement, following in zip(block, [*block[1:], None], strict=True):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name))
                    | ast.Assign(targets=[ast.Attribute(attr=name)]),
                    ast.Expr(value=ast.Constant(value=str(about))),
                ):
                    pass
                case (
                    (
                        ast.FunctionDef(name=name, decorator_list=marks)
                        | ast.AsyncFunctionDef(name=name, decorator_list=marks)
                    ),
                    _,
                ):
                    # The setter of a property says nothing of what is read.
                    is_setter = any(isinstance(each, ast.Attribute) for each in marks)
                    about, is_method = "" if is_setter else ast.get_docstring(statement) or "", not marks
                    name = f"{name}()" if is_method else name
                case _:
                    continue
            if name[:1] != "_" and about:
                yield name, about


def _sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    return re.split(r"(?<=\.)\s", " ".join(docstring.partition("\n\n")[0].split()), maxsplit=1)[0]


def _cell(sentence: str) -> str:
    return sentence.replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    drawn = picture()
    if words(drawn) != words(PICTURE.read_text("utf-8")):  # the times alone are no reason for another picture
        PICTURE.write_text(drawn, encoding="utf-8")
    for page, made in ((RULES, rules()), (CHANGES, changes()), (NAMES, names()), (MEMBERS, members())):
        page.write_text(page.read_text("utf-8").partition(MARK)[0] + MARK + "\n" + made, encoding="utf-8")
