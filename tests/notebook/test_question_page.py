"""The script of a question on a page, in a browser: what is sent, what is locked, and who has the focus."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agui_client._rendering.form_controls import QuestionButton, form_field
from agui_client._rendering.forms import AnswerForm
from agui_client._rendering.style import FORM_STYLE, STYLE
from agui_client.notebook._cell_widget import script_text
from support.browser import Chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

_MODEL = """
const sent = window.sent = []
let handler
const model = {get: () => shown, on: (name, call) => { handler = call }, off: () => {}, send: (each) => sent.push(each)}
window.receive = (message) => handler(message)
render({model, el: document.getElementById("cell")})
"""


def question(schema: dict[str, Any], place: Path) -> Path:
    """Write a page with the question of a schema; the page has what it sends, and gets what the kernel sends."""
    buttons = [QuestionButton("Answer", "good"), QuestionButton("Go on without", is_refusal=True)]
    shown = {
        "asked_id": "asked",
        "style": STYLE + FORM_STYLE,
        "question": "Which ferry?",
        "fields": [asdict(form_field(each)) for each in AnswerForm(schema).fields],
        "choices": [asdict(each) for each in buttons],
    }
    script = script_text("question").replace("export default", "void")
    body = f"<div id=cell></div><script type=module>const shown = {json.dumps(shown)}\n{script}\n{_MODEL}</script>"
    place.write_text(f"<meta charset=utf-8><body>{body}", "utf-8")
    return place


@pytest.mark.requirement("SEC-3")
def test_a_press_that_does_not_arrive_can_be_taken_back_until_the_kernel_takes_the_last(
    browser: Chromium, tmp_path: Path
) -> None:
    place = question({"type": "string"}, tmp_path / "page.html")

    def look(page: Page) -> Any:
        page.clock.install()
        page.reload()
        page.get_by_label("answer").fill("Bob")
        page.get_by_role("button", name="Answer").click()
        is_locked = page.get_by_role("button", name="Answer").is_disabled()
        page.clock.run_for(3100)
        told = page.locator("[role=status]").text_content()
        page.get_by_label("answer").fill("Zoe")
        page.get_by_role("button", name="Answer").click()
        sent = page.evaluate("window.sent")
        first, last = (each["press_id"] for each in sent if "pressed" in each)
        page.evaluate("id => window.receive({arrived: id})", first)
        page.evaluate("id => window.receive({arrived: id})", last)
        page.clock.run_for(3100)
        confirmed = page.evaluate("window.sent")[len(sent) :]
        assert page.get_by_role("button", name="Answer").is_disabled(), "the kernel has taken it"
        assert page.locator("[role=status]").text_content() == ""
        page.evaluate("() => window.receive({problem: 'No.', problems: {'': 'too short'}})")
        is_enabled = page.get_by_role("button", name="Answer").is_enabled()
        return is_locked, told, confirmed == [{"latest": last}], sent[-1]["values"], is_enabled

    (is_locked, told, is_last_alone, values, is_enabled), complaints = browser.visit(place, look)
    assert (is_locked, is_last_alone, values, is_enabled) == (True, True, {"": "Zoe"}, True)
    assert told is not None
    assert told.startswith("“Answer” is on its way: the kernel is busy")
    assert told.endswith("the last press counts.")
    assert complaints == []
