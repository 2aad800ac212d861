"""What is drawn of a run: the agent's words, and nothing that a terminal would obey."""

from __future__ import annotations

import io
import re

import pytest
from ag_ui.core import (
    Event,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from rich.console import Console

from agui_client._cli.live_run import LiveRun
from agui_client._cli.output import printable

EVIL = "a\x1b[31m\x1b]0;t\x07\x1b[2J\x9b1m\u202eb\u2066\u061c\u200e\u200f\u2028\u200b\x00c"


def drawn(*events: Event) -> str:
    """What a run is drawn as, but for the codes that colour and place it."""
    written = io.StringIO()
    view = LiveRun(Console(file=written, force_terminal=True, width=80))
    with view.running():
        for event in events:
            view.show(event, None)
    return re.sub(r"\x1b\[(\?25[lh]|[0-9;]*m|1A|2K)|[\r\n]", "", written.getvalue())


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize(
    "events",
    [
        [TextMessageStartEvent(message_id="m", role="assistant"), TextMessageContentEvent(message_id="m", delta=EVIL)],
        [ToolCallStartEvent(tool_call_id="c", tool_call_name=EVIL)],
        [ToolCallStartEvent(tool_call_id="c", tool_call_name="f"), ToolCallArgsEvent(tool_call_id="c", delta=EVIL)],
        [ToolCallResultEvent(tool_call_id="c", message_id="t", content=EVIL)],
    ],
)
def test_whatever_an_agent_writes_is_drawn_without_what_a_terminal_would_obey(events: list[Event]) -> None:
    ends: dict[str, Event] = {
        "m": TextMessageEndEvent(message_id="m"),
        "c": ToolCallEndEvent(tool_call_id="c"),
    }
    begun = getattr(events[0], "message_id", "c")
    shown = drawn(*events, *([] if begun == "t" else [ends[begun]]))
    assert "a[31m]0;t[2J1mb" in shown
    assert [each for each in shown if not each.isprintable()] == []


@pytest.mark.requirement("SEC-8")
def test_markdown_makes_no_control_characters_and_tells_where_a_link_leads() -> None:
    markdown = "a&#x202e;b&#27;c [click](http://there/?a=1) `code\x1b[2J`"
    shown = drawn(
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta=markdown),
        TextMessageEndEvent(message_id="m"),
    )
    assert "ab\ufffdc click (http://there/?a=1) code[2J" in shown
    assert [each for each in shown if not each.isprintable()] == []


@pytest.mark.requirement("SEC-8")
def test_prose_keeps_what_languages_are_written_with() -> None:
    kept = "Tromsø \u3042\u0645\u200c\u06cc \U0001f468\u200d\U0001f4bb a\u00a0b\tc\nd \ue0b0 \U0001fae9"
    assert printable(kept) == kept
    assert printable("a\r\nb\ufeff\u3000c\ud800") == "a\nb c"
