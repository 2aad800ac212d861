"""The inspector's page in a browser: what it shows, and that an agent cannot make it do anything."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest

from agui_client._core.protocol.patch import PatchFailed, is_same_json
from agui_client._core.protocol.schema import is_object
from agui_client._rendering import views
from agui_client._rendering.style import STYLE
from agui_client.a2ui import change_surface, show_surface
from agui_client.inspector import _page as inspector
from agui_client.inspector import inspector_page
from agui_client.inspector._live_rows import LiveRows
from agui_client.notebook import ShownCall, renders
from agui_client.recording import Recording, record
from agui_client.testing import ScriptedAgent, text, turn
from support.browser import FRAME, Chromium
from support.json_patches import applied, patch, value
from weaves import spoil, weave

if TYPE_CHECKING:
    from playwright.sync_api import Page

Json = dict[str, Any]
HOSTILE = (
    '</script><script>document.title="taken"</script><!--<img src=x onerror="document.title=\'taken\'">\u2028\u202e'
    "{{script}}{{data}}"
)
ENDS = {"threadId": "t", "runId": "r"}


def written(folder: Path, *events: Json, messages: list[Json] | None = None) -> Path:
    """The page of a recording with one request; an event comes every tenth of a second, the last one after a minute."""
    return written_answers(folder, events, messages=messages)


def written_answers(folder: Path, *answers: Sequence[Json], messages: list[Json] | None = None) -> Path:
    """The page of a recording with a request for each answer."""
    input: Json = {**ENDS, "messages": messages or [], "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    lines: list[Json] = [
        {"kind": "header", "protocol": "1.0", "package": "0", "session": "s", "time": "2026-01-01T00:00:00Z"}
    ]
    for request, events in enumerate(answers):
        key = f"s-{request}.1"
        agent = {"agent_id": "planner"}
        lines.append(
            {"kind": "request", "request": key, "call": f"s-{request}", "at": 0, "agent": agent, "input": input}
        )
        for number, event in enumerate(events, 1):
            at = number / 10 + (60 if number == len(events) else 0)
            lines.append({"kind": "event", "request": key, "at": at, "event": event})
    recording, page = folder / "run.jsonl", folder / "page.html"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    page.write_bytes(inspector_page(Recording.read(recording)))
    return page


STORY: list[Json] = [
    {"type": "RUN_STARTED", **ENDS},
    {"type": "STATE_SNAPSHOT", "snapshot": {"city": "Oslo", "plan": ["opera"]}},
    {"type": "TEXT_MESSAGE_START", "messageId": "m"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "The fer"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "ry leaves"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/plan/-", "value": "ferry"}]},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "sub", "name": "reader"},
    {"type": "TEXT_MESSAGE_START", "messageId": "n", "subagentRunId": "sub"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": "I read.", "subagentRunId": "sub"},
    {"type": "TEXT_MESSAGE_END", "messageId": "n", "subagentRunId": "sub"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "sub"},
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "book"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"seats": 2}'},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
    {"type": "TOOL_CALL_RESULT", "toolCallId": "c", "messageId": "o", "content": "booked"},
    {"type": "NOVELTY", "colour": "red"},
    {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/city", "value": "Bergen"}]},
    {"type": "RUN_FINISHED", **ENDS},
]
BEFORE = 2
"""The rows before the first event."""


def scrub(page: Page, row: int) -> None:
    page.locator("#scrubber").fill(str(row))
    page.evaluate(FRAME)


def test_scrubbing_shows_messages_and_state_at_any_moment(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> list[str]:
        seen: list[str] = []
        for at in (BEFORE + 3, BEFORE + 4, BEFORE + 3):
            scrub(page, at)
            seen.append(page.locator("#messages .message.assistant .text").inner_text())
        page.get_by_role("tab", name="State").click()
        for at in (BEFORE + 6, BEFORE + 1):
            scrub(page, at)
            seen.append(page.locator("#state .changes").inner_text())
        return seen

    seen, complaints = browser.visit(written(tmp_path, *STORY), look)
    assert seen == ["The fer", "The ferry leaves", "The fer", "/plan/1\t\tferry", '/city\t\tOslo\n/plan\t\t["opera"]']
    assert complaints == []


def test_a_state_is_compared_with_a_marked_moment(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> tuple[str, str]:
        page.get_by_role("tab", name="State").click()
        scrub(page, BEFORE + 1)
        page.get_by_role("button", name="Mark").click()
        scrub(page, BEFORE + len(STORY) - 1)
        return page.locator("#state h3").first.inner_text(), page.locator("#state .changes").inner_text()

    (heading, table), _ = browser.visit(written(tmp_path, *STORY), look)
    assert heading == "2 changes since the marked moment, row 4"
    assert table == "/city\tOslo\tBergen\n/plan/1\t\tferry"


@pytest.mark.parametrize(
    ("wanted", "found_at"),
    [
        ("ferry leaves", [5]),
        ("FERRY  leaves", [5]),
        ("in Zürich at", [21]),
        ("ends here. And goes", [24]),
        ('a "quoted" word', [26]),
        ("path: C:\\temp", [26]),
        ("Genève airport", [27]),
        ("nowhere", []),
    ],
)
def test_search_finds_what_one_reads_however_it_was_written_and_cut(
    browser: Chromium, tmp_path: Path, wanted: str, found_at: list[int]
) -> None:
    call, message = {"toolCallId": "d"}, {"messageId": "p"}
    texts: list[Json] = [
        {"type": "TOOL_CALL_START", "toolCallName": "fly", **call},
        {"type": "TOOL_CALL_ARGS", "delta": '{"to": "in Z\\u00', **call},
        {"type": "TOOL_CALL_ARGS", "delta": 'fcrich\\nat 9"}', **call},
        {"type": "TEXT_MESSAGE_START", **message},
        {"type": "TEXT_MESSAGE_CONTENT", "delta": "The line ends here. \n", **message},
        {"type": "TEXT_MESSAGE_CONTENT", "delta": "\n And goes on.", **message},
        {"type": "TEXT_MESSAGE_END", **message},
        {"type": "CUSTOM", "name": "n", "value": 'a "quoted" word, path: C:\\temp'},
        {"type": "TOOL_CALL_RESULT", "messageId": "e", "content": json.dumps(["Genève airport"]), **call},
    ]

    def look(page: Page) -> tuple[list[int], str]:
        page.get_by_label("Search").fill(wanted)
        page.locator("#found").get_by_text("of" if found_at else "nothing found").wait_for()
        found: list[int] = page.evaluate("(wanted) => page.search.find(wanted)", wanted)
        return found, page.locator("#found").inner_text()

    found, complaints = browser.visit(written(tmp_path, *STORY[:-1], *texts, STORY[-1]), look)
    count = f"1 of {len(found_at)}" if found_at else "nothing found"
    assert found == ([BEFORE + at - 1 for at in found_at], count)
    assert complaints == []


def test_a_run_that_waits_for_an_answer_does_not_look_like_one_that_is_over(browser: Chromium, tmp_path: Path) -> None:
    asks = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "confirm", "message": "Delete three files?"}]}
    waits: Json = {"type": "RUN_FINISHED", **ENDS, "outcome": asks}

    def look(page: Page) -> tuple[str, str, str]:
        page.evaluate(FRAME)
        page.get_by_role("tab", name="Event").click()
        row = page.locator(".row.f-waiting").inner_text()
        return page.locator("#facts.waiting").inner_text(), row, page.locator("#event").inner_text()

    (facts, row, event), complaints = browser.visit(written(tmp_path, STORY[0], waits), look)
    assert "waits for 1 answer" in facts
    assert "RUN_FINISHED: waits" in row
    assert "waits for an answer: Delete three files?" in event
    assert complaints == []


def test_a_legend_names_the_colours_of_all_rows(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> tuple[bool, list[str]]:
        families: list[str] = page.evaluate("Object.keys(FAMILIES).map((name) => `f-${name}`)")
        shown = page.locator("#legend > span").evaluate_all("(all) => all.map((each) => each.className)")
        used: list[str] = page.evaluate("page.recording.rows.map((row) => `f-${row.family}`)")
        return families == shown and set(used) <= {*shown}, page.locator("#legend > span").all_inner_texts()

    (is_whole, words), _ = browser.visit(written(tmp_path, *STORY), look)
    assert is_whole
    assert words[:3] == ["text", "reasoning", "tool call"]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_has_contrast_with_every_background(scheme: int) -> None:
    css = (Path(inspector.__file__).parent / "page/page.css").read_text("utf-8")
    palette = _palette(css, scheme)
    used = {
        name: set(re.findall(rf"[;{{] ?{name}: var\(--([\w-]+)\)", re.sub(r"\.cursor\b[^{]*{[^}]*}", "", css)))
        for name in ("color", "background")
    }
    assert used["background"] == {"paper", "panel", "chosen", "found", "fresh"}
    assert used["color"] >= {"ink", "quiet", "text", "tool", "waiting", "warning", "bad"}
    assert _poor_pairs(palette, used["color"], [palette[each] for each in used["background"]]) == []


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_of_an_inspected_run_has_contrast_in_a_notebook(scheme: int) -> None:
    palette = _palette(STYLE, scheme)
    colours = set(re.findall(r"color:var\(--([\w-]+)\)", STYLE)) - {"agui-on", "agui-line"}  # of a button; of borders
    assert colours >= {"agui-dim", "agui-f-text", "agui-f-waiting"}
    paper = ["#ffffff", "#1e1e1e"][scheme]  # JupyterLab's
    assert _poor_pairs(palette, colours, [paper, palette["agui-soft"]]) == []


def _palette(css: str, scheme: int) -> dict[str, str]:
    palettes = [dict(re.findall(r"--([\w-]+): ?(#\w+)", block)) for block in re.findall(r"{([^{}]*--[^{}]*)}", css)]
    return palettes[0] | palettes[scheme]


def _poor_pairs(palette: dict[str, str], colours: set[str], papers: list[str]) -> list[tuple[str, str, float]]:
    """Return the pairs whose contrast is less than what WCAG 2 asks for."""
    pairs = [(colour, paper, contrast(palette[colour], paper)) for colour in sorted(colours) for paper in papers]
    return [each for each in pairs if each[2] < 4.5]


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    lights = sorted(_luminance(each) for each in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: str) -> float:
    whole = colour if len(colour) == 7 else "#" + "".join(2 * each for each in colour[1:])
    parts = [int(whole[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_folded_agent_hides_its_subagents(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> list[str]:
        scrub(page, BEFORE + len(STORY) - 1)
        seen = [page.locator("#lanes").inner_text(), str(page.locator("#messages .message").count())]
        page.get_by_role("button", expanded=True).click()
        seen += [page.locator("#lanes").inner_text(), str(page.locator("#messages .message").count())]
        seen.append(page.locator("#messages .folded").inner_text())
        page.locator("#rows").evaluate("(rows) => rows.scrollTop = 0")
        return [*seen, str(page.get_by_text("SUBAGENT_STARTED").count())]

    seen, _ = browser.visit(written(tmp_path, *STORY), look)
    lanes, messages, folded_lanes, folded_messages, folded, rows = seen
    assert (lanes.split(), folded_lanes.split()) == (["▾planner", "reader"], ["▸planner"])
    assert (int(messages), int(folded_messages), rows) == (4, 3, "0")
    assert folded == "1 message of a folded subagent"


def test_the_page_opens_at_the_end_with_deltas_folded(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> list[Any]:
        page.evaluate(FRAME)
        run = page.locator(".row", has_text="TEXT_MESSAGE_CONTENT").first
        seen: list[Any] = [page.locator("#moment").inner_text(), run.inner_text().split("\n")]
        run.get_by_role("button", name="Show 2 pieces").click()
        page.evaluate(FRAME)
        unfolded = page.locator(".row", has_text="TEXT_MESSAGE_CONTENT")
        seen += [unfolded.locator(".summary").all_inner_texts(), page.locator("#moment").inner_text()]
        page.keyboard.press("Enter")
        page.evaluate(FRAME)
        seen.append(page.locator('.row[aria-selected="true"] .summary').inner_text())
        scrub(page, BEFORE + 3)
        return [*seen, page.locator('.row[aria-selected="true"] .count').inner_text()]

    (moment, run, pieces, first, again, chosen), complaints = browser.visit(written(tmp_path, *STORY), look)
    assert moment == f"61.900 s · row {BEFORE + len(STORY)} of {BEFORE + len(STORY)}"
    assert [each for each in run if each] == [
        "0.500", "+100 ms", "▸", "TEXT_MESSAGE_CONTENT", "\u00d72 in 100 ms", "The ferry leaves"
    ]  # fmt: skip
    assert (pieces, first) == (
        ["The fer", "ry leaves", "I read."],
        f"0.400 s · row {BEFORE + 4} of {BEFORE + len(STORY)}",
    )
    assert (again, chosen) == ("The ferry leaves", "\u00d72 in 100 ms")
    assert complaints == []


def test_deltas_of_agents_side_by_side_are_folded_each_for_itself(browser: Chromium, tmp_path: Path) -> None:
    started = [{"type": "SUBAGENT_STARTED", "subagentRunId": each, "name": each} for each in "ab"]
    begun = [{"type": "TEXT_MESSAGE_START", "messageId": each, "subagentRunId": each} for each in "ab"]
    deltas = [
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": each, "delta": each, "subagentRunId": each}
        for _ in range(4)
        for each in "ab"
    ]

    def look(page: Page) -> list[str]:
        page.evaluate(FRAME)
        return page.locator(".row", has_text="TEXT_MESSAGE_CONTENT").locator(".summary").all_inner_texts()

    seen, _ = browser.visit(written(tmp_path, STORY[0], *started, *begun, *deltas), look)
    assert seen == ["aaaa", "bbbb"]


def test_markdown_is_drawn_when_it_is_complete_and_no_image_is_fetched(browser: Chromium, tmp_path: Path) -> None:
    pytest.importorskip("markdown_it")
    said = "## Ferry\n\n**nine** ![x](http://127.0.0.1:9/steal) <b>raw</b>\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |"
    events: list[Json] = [
        *STORY[:3],
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": said[:20]},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": said[20:]},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    ]

    def look(page: Page) -> list[Any]:
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.evaluate(FRAME)
        text = page.locator("#messages .message.assistant .text")
        names = "[...document.querySelectorAll('#messages .markdown *')].map((each) => each.localName)"
        seen: list[Any] = [text.locator("h2").inner_text(), page.evaluate(names)]
        seen.append(text.locator("td").last.evaluate("(cell) => getComputedStyle(cell).textAlign"))
        scrub(page, BEFORE + 3)
        return [*seen, text.inner_text(), requested]

    (heading, names, align, before, requested), complaints = browser.visit(written(tmp_path, *events), look)
    assert (heading, before, align, requested) == ("Ferry", said[:20], "right", [])
    assert sorted({*names}) == ["a", "h2", "p", "strong", "table", "tbody", "td", "th", "thead", "tr"]
    assert complaints == []


def test_tokens_have_a_tab_and_money_only_with_prices(browser: Chromium, tmp_path: Path) -> None:
    usage = [{"model": "small", "inputTokens": 1000, "outputTokens": 500}, {"model": "free", "inputTokens": 7}]
    path = written(tmp_path, STORY[0], {**STORY[-1], "usage": usage})

    def look(page: Page) -> list[str]:
        page.get_by_role("tab", name="Tokens").click()
        page.evaluate(FRAME)
        rows = page.locator("#tokens tr").all_inner_texts()
        return [page.locator("#facts").inner_text(), *rows, page.locator("#tokens p").inner_text()]

    seen, _ = browser.visit(path, look)
    facts, _, small, free, sums, note = seen
    assert "1007 tokens in, 500 out" in facts
    assert small.split("\t") == ["1", "s-0", "small", "1000", "500", "?", "\u2013"]
    assert note == "There is no money without prices: agui inspect --price model=in/out, per million tokens."
    path.write_bytes(inspector_page(Recording.read(path.with_name("run.jsonl")), prices={"small": (2, 10)}))
    seen, complaints = browser.visit(path, look)
    facts, _, small, free, sums, note = seen
    assert facts.endswith("1007 tokens in, 500 out · 0.007")
    assert [each.split("\t")[-1] for each in (small, free, sums)] == ["0.007", "\u2013", "0.007"]
    assert (
        "per million tokens: small 2 in, 10 out. What has no price, or reported no tokens, is not in the sum." in note
    )
    assert complaints == []


def test_pauses_tools_warnings_and_the_request_are_shown(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> list[str]:
        scrub(page, BEFORE + len(STORY) - 1)
        seen = [page.locator(".gap.long").last.inner_text(), str(page.evaluate("page.timeline.pauses.length"))]
        for tab in ("Tools", "Warnings", "Request", "Event"):
            page.get_by_role("tab", name=tab).click()
            page.evaluate(FRAME)
            seen.append(page.locator(f"#{tab.lower()}").inner_text())
        page.get_by_role("tab", name="Warnings").click()
        page.locator("#warnings tr").click()
        page.evaluate(FRAME)
        return [*seen, page.locator("#moment").inner_text()]

    seen, _ = browser.visit(written(tmp_path, *STORY, messages=[{"id": "u", "role": "user", "content": "Hi"}]), look)
    gap, pauses, tools, warnings, request, event, moment = seen
    assert (gap, pauses) == ("+1 min 0 s", "1")
    assert [part in tools for part in ("book", '{"seats": 2}', "booked", "answered")] == [True] * 4
    assert "PROC-7" in warnings
    assert '"content": "Hi"' not in request.partition("messages")[0]
    assert "thread t · run r" in request
    assert '"type": "RUN_FINISHED"' in event
    assert "row 19" in moment


FERRIES: list[Json] = [
    {"id": "root", "component": "Column", "children": ["name", "said"]},
    {"id": "name", "component": "TextField", "label": "Name", "weight": 3, "value": {"path": "/name"}},
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]


def test_surfaces_are_shown_as_they_were_at_any_moment(browser: Chromium, tmp_path: Path) -> None:
    shown = show_surface("ferry", FERRIES, {"name": "Ann", "said": "Dawn or dusk?"})
    changed = change_surface("ferry", path="/said", data="Booked <b>for</b> Ann")
    gone: Json = {"op": "add", "path": "/a2ui_operations/-", "value": {"deleteSurface": {"surfaceId": "ferry"}}}
    old: Json = {
        "messageId": "o",
        "activityType": "a2ui-surface",
        "content": {"a2ui_operations": [{"surfaceUpdate": {}}]},
    }
    events: list[Json] = [
        {"type": "RUN_STARTED", **ENDS},
        json.loads(shown.model_dump_json(by_alias=True, exclude_none=True)),
        json.loads(changed.model_dump_json(by_alias=True, exclude_none=True)),
        {"type": "ACTIVITY_SNAPSHOT", **old},
        {"type": "ACTIVITY_DELTA", "messageId": shown.message_id, "activityType": "a2ui-surface", "patch": [gone]},
        {"type": "RUN_FINISHED", **ENDS},
    ]

    def look(page: Page) -> tuple[list[list[str]], str, str]:
        seen: list[list[str]] = []
        for at in (0, 1, 2, 3, 4, 1):
            scrub(page, BEFORE + at)
            seen.append(page.locator("#messages .agui-s-col .agui-text").all_inner_texts())
        weight = page.locator("#messages [data-weight]").evaluate("each => each.style.flexGrow")
        scrub(page, BEFORE + 5)
        return seen, weight, page.locator("#messages").inner_text()

    (seen, weight, text), complaints = browser.visit(written(tmp_path, *events), look)
    assert seen == [[], ["Dawn or dusk?"], *[["Booked <b>for</b> Ann"]] * 2, [], ["Dawn or dusk?"]]
    assert weight == "3"
    assert "surfaceUpdate is of A2UI v0.8" in text
    assert complaints == []


def test_what_a_hostile_agent_wrote_is_text(browser: Chromium, tmp_path: Path) -> None:
    polluting = json.loads('{"__proto__": {"polluted": true}, "constructor": 1}')
    events: list[Json] = [
        {"type": "RUN_STARTED", **ENDS},
        {"type": "TEXT_MESSAGE_START", "messageId": HOSTILE},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": HOSTILE, "delta": HOSTILE},
        {"type": "TEXT_MESSAGE_END", "messageId": HOSTILE},
        {"type": "STATE_SNAPSHOT", "snapshot": {HOSTILE: HOSTILE}},
        {"type": "STATE_SNAPSHOT", "snapshot": polluting},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/__proto__/more", "value": 1}]},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": HOSTILE},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": HOSTILE},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": HOSTILE},
        {"type": HOSTILE, "name": HOSTILE},
        {"type": "RUN_ERROR", "message": HOSTILE},
    ]

    def look(page: Page) -> tuple[str, str, Any]:
        for tab in ("State", "Event", "Tools", "Warnings", "Request", "Messages"):
            page.get_by_role("tab", name=tab).click()
            page.evaluate("page.recording.rows.forEach((row) => { page.at = row.i; page.showMoment(); })")
        states = [page.evaluate(f"JSON.stringify(page.recording.conversationAt({at}).state)") for at in (7, 8)]
        elements = page.evaluate(
            "[document.images.length, document.scripts.length, ({}).polluted ?? null, document.title]"
        )
        return page.locator("#messages .text").first.inner_text(), "\n".join(states), elements

    (text, states, elements), complaints = browser.visit(written(tmp_path, *events), look)
    assert text == HOSTILE.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e")
    assert states.splitlines() == [
        '{"__proto__":{"polluted":true},"constructor":1}',
        '{"__proto__":{"polluted":true,"more":1},"constructor":1}',
    ]
    assert elements == [0, 2, None, "run.jsonl: AG-UI inspector"]
    assert complaints == []


@pytest.fixture
def forgotten_views() -> Generator[None]:
    before = dict(views._views)
    yield
    views._views.clear()
    views._views.update(before)


class Card:
    """An HTML view that tries everything."""

    def __init__(self, seats: int, result: object) -> None:
        self.seats, self.result = seats, result

    def _repr_html_(self) -> str:
        script = (
            "<script>top.document.title = 'taken'</script><a id=away target=_top href='https://agent.test/'>away</a>"
        )
        return f"<b style='color: rgb(200, 0, 0)'>{self.seats} seats: {html.escape(str(self.result))}</b>{script}"


@pytest.mark.usefixtures("forgotten_views")
def test_the_view_of_a_tool_draws_its_calls_and_can_do_nothing_else(browser: Chromium, tmp_path: Path) -> None:
    @renders("book")
    def card(call: ShownCall) -> Card:
        return Card(call.partial_arguments["seats"], call.result)

    def look(page: Page) -> list[str]:
        page.get_by_role("tab", name="Tools").click()
        drawn = page.frame_locator("#tools iframe").locator("b")
        seen = [drawn.inner_text(), drawn.evaluate("(drawn) => getComputedStyle(drawn).color")]
        page.frame_locator("#tools iframe").locator("#away").click()
        page.evaluate(FRAME)
        return [*seen, page.title()]

    seen, complaints = browser.visit(written(tmp_path, *STORY), look)
    assert seen == ["2 seats: booked", "rgb(200, 0, 0)", "run.jsonl: AG-UI inspector"]
    assert len(complaints) > 0  # about the script and the link


def test_no_stream_however_spoiled_breaks_the_page(browser: Chromium, tmp_path: Path) -> None:
    answers: list[list[Json]] = []
    for seed in range(8):
        random = Random(seed)
        frames = spoil(random, weave(random).events).frames
        answers.append([event for frame in frames if is_object(event := read(frame))])
    odd: Json = {"type": "TEXT_MESSAGE_CONTENT", "toolCallId": 7, "messageId": [], "delta": {}, "subagentRunId": None}
    answers.append([{"type": [1]}, {"type": None}, {"type": "TOOL_CALL_RESULT", "toolCallId": "c", "content": 3}, odd])

    def look(page: Page) -> int:
        for tab in ("State", "Event", "Tools", "Warnings", "Request", "Messages"):
            page.get_by_role("tab", name=tab).click()
            page.evaluate("for (page.at = 0; page.at < page.recording.rows.length; page.at += 37) page.showMoment()")
        page.evaluate("page.recording.lanes.forEach((lane) => page.fold(lane))")
        page.evaluate("page.search.find('text')")
        return page.evaluate("page.recording.errors.length")  # type: ignore[no-any-return]

    errors, complaints = browser.visit(written_answers(tmp_path, *answers), look)
    assert errors > 3
    assert complaints == []


def read(frame: str) -> object:
    """What a recording has of a frame; None for one that is no event."""
    try:
        return json.loads(frame, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def test_a_script_that_came_into_the_page_would_not_run(browser: Chromium, tmp_path: Path) -> None:
    def look(page: Page) -> str:
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "document.title = 'taken'";
                document.body.append(script);
                const image = "<img src='https://agent.test/x' onerror='document.title=1'>";
                document.body.insertAdjacentHTML("beforeend", image);
            }"""
        )
        page.evaluate(FRAME)
        return page.title()

    title, complaints = browser.visit(written(tmp_path, *STORY), look)
    assert title == "run.jsonl: AG-UI inspector"
    assert any("Content Security Policy" in each for each in complaints)


