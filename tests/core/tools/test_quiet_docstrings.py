"""Docstrings of tools as people write them: what they say of a parameter describes it, and no other text is lost."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import Doc

from agui_client import FunctionTool, tool

GOOGLE = "Look.\n\nArgs:\n    city: The city.\n    other: Nothing.\n"
NUMPY = "Look.\n\nParameters\n----------\ncity\n    The city.\nother\n    Nothing.\n"
SPHINX = "Look.\n\n:param city: The city.\n:param other: Nothing.\n:param city: Again.\n"


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_docstring_of_any_style_is_read_without_complaints(docstring: str, caplog: pytest.LogCaptureFixture) -> None:
    def look(city: str) -> str:
        return city

    look.__doc__ = docstring
    with caplog.at_level(logging.DEBUG):
        made = tool(look)
    assert made.definition.description.startswith("Look.")
    assert "Nothing." in made.definition.description
    assert caplog.records == []


def _made(docstring: str) -> FunctionTool[..., str]:
    def look(city: str, units: str = "c") -> str:
        return city + units

    look.__doc__ = docstring
    return tool(look)


def _described(made: FunctionTool[..., str]) -> dict[str, str]:
    parameters: Any = made.definition.parameters
    return {name: each["description"] for name, each in parameters["properties"].items() if "description" in each}


_BOTH = {"city": "The city.", "units": "Its units."}


@pytest.mark.parametrize(
    "docstring",
    [
        "Args:\n    - city: The city.\n    - units: Its units.",
        "Args:\n    city - The city.\n    units \u2014 Its units.",
        "Args:\n    `city`: The city.\n    ``units`` (str, optional): Its units.",
        "Args:\n    * `city` (dict(str, int)): The city.\n    * **units**: Its units.",
        "Args:\n\n    city: The city.\n\n    units: Its units.",
        "Args:\n    city:\n        The city.\n    units:\n        Its units.",
        "args:\ncity: The city.\nunits: Its units.",
        "**Parameters:**\n\n- `city`: The city.\n- `units`: Its units.",
        "Keyword Arguments:\n    units: Its units.\n\nArguments:\n    city: The city.",
        ":param city: The city.\n:param str units: Its units.\n:type city: str\n:returns: A text.",
        "@param city: The city.\n@param units:\n    Its units.",
        "Parameters\n----------\ncity : str\n    The city.\nunits\n    Its units.\n\nReturns\n-------\nstr\n    Text.",
    ],
)
@pytest.mark.parametrize("between", ["\n", "\n\n"], ids=["right below", "behind a blank line"])
def test_parameters_are_described_however_the_list_is_written(docstring: str, between: str) -> None:
    made = _made(f"Look.{between}{docstring}\n")
    assert (made.definition.description, _described(made)) == ("Look.", _BOTH)


@pytest.mark.parametrize("docstring", [":param city: The city.", "Args:\n  city: The city."])
def test_one_parameter_is_enough(docstring: str) -> None:
    assert _described(_made(f"Look.\n{docstring}")) == {"city": "The city."}


def test_descriptions_go_on_over_lines_and_paragraphs() -> None:
    made = _made(
        "Look.\n\nArgs:\n    city: The city,\n        which is long.\n\n        And old.\n    units: Its\n    units.\n"
    )
    assert _described(made) == {"city": "The city,\nwhich is long.\n\nAnd old.", "units": "Its\nunits."}


@pytest.mark.parametrize("style", ["google", "numpy", "sphinx"])
def test_what_is_about_anything_else_stays_in_the_description(style: str) -> None:
    kept = [
        "Important:\n    Ask first.",
        "When to use:\n    On Sundays: never.",
        "Note: slow.",
        "Caution:\n    Not twice.",
    ]
    lists = {
        "google": "Args:\n    city: The city.\n    units: Its units.\n\nRaises:\n    ToolError: Never.",
        "numpy": "Parameters\n----------\ncity, units\n    Where.\n\nRaises\n------\nToolError\n    Never.",
        "sphinx": ":param city: The city.\n:param units: Its units.\n:raises ToolError: Never.",
    }
    if style == "numpy":
        kept = ["Important\n---------\nAsk first.", "When to use\n-----------\nOn Sundays: never."]
    made = _made("\n\n".join(["Look.", kept[0], lists[style], *kept[1:]]))
    assert made.definition.description == "\n\n".join(["Look.", *kept])
    assert _described(made) == (_BOTH if style != "numpy" else dict.fromkeys(_BOTH, "Where."))


@pytest.mark.parametrize(
    "docstring",
    [
        "Look: a city.\n\nSecond.",
        "Look.\n\nArgs:\n    None of note.",
        "Look.\n\nArgs: see below.",
        "Look.\n\nReturns: a text.\n\n    code: here",
        "Look.\n\n- first: go\n- second: stay",
        "Look.\n\nArgs:",
        "Look.\n\n:see: another",
        "",
    ],
)
def test_text_that_describes_no_parameter_is_left_as_it_is(docstring: str) -> None:
    made = _made(docstring)
    assert (made.definition.description, _described(made)) == (docstring, {})


def test_lines_of_a_list_that_describe_nothing_stay_in_the_description() -> None:
    made = _made("Look.\n\nArgs:\n    city: The city.\n\n    Both are names.\n    - Remember: ask.\n")
    assert made.definition.description == "Look.\n\nBoth are names.\n- Remember: ask."
    assert _described(made) == {"city": "The city."}


@pytest.mark.parametrize(
    ("docstring", "kept"),
    [
        ("Args:\n    city: The city.\n    zip: Its code,\n        five digits.\n    units: Its units.", None),
        ("Args:\n    zip: Its code,\n        five digits.\n    city: The city.\n    units: Its units.", None),
        ("Args:\n    city: The city.\n    units: Its units.\n    zip (str): Its code.", "zip (str): Its code."),
        ("Args:\n    zip: Its code.\n    day: A day.", "Args:\n    zip: Its code.\n    day: A day."),
        ("Args:\n    city: The city.\n    zip: One.\n    day: Two.\n    units: Its units.", "zip: One.\nday: Two."),
        (
            ":param city: The city.\n:param zip: Its code.\n:type zip: str\n:type city: str\n:param units: Its units.",
            "",
        ),
        (
            "Parameters\n----------\ncity\n    The city.\nzip : str\n    Its code.\nunits\n    Its units.",
            "zip : str\n    Its code.",
        ),
        ("Parameters\n----------\nzip, city\n    The city.\nunits\n    Its units.", "zip, city\n    The city."),
    ],
)
def test_what_describes_a_parameter_that_is_not_there_stays_in_the_description(
    docstring: str, kept: str | None
) -> None:
    made = _made(f"Look.\n\n{docstring}")
    expected = {None: "zip: Its code,\n    five digits.", "": ":param zip: Its code.\n:type zip: str"}.get(kept, kept)
    assert made.definition.description == f"Look.\n\n{expected}"
    assert _described(made) == ({} if str(kept).startswith("Args") else _BOTH)


def test_two_descriptions_of_one_parameter_are_both_kept() -> None:
    assert _described(_made("Look.\n\n:param city: The city.\n:param city: Or a town.\n:param city: The city.")) == {
        "city": "The city.\nOr a town."
    }


def test_a_tool_with_a_schema_of_its_own_keeps_the_whole_docstring() -> None:
    def look(**given: Any) -> str:
        """Look.

        Args:
            city: The city.
        """
        return str(given)

    made = FunctionTool.from_schema("look", look, parameters={"type": "object", "properties": {"city": {}}})
    assert made.description == "Look.\n\nArgs:\n    city: The city."


def test_an_annotation_describes_its_parameter_before_the_docstring() -> None:
    @tool
    def look(
        city: Annotated[str, "The city."],
        units: Annotated[str, object(), Doc("Its units.")] = "c",
        at: Annotated[int | None, Field(description="A time."), "Not this"] = None,
        day: int = 1,
    ) -> str:
        """Look.

        Args:
            city: Not this.
            day: A day.
        """
        return f"{city}{units}{at}{day}"

    assert _described(look) == {**_BOTH, "at": "A time.", "day": "A day."}
