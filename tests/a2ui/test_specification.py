"""The specification of A2UI: its cases and its examples, as the official renderer resolves them where node is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui import Surface, Surfaces
from support.a2ui_fixtures import MISSING, ROOT, VERSIONS, cases, examples, operations_of, plain, shown
from support.typescript import run_typescript

_LEFT_TO_AGENT = {"32_advanced-form-validator.json": ["regex()"]}
"""The examples with a function that is not carried out."""
_CASES = [(version, *each) for version in VERSIONS for each in cases(version)]
_EXAMPLES = [each for version in VERSIONS for each in examples(version)]


@pytest.mark.skipif(not ROOT.exists(), reason=MISSING)
def test_the_specification_is_as_large_as_it_was() -> None:
    assert (len(_CASES), len(_EXAMPLES)) == (152, 72)


@pytest.mark.skipif(not ROOT.exists(), reason=MISSING)
@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: f"{path.parts[-5]}/{path.stem}")
def test_an_example_is_drawn_whole(example: Path) -> None:
    surface = _surface(example)
    assert surface.unknown == _LEFT_TO_AGENT.get(example.name, [])
    assert len(surface.problems) == len(surface.unknown)
    assert [each.id for each in surface.tree.walk() if not each.component] == []


@pytest.mark.skipif(not ROOT.exists(), reason=MISSING)
@pytest.mark.parametrize(("version", "name", "schema", "case"), _CASES)
def test_a_case_is_carried_out_and_what_is_invalid_raises_nothing(
    version: str, name: str, schema: str, case: dict[str, Any]
) -> None:
    # A renderer does not judge schemas: what is valid is drawn without a problem, and the rest as far as it goes.
    surfaces = Surfaces([shown(case["data"])])
    problems = [each for surface in surfaces.values() for each in surface.problems if "pattern of an agent" not in each]
    if schema == "server_to_client.json":
        assert surfaces
        assert problems == [] or not case["valid"]
    else:
        assert len(surfaces) == (0 if case["valid"] else 1)


@pytest.mark.skipif(not ROOT.exists(), reason=MISSING)
@pytest.mark.usefixtures("in_utc")
def test_every_value_of_the_examples_is_as_the_official_renderer_resolves_it() -> None:
    judge = Path(__file__).with_name("web_core_judge.mjs")
    trees = run_typescript(judge, *map(str, _EXAMPLES), package=("@a2ui/web_core", "0.11.0"))
    compared = 0
    for example, tree in zip(_EXAMPLES, trees, strict=True):
        ours, theirs = dict(_leaves(plain(_surface(example).tree))), dict(_leaves(tree))
        assert ours == theirs, example.name
        compared += len(theirs)
    assert compared > 4_000


def _surface(example: Path) -> Surface:
    (surface,) = Surfaces([shown(*operations_of(example))]).values()
    return surface


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Iterate over the values of a tree that are neither objects nor arrays, without actions and checks."""
    if path and path[-1] in ("action", "checks", "isValid", "validationErrors"):
        return
    if is_object(value):
        for name, each in value.items():
            yield from _leaves(each, (*path, name))
    elif is_array(value):
        for index, each in enumerate(value):
            yield from _leaves(each, (*path, index))
    else:
        yield path, value
