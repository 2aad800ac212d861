"""What README and docs repeat of what stands elsewhere is complete and true; sphinx checks the links of docs."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import agui_client
import agui_client.types

pytest.importorskip("rich")
from support import made_pages
from support.public_names import PUBLIC_MODULES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agui_client"
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted(page for page in ROOT.glob("docs/*.md") if page.stem != "index")
REFERENCE = sorted(ROOT.glob("docs/reference/*.md"))
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANEW = "make it anew: PYTHONPATH=.:tests python -m support.made_pages"


def test_the_picture_shows_what_the_demo_prints() -> None:
    assert made_pages.words(made_pages.PICTURE.read_text("utf-8")) == made_pages.words(made_pages.picture()), ANEW


def test_the_picture_loads_nothing() -> None:
    assert not re.search(r"url\((?!#)|@import|xlink|<image", made_pages.PICTURE.read_text("utf-8"))


def test_the_page_of_rules_has_every_rule() -> None:
    assert made_pages.RULES.read_text("utf-8").partition(made_pages.MARK)[2].strip() == made_pages.rules().strip(), ANEW


def test_the_reference_lists_every_public_name() -> None:
    assert made_pages.NAMES.read_text("utf-8").partition(made_pages.MARK)[2].strip() == made_pages.names().strip(), ANEW


def test_the_page_of_names_has_what_results_executions_and_surfaces_have() -> None:
    assert (
        made_pages.MEMBERS.read_text("utf-8").partition(made_pages.MARK)[2].strip() == made_pages.members().strip()
    ), ANEW


def test_the_page_of_changes_has_each_note_of_the_modules_which_name_what_is_there() -> None:
    assert (
        made_pages.CHANGES.read_text("utf-8").partition(made_pages.MARK)[2].strip() == made_pages.changes().strip()
    ), ANEW
    missing: list[str] = []
    for path, about in made_pages.notes().items():
        own = (ROOT / "agui_client" / path).read_text("utf-8")
        for note in about.values():
            files = [each for each in re.findall(r"`([\w/]+\.(?:py|js|md))`", note) if not _file(each)]
            here = [name for name in re.findall(r"`([\w.]+)` here", note) if name.rpartition(".")[2] not in own]
            there = [
                f"{name} in {file}"
                for name, file in re.findall(r"`([\w.]+)` (?:in|\()`?([\w/]+\.py)`", note)
                if file not in files and name.rpartition(".")[2] not in _file(file).read_text("utf-8")
            ]
            missing += [f"{path}: {each}" for each in (*files, *here, *there)]
    assert missing == []


def test_a_folder_that_lists_its_modules_lists_them_all_and_no_other() -> None:
    lists = 0
    for path in (ROOT / "agui_client").rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if "modules, from low to high" in docstring:
            listed = {*re.findall(r"`(\w+)`", docstring.partition("from low to high")[2].partition("\n\n")[0])}
            own = {each.stem for each in path.parent.glob("*.py")} - {"__init__"}
            lists += 1
            assert (path.parent.name, own - listed) == (path.parent.name, set())
            assert {name for name in listed - own if name.startswith("_")} == set(), path.parent.name
    assert lists > 7


def test_paths_that_maps_commands_and_docstrings_name_are_there() -> None:
    texts = [ROOT / name for name in ("noxfile.py", "pyproject.toml", "CONTRIBUTING.md", "docs/architecture.md")]
    texts += [*ROOT.glob(".ci/*"), *ROOT.glob(".github/**/*.y*ml"), *ROOT.glob("agui_client/**/*.py")]
    place = re.compile(r"(?<![\w/.@-])((?:agui_client|tests|docs|examples|\.ci|_core|_serving|store/_\w+)/[\w./-]*\w)")
    named = {(path.name, name) for path in texts for name in place.findall(path.read_text("utf-8"))}
    assert len(named) > 150
    # A command may name several files by the beginning of their names.
    is_there = {name: any((*ROOT.glob(f"{name}*"), *PACKAGE.glob(f"{name}*"))) for _, name in named}
    assert [each for each in sorted(named) if not is_there[each[1]]] == []


def test_the_map_names_modules_and_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    tests = _all(sorted(ROOT.glob("tests/**/test_*.py")))
    assert [name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in tests] == []
    assert [name for name in re.findall(r"`([\w/]+\.py)`", page) if _file(name) is None] == []
    tree = page.partition("```\nagui_client/\n")[2].partition("```")[0]
    folders = [each.parent.name for each in PACKAGE.rglob("__init__.py") if each.parent != PACKAGE]
    assert [name for name in folders if not re.search(rf"^.* {name}/", tree, re.MULTILINE)] == []
    assert len(page.splitlines()) <= 170


def _file(name: str) -> Any:
    """The file of the package or of the project with a name; None if there is none."""
    return next((each for each in (ROOT / "agui_client" / name, ROOT / name) if each.is_file()), None)


def test_the_reference_has_every_public_name() -> None:
    described = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", _all(REFERENCE), re.MULTILINE)
    modules = re.findall(r"^\.\. automodule:: (\S+)$", _all(REFERENCE), re.MULTILINE)
    errors = [name for name in agui_client.__all__ if vars(import_module("agui_client.errors")).get(name)]
    assert sorted({*described, *errors}) == sorted(agui_client.__all__)
    assert sorted(modules) == sorted(PUBLIC_MODULES[1:])
    aliases = re.findall(r" as (\w+)$", (ROOT / "agui_client" / "types.py").read_text("utf-8"), re.MULTILINE)
    page = (ROOT / "docs" / "reference" / "types.md").read_text("utf-8")
    undescribed = [name for name in aliases if not isinstance(getattr(agui_client.types, name), type)]
    assert [name for name in undescribed if not re.search(rf"autodata:: \S+\.{name}$", page, re.MULTILINE)] == []


def test_readme_and_the_site_have_one_map_with_every_page() -> None:
    lines = len(README.splitlines())
    assert lines <= 210
    table = README.partition("| you want to | pages |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [(row.split(" | ")[0].strip("| "), re.findall(r"\]\(docs/([\w/-]+)\.md\)", row)) for row in table]
    site = (ROOT / "docs" / "index.md").read_text("utf-8")
    trees = re.findall(r":caption: (.*)\n:maxdepth: 1\n\n((?:[\w/-]+\n)+)", site)
    assert rows == [(caption, pages.split()) for caption, pages in trees]
    assert len(rows) <= 12
    assert sorted(name for _, pages in rows for name in pages if "/" not in name) == sorted(page.stem for page in PAGES)


def test_the_glossary_is_short_and_in_order() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)[2:]
    words = [word.lower() for word, _ in rows]
    assert 30 <= len(words) <= 40
    assert words == sorted(words)
    assert [word for word, meaning in rows if not re.fullmatch(r"[^.]+\.", meaning)] == []


def test_the_site_lists_every_example() -> None:
    examples = (ROOT / "docs" / "examples.md").read_text("utf-8")
    programs = [each.name for each in ROOT.glob("examples/*") if each.suffix in {".py", ".ipynb"}]
    assert [name for name in programs if f"../examples/{name})" not in examples] == []


def test_code_of_docs_fits_its_column() -> None:
    """The column shows 90 characters at 1 280 pixels; the site breaks lines of other languages."""
    blocks = [(page.name, *block) for page in PAGES for block in CODE.findall(page.read_text("utf-8"))]
    unbroken = [(name, code) for name, language, code in blocks if language in ("", "python")]
    assert len(unbroken) > 100
    assert [(name, line) for name, code in unbroken for line in code.splitlines() if len(line) > 90] == []


def test_no_page_is_longer_than_one_reads_at_once() -> None:
    # Pages in which one looks things up.
    lists = {"protocol", "changes", "architecture", "serving-reference", "store", "names", "team-runs"}
    read = {page.stem: page.read_text("utf-8") for page in PAGES if page.stem not in lists}
    assert {page: words for page, text in read.items() if (words := len(text.split())) > 1500} == {}
    prose = {page: re.sub(r"(?ms)^```.*?^```$|^\|.*?$", "", text) for page, text in read.items()}
    assert {page: words for page, text in prose.items() if (words := len(text.split())) > 1200} == {}


def test_links_of_readme_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", README)
    assert [each for each in targets if not (ROOT / each).exists()] == []


def _all(pages: list[Path]) -> str:
    return "\n".join(page.read_text("utf-8") for page in pages)
