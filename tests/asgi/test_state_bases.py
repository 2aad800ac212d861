"""The hash by which a server of another version, or in another language, finds the state that a caller began with."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ag_ui.core import Message, UserMessage

from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.state_base import STATE_BASE, STATE_BASE_HEADER, split_base, state_hash, with_base
from agui_client._serving.caller_state import merged_state


def test_the_hash_of_a_state_is_that_of_its_json_with_sorted_names() -> None:
    written = b'{"a":{"\xc3\xbc":"\xed\xa0\x80"},"b":[1,2.5,null,true]}'
    state = {"b": [1, 2.5, None, True], "a": {"ü": "\ud800"}}
    assert state_hash(state) == f"sha256-{hashlib.sha256(written).hexdigest()}"
    assert state_hash({"a": 1, "b": 2}) == state_hash({"b": 2, "a": 1}) != state_hash({"a": 1, "b": 3})
    assert (STATE_BASE, STATE_BASE_HEADER) == ("aguiStateBase", "x-agui-state-base")


@pytest.mark.parametrize(
    ("props", "sent"),
    [
        (None, {STATE_BASE: "h"}),
        ({}, {STATE_BASE: "h"}),
        ({"x": 1}, {"x": 1, STATE_BASE: "h"}),
        ({STATE_BASE: "of the application"}, {STATE_BASE: "of the application"}),
        ([1], [1]),
        ("text", "text"),
    ],
)
def test_a_base_goes_with_forwarded_properties_that_have_a_place_for_it(props: Any, sent: Any) -> None:
    assert with_base(props, "h") == sent


@pytest.mark.parametrize(
    ("props", "base", "others"),
    [
        (None, None, None),
        ({"x": 1}, None, {"x": 1}),
        ({"x": 1, STATE_BASE: "h"}, "h", {"x": 1}),
        ({STATE_BASE: "h"}, "h", None),
        ({"x": 1, STATE_BASE: 5}, None, {"x": 1}),
        ([STATE_BASE], None, [STATE_BASE]),
        ({}, None, {}),
    ],
)
def test_the_application_of_a_server_does_not_see_the_base(props: Any, base: str | None, others: Any) -> None:
    assert split_base(props) == (base, others)


@pytest.mark.parametrize(
    ("messages", "stored", "expected"),
    [
        ([], {"a": 1}, {"a": 2}),
        ([UserMessage(id="u", content="Hi")], {}, {"a": 2}),
        ([UserMessage(id="u", content="Hi")], {"a": 1}, {"a": 1}),
    ],
)
def test_a_thread_that_is_new_or_has_no_state_takes_the_one_of_its_caller(
    messages: list[Message], stored: Any, expected: Any
) -> None:
    assert merged_state(Conversation("t", messages, stored), {"a": 2}, None) == expected