@pytest.mark.parametrize(("scheme", "width"), [("light", 600), ("dark", 1280)])
def test_nothing_overflows_and_the_colours_follow_the_system(
    browser: Chromium, tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    def look(page: Page) -> tuple[int, str]:
        scrub(page, BEFORE + len(STORY) - 1)
        return (
            page.evaluate("document.documentElement.scrollWidth"),
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
        )

    long = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x" * 500}
    path = written(tmp_path, *STORY[:3], long, *STORY[5:])
    (reach, paper), _ = browser.visit(path, look, scheme=scheme, width=width)
    assert reach <= width
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")


def test_the_page_comes_to_the_conversation_that_the_client_has(browser: Chromium, tmp_path: Path) -> None:
    """Whatever is streamed, and however one comes to the moment."""
    weaves = [weave(Random(seed)) for seed in range(12)]

    def look(page: Page) -> Any:
        return page.evaluate(
            """() => {
                const { recording } = page;
                for (let at = 0; at < recording.rows.length; at += 3) recording.conversationAt(at);
                const lasts = recording.requests.map((request) => request.rows[request.rows.length - 1]);
                return JSON.stringify(lasts.reverse().map((last) => recording.conversationAt(last)).reverse());
            }"""
        )

    found, complaints = browser.visit(written_answers(tmp_path, *(woven.events for woven in weaves)), look)
    for woven, conversation in zip(weaves, json.loads(found), strict=True):
        assert conversation["state"] == woven.state
        for name in ("id", "content", "toolCalls"):
            assert [each.get(name) for each in conversation["messages"]] == [each.get(name) for each in woven.messages]
    assert complaints == []


def test_the_page_patches_a_state_as_the_client_does(browser: Chromium, tmp_path: Path) -> None:
    random = Random(1)
    streams: list[list[Json]] = []
    states: list[Any] = []
    for _ in range(60):
        state = value(random)
        stream: list[Json] = [
            {"type": "RUN_STARTED", **ENDS},
            {"type": "STATE_SNAPSHOT", "snapshot": state},
        ]
        for _ in range(6):
            delta = patch(random, state)
            after = applied(state, delta)
            state = state if isinstance(after, PatchFailed) else after
            stream.append({"type": "STATE_DELTA", "delta": delta})
        streams.append(stream)
        states.append(state)

    def look(page: Page) -> Any:
        return page.evaluate(
            """() => JSON.stringify(page.recording.requests.map(({ rows }) =>
                page.recording.conversationAt(rows[rows.length - 1]).state))"""
        )

    found, complaints = browser.visit(written_answers(tmp_path, *streams), look)
    assert is_same_json(json.loads(found), states)
    assert complaints == []


def test_the_page_grows_by_what_is_new_and_shows_whole_requests(tmp_path: Path, browser: Chromium) -> None:
    path, file = tmp_path / "run.jsonl", tmp_path / "page.html"
    agent = ScriptedAgent(turn(text("At nine.")), initial_state={"plan": "x" * 200}).use(record(path))
    for number in range(4):
        agent.run_agent_sync(f"Question {number}")
    file.write_bytes(inspector_page(Recording.read(path)))
    assert file.read_bytes().count(b"x" * 200) == 1
    live = LiveRows(path)
    live.catch_up()
    assert b",\n".join(live.written) in file.read_bytes()

    def look(page: Page) -> Any:
        return page.evaluate("page.recording.requests.map(({ line, frames }) => [line.input, frames[0].messages])")

    found, complaints = browser.visit(file, look)
    inputs = [exchange.request.input for exchange in Recording.read(path).exchanges]
    assert found == [[each, each["messages"]] for each in inputs]
    assert complaints == []
