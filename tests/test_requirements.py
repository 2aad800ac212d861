"""The mapping between requirements and tests is complete both ways."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from requirements import FAMILIES, REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TESTS = Path(__file__).parent
_RULES = _TESTS.parents[1] / "shared" / "spec" / "consumer-rules.md"
_MARKER = re.compile(r"\bmark\.requirement\(([^()]*)\)")
_RULE = re.compile(r"^- \*\*([A-Z]+-\d+)\b", re.MULTILINE)


def _spelled(argument: ast.expr) -> str:
    match argument:
        case ast.Constant(value=str(requirement_id)):
            return requirement_id
        case _:
            return f"not spelled out: {ast.unparse(argument)}"


def _marked(source: str) -> Iterator[tuple[str, int]]:
    """The ids that a module's `pytest.mark.requirement(...)` calls name, with their lines."""
    # Only these calls are parsed: all modules of tests would take seconds.
    for found in _MARKER.finditer(source):
        call = ast.parse(f"requirement({found[1]})", mode="eval").body
        assert isinstance(call, ast.Call)
        for argument in call.args:
            yield _spelled(argument), source.count("\n", 0, found.start()) + 1


@cache
def _places_by_id() -> Mapping[str, list[str]]:
    """Where each id is named by a marker, anywhere under tests/."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(_TESTS.rglob("*.py")):
        if path == Path(__file__):
            continue
        for requirement_id, line in _marked(path.read_text(encoding="utf-8")):
            places[requirement_id].append(f"{path.relative_to(_TESTS)}:{line}")
    return places


def _expect_none(what: str, lines: Sequence[str]) -> None:
    """Fail with nothing but the list: these tests are read for what is missing."""
    if lines:
        pytest.fail(f"{len(lines)} {what}:\n  " + "\n  ".join(lines), pytrace=False)


def test_markers_are_found_on_functions_classes_modules_and_parameters() -> None:
    source = """
pytestmark = pytest.mark.requirement("A-1")

@pytest.mark.requirement("A-2", "A-3")
async def test_one(): ...

@pytest.mark.anyio
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("A-4"))])
class TestTwo:
    @pytest.mark.requirement(*IDS)
    def test_three(self): ...
"""
    found = {requirement_id for requirement_id, _ in _marked(source)}
    assert found == {"A-1", "A-2", "A-3", "A-4", "not spelled out: *IDS"}


def test_every_requirement_has_an_id_of_its_own() -> None:
    assert len(REQUIREMENTS) == sum(len(family) for family in FAMILIES)


def test_every_requirement_is_one_sentence_with_a_source() -> None:
    wrong = [r.id for r in REQUIREMENTS.values() if not (r.sentence.endswith(".") and r.source and r.untested != "")]
    assert wrong == []


def test_every_id_that_a_test_names_is_a_requirement() -> None:
    unknown = {name: places for name, places in _places_by_id().items() if name not in REQUIREMENTS}
    lines = [f"{name}: {', '.join(places)}" for name, places in sorted(unknown.items())]
    _expect_none("ids that are no requirement", lines)


def test_every_requirement_is_proved_by_a_test_or_says_why_not() -> None:
    named = _places_by_id()
    missing = [r for r in REQUIREMENTS.values() if r.untested is None and r.id not in named]
    lines = [f"{requirement.id}: {requirement.sentence}" for requirement in missing]
    _expect_none("requirements that no test names", lines)


def test_no_test_names_a_requirement_that_is_said_to_be_untested() -> None:
    named = _places_by_id()
    contradicted = [r.id for r in REQUIREMENTS.values() if r.untested is not None and r.id in named]
    lines = [f"{name}: {', '.join(named[name])}" for name in contradicted]
    _expect_none("requirements said to be untested", lines)


@pytest.mark.skipif(not _RULES.is_file(), reason="the digest of the specification does not lie beside the project")
def test_the_requirements_are_the_rules_of_the_specification_and_the_settled_questions() -> None:
    rules = _RULE.findall(_RULES.read_text(encoding="utf-8"))
    recorded = [name for name in REQUIREMENTS if not name.startswith("SET-")]
    assert sorted(recorded) == sorted(rules)
