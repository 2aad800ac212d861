"""Text of an agent that a person decides by: what would fool a screen is written out, the rest stays (SEC-8)."""

from __future__ import annotations

import json

import pytest

from agui_client._rendering.escaping import exact, json_text, sentence


@pytest.mark.requirement("SEC-8")
def test_a_name_or_command_keeps_its_lines_and_shows_what_is_invisible() -> None:
    assert exact("rm -r a\nrm\u202eb\x1b[2K\u00ad") == "rm -r a\nrm\\u202eb\\u001b[2K\\u00ad"


@pytest.mark.requirement("SEC-8")
def test_prose_keeps_the_invisible_characters_that_languages_are_written_with() -> None:
    assert sentence("a\u00a0b\u200dc\u202e") == "a\u00a0b\u200dc\\u202e"


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("value", [{"a": ["Grüße\n", "\u202e"]}, "plain"])
def test_json_is_shown_over_lines_or_on_one_and_reads_back_as_it_was(value: object) -> None:
    assert json.loads(json_text(value)) == json.loads(json_text(value, None)) == value
    assert json_text({"a": ["ü"]}) == '{\n  "a": [\n    "ü"\n  ]\n}'
    assert json_text({"a": ["ü"]}, None) == '{"a": ["ü"]}'
