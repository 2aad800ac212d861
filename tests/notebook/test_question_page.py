"""The script of a question on a page, in a browser: what is sent, what is locked, and who has the focus."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agui_client._rendering.form_controls import Drawing, QuestionButton
from agui_client._rendering.forms import AnswerForm, call_form
from agui_client._rendering.style import FORM_STYLE, STYLE
from agui_client.notebook._cell_widget import script_text
from support.browser import FRAME, Chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

_MODEL = """
const sent = window.sent = []
let handler
const model = {get: () => shown, on: (name, call) => { handler = call }, off: () => {}, send: (each) => sent.push(each)}
window.receive = (message) => handler(message)
render({model, el: document.getElementById("cell")})
"""

_NOTEBOOK = """
const keys = window.keys = []
addEventListener("keydown", ({key, target}) => {
  for (let each = target; each && !each.hasAttribute("data-lm-suppress-shortcuts"); each = each.parentElement) {
    if (each.matches("#cell :focus:not(:read-write)")) return keys.push(key)
  }
}, true)
"""
"""Takes keys as JupyterLab and Notebook 7 do in command mode."""


def question(form: AnswerForm, place: Path, **more: Any) -> Path:
    """Write a page with the question of a form; the page has what it sends, and gets what the kernel sends."""
    buttons = [QuestionButton("Answer", "good"), QuestionButton("Continue without", is_refusal=True)]
    shown = {
        "asked_id": str(place),  # the browser keeps what was typed by it
        "style": STYLE + FORM_STYLE,
        "question": "Which ferry?",
        **Drawing(form).as_json(),
        "choices": [asdict(each) for each in buttons],
        **more,
    }
    script = script_text("question").replace("export default", "void")
    body = f"<div id=cell></div><script type=module>const shown = {json.dumps(shown)}\n{script}\n{_MODEL}</script>"
    place.write_text(f"<meta charset=utf-8><body>{body}", "utf-8")
    return place


def sent(page: Page) -> dict[str, str]:
    """Press the first button, and return the values that the page sent."""
    page.get_by_role("button", name="Answer").click()
    values: dict[str, str] = page.evaluate("window.sent.at(-1).values")
    return values


@pytest.mark.requirement("SEC-3")
def test_a_press_that_does_not_arrive_can_be_taken_back_until_the_kernel_takes_the_last(
    browser: Chromium, tmp_path: Path
) -> None:
    place = question(AnswerForm({"type": "string"}), tmp_path / "page.html")

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
        pressed = page.evaluate("window.sent")
        first, last = (each["press_id"] for each in pressed if "pressed" in each)
        page.evaluate("id => window.receive({arrived: id})", first)
        page.evaluate("id => window.receive({arrived: id})", last)
        page.clock.run_for(3100)
        confirmed = page.evaluate("window.sent")[len(pressed) :]
        assert page.get_by_role("button", name="Answer").is_disabled(), "the kernel has taken it"
        assert page.locator("[role=status]").text_content() == ""
        page.evaluate("() => window.receive({problem: 'No.', problems: {'': 'too short'}})")
        is_enabled = page.get_by_role("button", name="Answer").is_enabled()
        return is_locked, told, confirmed == [{"latest": last}], pressed[-1]["values"], is_enabled

    (is_locked, told, is_last_alone, values, is_enabled), complaints = browser.visit(place, look)
    assert (is_locked, is_last_alone, values, is_enabled) == (True, True, {"": "Zoe"}, True)
    assert told is not None
    assert told.startswith("“Answer” is on its way: the kernel is busy")
    assert told.endswith("the last press counts.")
    assert complaints == []


def test_a_page_without_a_kernel_says_in_its_own_words_what_a_press_waits_for(
    browser: Chromium, tmp_path: Path
) -> None:
    place = question(AnswerForm({"type": "string"}), tmp_path / "page.html", slow="the server has not responded yet")

    def look(page: Page) -> Any:
        page.clock.install()
        page.reload()
        page.get_by_role("button", name="Answer").click()
        page.clock.run_for(3100)
        return page.locator("[role=status]").text_content()

    told, complaints = browser.visit(place, look)
    assert told.partition(". ")[0] == "“Answer” is on its way: the server has not responded yet"
    assert complaints == []


def test_a_page_without_an_output_for_a_question_shows_it_at_its_edge_until_an_output_has_it(
    browser: Chromium, tmp_path: Path
) -> None:
    """As after a reload before the notebook was saved; what was typed is there again."""
    place = question(AnswerForm({"type": "string"}), tmp_path / "page.html")
    begun = "window.leave = initialize({model}); window.output = () => render({model"
    place.write_text(place.read_text("utf-8").replace("\nrender({model", f"\n{begun}"), "utf-8")

    def look(page: Page) -> Any:
        page.clock.install()
        page.reload()
        page.clock.run_for(3100)
        page.locator("#agui-dock").get_by_label("answer").fill("Bob")
        page.get_by_role("button", name="Answer").click()
        pressed = page.evaluate("window.sent.at(-1).values")
        page.evaluate("window.output()")
        left = page.locator("#agui-dock").count()
        return pressed, left, page.locator("#cell").get_by_label("answer").input_value()

    assert browser.visit(place, look) == (({"": "Bob"}, 0, "Bob"), [])


TEXT = {"type": "string"}
NODE = {
    "type": "object",
    "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}
TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "at": {**TEXT, "format": "date-time"},
        "price": {"type": "number", "unit": "NOK"},
        "vip": {"type": "boolean"},
        "country": {"enum": [f"c{each}" for each in range(20)]},
        "who": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}},
        "pay": {
            "oneOf": [
                {"title": "Card", "type": "object", "properties": {"number": TEXT}, "required": ["number"]},
                {"title": "Bank", "type": "object", "properties": {"iban": TEXT}, "required": ["iban"]},
            ]
        },
        "env": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tree": {"$ref": "#/$defs/node"},
    },
    "required": ["pay", "who"],
    "$defs": {"node": NODE},
}
FILLED = {
    "price": 129.9,
    "vip": False,
    "country": "c7",
    "who": [{"name": "Ann"}, {"name": "Cy"}],
    "pay": {"iban": "NO93"},
    "env": {"PORT": 80},
    "tree": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]},
}


@pytest.mark.requirement("INT-7")
def test_groups_lists_variants_maps_and_trees_are_filled_in_with_the_keyboard(
    browser: Chromium, tmp_path: Path
) -> None:
    form = AnswerForm(TRIP)

    def look(page: Page) -> Any:
        page.get_by_label("price").focus()
        keys = page.keyboard

        def press(*names: str) -> None:
            for name in names:
                keys.press(name)

        keys.type("129.90")
        press("Tab", "Space", "Space", "Tab")  # vip, touched
        keys.type("C7")
        press("Tab", "Enter")  # adds the first person, whose name has the focus
        for name in ("Ann", "Bob", "Cy"):
            keys.type(name)
            if name != "Cy":
                press("Tab", "Tab", "Enter")
        press("Shift+Tab", "Enter")  # Bob is removed, and the focus goes to Add
        press("Tab")
        keys.type("Bank")
        press("Tab")
        keys.type("NO93")
        press("Tab", "Enter")
        keys.type("PORT")
        press("Tab")
        keys.type("80")
        press("Tab", "Tab", "Tab", "Enter")
        for level in "abc":
            keys.type(level)
            press("Tab", "Enter") if level != "c" else None
        assert page.get_by_role("group", name="env 1").get_by_text("name").is_visible(), (
            "a name has a label when it is there"
        )
        return sent(page), page.evaluate("window.keys")

    place = question(form, tmp_path / "page.html")
    place.write_text(f"<script>{_NOTEBOOK}</script>{place.read_text('utf-8')}", "utf-8")
    (values, keys_of_notebook), complaints = browser.visit(place, look)
    assert (complaints, keys_of_notebook) == ([], [])
    assert form.read(values) == FILLED


def test_problems_stand_at_their_fields_and_the_first_gets_the_focus(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> Any:
        page.get_by_role("button", name="Add to who").click()
        problems = {"/who/0/name": "too short", "/pay/number": "no card", "/elsewhere": "lost"}
        page.evaluate("problems => window.receive({problem: '3 fields.', problems})", problems)
        focused = page.evaluate("document.activeElement.getAttribute('aria-describedby')")
        wrong = page.locator("[aria-invalid=true]")
        return page.locator(f"#{focused}").inner_text(), wrong.count(), page.get_by_role("alert").inner_text()

    seen, _ = browser.visit(question(AnswerForm(TRIP), tmp_path / "page.html"), look)
    assert seen == ("too short", 2, "3 fields. lost")


@pytest.mark.requirement("SEC-3")
def test_a_call_that_nobody_touches_is_sent_as_it_came_and_changes_stand_beside_what_was_asked(
    browser: Chromium, tmp_path: Path
) -> None:
    arguments = {**FILLED, "at": "2026-11-24T14:30:15.25Z", "price": 1e-7}
    form = call_form(TRIP, arguments)
    assert form is not None
    place = question(form, tmp_path / "page.html", is_call=True, call="{}")

    def look(page: Page) -> Any:
        untouched = sent(page)
        page.evaluate("() => window.receive({problem: 'again', problems: {}})")
        zone = page.locator(".agui-zoned span").inner_text()
        page.get_by_label("price").fill("3")
        return untouched, zone, page.get_by_text("the agent asked for: ").inner_text(), sent(page)

    (untouched, zone, told, changed), _ = browser.visit(place, look)
    assert form.read(untouched) == arguments
    assert zone.startswith(("+", "-"))
    assert told == "the agent asked for: 1e-07"
    assert form.read(changed) == {**arguments, "price": 3}


def test_what_was_typed_is_there_again_after_a_reload_but_no_password(browser: Chromium, tmp_path: Path) -> None:
    secret = AnswerForm({"type": "object", "properties": {"a": TEXT, "pin": {**TEXT, "format": "password"}}})

    def look(page: Page) -> Any:
        page.get_by_role("button", name="Add to who").click()
        page.get_by_role("group", name="who 1").get_by_role("textbox").fill("Ann")
        page.get_by_role("combobox", name="pay").select_option("Bank")
        page.get_by_label("iban").fill("NO93")
        page.reload()
        return sent(page)

    values, complaints = browser.visit(question(AnswerForm(TRIP), tmp_path / "page.html"), look)
    assert complaints == []
    assert (values["/who"], values["/who/0/name"], values["?/pay"], values["/pay/iban"]) == ("0", "Ann", "1", "NO93")

    def look_for_secrets(page: Page) -> Any:
        page.get_by_label("pin").fill("1234")
        page.get_by_label("a", exact=True).fill("x")
        return page.evaluate("JSON.stringify(sessionStorage)")

    kept, _ = browser.visit(question(secret, tmp_path / "page.html"), look_for_secrets)
    assert "1234" not in kept


@pytest.mark.parametrize(("text", "focused"), [("wri", "cell-text"), ("", "agui agui-panel")])
def test_the_focus_goes_to_a_question_and_back_from_nobody_who_writes_and_ctrl_s_saves(
    browser: Chromium, tmp_path: Path, text: str, focused: str
) -> None:
    place = question(AnswerForm(TEXT), tmp_path / "page.html")
    listens = (
        "addEventListener('keydown', (event) => { if (!event.isTrusted) window.saved = event.key + event.ctrlKey })"
    )
    focuses = "document.getElementById('cell-text').focus()"
    cell = f"<input id=cell-text value='{text}'><script>{focuses}; {listens}</script>"
    place.write_text(cell + place.read_text("utf-8"), "utf-8")

    def look(page: Page) -> Any:
        page.wait_for_function("window.sent?.length > 0")
        page.evaluate(FRAME)
        has = page.evaluate("document.activeElement.id || document.activeElement.className")
        told = page.locator("[role=status]").text_content()
        page.get_by_label("answer").press("Control+s")
        page.evaluate("() => window.receive({ended: 'over'})")
        return has, told, page.evaluate("window.saved"), page.evaluate("document.activeElement.id")

    (has, told, saved, back), _ = browser.visit(place, look)
    assert has.startswith(focused)
    assert told == ("A question is open." if text else "")
    assert saved == "strue"
    assert text or back == "cell-text"
