"""Docstrings of tools that do not match their functions: what they say of a parameter counts, and nothing is logged."""

from __future__ import annotations

import logging

import pytest

from agui_client import tool

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
    assert made.definition.description == "Look."
    assert caplog.records == []
