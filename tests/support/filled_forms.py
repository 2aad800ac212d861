"""Fifteen forms as agents ask for them, how people fill each in, and a wrong input with what is said at its field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

Schema: TypeAlias = dict[str, Any]

_MOST_TABS = 80
"""The most presses of Tab from a field to the next that is filled in: past a list of boxes, and parts of a date."""


@dataclass(frozen=True)
class FilledForm:
    """A form, and how a person fills it in.

    Args:
        schema: The schema of the answer.
        steps: Places and what is typed or chosen there, from the first field to the last. A place is a label behind
            the titles of the groups around it, `Guest 1 > Name`; a button, a box or one of several is pressed: "".
        wrong: What is typed at one of the places first, and what is said there.
        answer: The answer that has to arrive.
    """

    schema: Schema
    steps: Sequence[tuple[str, str]]
    wrong: tuple[str, str, str]
    answer: Any


def of(properties: Schema, *needed: str, **more: Any) -> Schema:
    """Make the schema of an object."""
    return {"type": "object", "properties": properties, "required": [*needed], **more}


def local(text: str) -> str:
    """Write a time of day with the zone of this machine, as its browser does."""
    return datetime.fromisoformat(text).astimezone().isoformat()


# --- the models of agents that are written in Python; their words are what pydantic makes of them


class _Model(BaseModel):
    # Defaults of models stand beside fields that are left out.
    model_config = ConfigDict(extra="forbid")


class Card(_Model):
    kind: Literal["card"]
    number: str = Field(pattern=r"^\d{16}$", description="16 digits, without blanks")


class Transfer(_Model):
    kind: Literal["transfer"]
    iban: str = Field(min_length=15, max_length=34)
    owner: str | None = None


class Payment(_Model):
    amount: Decimal = Field(gt=0, decimal_places=2)
    pay: Annotated[Card | Transfer, Field(discriminator="kind")]
    due: date | None = None


class Guest(_Model):
    name: str
    born: date
    seat: Literal["window", "aisle", "any"] = "any"
    bags: int = Field(0, ge=0, le=3)


class Booking(_Model):
    guests: list[Guest] = Field(min_length=1, max_length=4)
    contact: str = Field(json_schema_extra={"format": "email"})


class Point(_Model):
    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)


class Address(_Model):
    street: str
    point: Point


class Office(_Model):
    city: str
    address: Address


class Company(_Model):
    name: str
    office: Office


class Host(_Model):
    id: UUID
    address: str = Field(json_schema_extra={"format": "ipv4"})
    name: str = Field(json_schema_extra={"format": "hostname"})
    port: int = Field(8080, ge=1, le=65535)


class Line(_Model):
    article: str
    count: int = Field(ge=1)
    notes: list[str] = []


class Place(_Model):
    street: str
    code: str = Field(pattern="^[0-9]{4}$")


class Order(_Model):
    lines: list[Line]
    ship_to: Place
    bill_to: Place | None = None


# --- schemas as others write them

_TEXT = {"type": "string"}
_COUNTRIES = [
    *("Austria", "Belgium", "Chile", "Denmark", "Estonia", "Finland", "Germany", "Hungary", "Iceland", "Japan"),
    *("Kenya", "Latvia", "Malta", "Norway", "Oman", "Portugal", "Sweden"),
]
_LANGUAGES = [
    *("Danish", "Dutch", "English", "Estonian", "Finnish", "French", "German", "Greek", "Italian", "Latvian"),
    *("Maltese", "Norwegian", "Polish", "Swedish"),
]
_NODE = of({"name": _TEXT, "parts": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "name")

FORMS: dict[str, FilledForm] = {
    "dates": FilledForm(
        of(
            {
                "leave": {**_TEXT, "format": "date", "title": "Leave on"},
                "checkin": {**_TEXT, "format": "time", "title": "Check in at"},
                "pickup": {**_TEXT, "format": "date-time", "title": "Pick-up"},
                "stay": {**_TEXT, "format": "duration", "title": "Length of stay"},
            },
            "leave",
            "pickup",
            "stay",
        ),
        [
            ("Leave on", "2026-11-24"),
            ("Check in at", "14:30"),
            ("Pick-up", "2026-11-24T14:30"),
            ("Length of stay", "P3D"),
        ],
        ("Length of stay", "3 days", "this is no duration, such as P1DT12H"),
        {"leave": "2026-11-24", "checkin": "14:30:00", "pickup": local("2026-11-24T14:30"), "stay": "P3D"},
    ),
    "money": FilledForm(
        of(
            {
                "price": {"type": "number", "minimum": 0, "unit": "NOK"},
                "currency": {"enum": ["NOK", "EUR", "USD"]},
                "discount": {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.5, "unit": "%"},
                "tip": {"type": "number"},
            },
            "price",
            "currency",
        ),
        [
            ("price (NOK, at least 0)", "129.90"),
            ("currency > EUR", ""),
            ("discount (%, 0 to 100, a multiple of 0.5)", "12.5"),
        ],
        ("price (NOK, at least 0)", "129,90", "write the number with a point"),
        {"price": 129.9, "currency": "EUR", "discount": 12.5},
    ),
    "contact": FilledForm(
        of(
            {
                "name": {**_TEXT, "minLength": 2, "title": "Your name"},
                "mail": {**_TEXT, "format": "email"},
                "phone": {**_TEXT, "pattern": r"^\+[0-9]{8,15}$", "description": "With a plus and the country"},
                "site": {**_TEXT, "format": "uri"},
                "others": {"type": "array", "items": {**_TEXT, "format": "email"}, "title": "Other addresses"},
                "news": {"type": "boolean", "title": "Send me news"},
                "agreed": {"const": True, "title": "I agree to the terms"},
            },
            "name",
            "mail",
            "agreed",
        ),
        [
            ("Your name (at least 2 characters)", "Ann Ødegård"),
            ("mail", "ann@example.org"),
            (r"phone (matching ^\+[0-9]{8,15}$)", "+4712345678"),
            ("site", "https://example.org/ann?a=1"),
            ("Other addresses (one per line)", "a@example.org\nb@example.org"),
            ("I agree to the terms", ""),
        ],
        (r"phone (matching ^\+[0-9]{8,15}$)", "12 34 56", "With a plus and the country"),
        {
            "name": "Ann Ødegård",
            "mail": "ann@example.org",
            "phone": "+4712345678",
            "site": "https://example.org/ann?a=1",
            "others": ["a@example.org", "b@example.org"],
            "agreed": True,
        },
    ),
    "payment": FilledForm(
        Payment.model_json_schema(),
        [
            ("Amount (more than 0)", "1290.10"),
            ("Pay > Pay", "Transfer"),
            ("Pay > Iban (15 to 34 characters)", "NO9386011117947"),
            ("Pay > Owner", "Ann"),
            ("Due", "2027-01-31"),
        ],
        ("Pay > Iban (15 to 34 characters)", "NO93", "needs at least 15 characters"),
        {
            "amount": 1290.1,
            "pay": {"kind": "transfer", "iban": "NO9386011117947", "owner": "Ann"},
            "due": "2027-01-31",
        },
    ),
    "guests": FilledForm(
        Booking.model_json_schema(),
        [
            ("Guests 1 > Name", "Ann"),
            ("Guests 1 > Born", "1990-02-28"),
            ("Guests 1 > Seat", "window"),
            ("Add to Guests", ""),
            ("Guests 2 > Name", "Bob"),
            ("Guests 2 > Born", "2019-12-01"),
            ("Guests 2 > Bags (0 to 3)", "2"),
            ("Contact", "ann@example.org"),
        ],
        ("Guests 2 > Bags (0 to 3)", "9", "must be at most 3"),
        {
            "guests": [
                {"name": "Ann", "born": "1990-02-28", "seat": "window", "bags": 0},
                {"name": "Bob", "born": "2019-12-01", "seat": "any", "bags": 2},
            ],
            "contact": "ann@example.org",
        },
    ),
    "environment": FilledForm(
        of(
            {
                "ports": {"type": "object", "additionalProperties": {"type": "integer"}},
                "labels": {"type": "object", "additionalProperties": _TEXT},
            },
            "ports",
        ),
        [
            ("Add to ports", ""),
            ("ports 1 > Name in ports", "HTTP"),
            ("ports 1 > ports 1", "80"),
            ("Add to ports", ""),
            ("ports 2 > Name in ports", "HTTPS"),
            ("ports 2 > ports 2", "443"),
            ("Add to labels", ""),
            ("labels 1 > Name in labels", "team/one"),
            ("labels 1 > labels 1", "sea"),
        ],
        ("ports 2 > ports 2", "https", "this is not a whole number"),
        {"ports": {"HTTP": 80, "HTTPS": 443}, "labels": {"team/one": "sea"}},
    ),
    "lists": FilledForm(
        of(
            {
                "country": {"enum": _COUNTRIES},
                "languages": {"type": "array", "items": {"enum": _LANGUAGES}, "uniqueItems": True, "minItems": 1},
                "class": {"enum": ["first", "second"]},
            },
            "country",
            "languages",
        ),
        [("country", "norway"), ("languages > English", ""), ("languages > Norwegian", ""), ("class", "second")],
        ("country", "Atlantis", "this is none of the 17 choices"),
        {"country": "Norway", "languages": ["English", "Norwegian"], "class": "second"},
    ),
    "office": FilledForm(
        Company.model_json_schema(),
        [
            ("Name", "Ferries"),
            ("office > City", "Oslo"),
            ("office > address > Street", "Aker brygge 1"),
            ("office > address > point > Latitude (-90 to 90)", "59.91"),
            ("office > address > point > Longitude (-180 to 180)", "10.72"),
        ],
        ("office > address > point > Latitude (-90 to 90)", "91", "must be at most 90"),
        {
            "name": "Ferries",
            "office": {
                "city": "Oslo",
                "address": {"street": "Aker brygge 1", "point": {"latitude": 59.91, "longitude": 10.72}},
            },
        },
    ),
    "tree": FilledForm(
        {**_NODE, "$defs": {"node": _NODE}},
        [
            ("name", "boat"),
            ("Add to parts", ""),
            ("parts 1 > name", "engine"),
            ("parts 1 > parts > Add to parts", ""),
            ("parts 1 > parts > parts 1 > name", "pump"),
            ("parts 1 > parts > parts 1 > parts > Add to parts", ""),
            ("parts 1 > parts > parts 1 > parts > parts 1 > name", "seal"),
        ],
        ("parts 1 > parts > parts 1 > parts > parts 1 > name", "", "this cannot be left out"),
        {"name": "boat", "parts": [{"name": "engine", "parts": [{"name": "pump", "parts": [{"name": "seal"}]}]}]},
    ),
    "review": FilledForm(
        of(
            {
                "order": {**_TEXT, "default": "A-17", "readOnly": True},
                "stars": {"type": "integer", "minimum": 1, "maximum": 5},
                "text": {**_TEXT, "maxLength": 1000},
                "again": {"type": ["boolean", "null"], "title": "Would you come again?"},
                "tags": {"type": "array", "items": _TEXT, "maxItems": 3},
            },
            "stars",
            "text",
        ),
        [
            ("stars (1 to 5)", "4"),
            ("text (at most 1000 characters)", "The crew was kind.\n\nThe soup was not."),
            ("Would you come again?", "yes"),
            ("tags (one per line, at most 3 entries)", "sea, and sun\nsoup"),
        ],
        ("stars (1 to 5)", "6", "must be at most 5"),
        {
            "order": "A-17",
            "stars": 4,
            "text": "The crew was kind.\n\nThe soup was not.",
            "again": True,
            "tags": ["sea, and sun", "soup"],
        },
    ),
    "host": FilledForm(
        Host.model_json_schema(),
        [
            ("Id", "123e4567-e89b-12d3-a456-426614174000"),
            ("Address", "192.0.2.1"),
            ("Name", "a.example.org"),
            ("Port (1 to 65535)", "443"),
        ],
        ("Address", "192.0.2.256", "this is no IPv4 address, such as 192.0.2.1"),
        {"id": "123e4567-e89b-12d3-a456-426614174000", "address": "192.0.2.1", "name": "a.example.org", "port": 443},
    ),
    "order": FilledForm(
        Order.model_json_schema(),
        [
            ("Add to Lines", ""),
            ("Lines 1 > Article", "Rope"),
            ("Lines 1 > Count (at least 1)", "2"),
            ("Lines 1 > Notes (one per line)", "blue\n10 m"),
            ("Add to Lines", ""),
            ("Lines 2 > Article", "Buoy"),
            ("Lines 2 > Count (at least 1)", "1"),
            ("ship_to > Street", "Main St 1"),
            ("ship_to > Code (matching ^[0-9]{4}$)", "0150"),
            ("Add bill_to", ""),
            ("bill_to > Street", "Side St 2"),
            ("bill_to > Code (matching ^[0-9]{4}$)", "5003"),
        ],
        ("bill_to > Code (matching ^[0-9]{4}$)", "50 03", "must match ^[0-9]{4}$"),
        {
            "lines": [
                {"article": "Rope", "count": 2, "notes": ["blue", "10 m"]},
                {"article": "Buoy", "count": 1, "notes": []},
            ],
            "ship_to": {"street": "Main St 1", "code": "0150"},
            "bill_to": {"street": "Side St 2", "code": "5003"},
        },
    ),
    "area": FilledForm(
        of(
            {
                "centre": {
                    "type": "array",
                    "prefixItems": [{"type": "number", "title": "East"}, {"type": "number", "title": "North"}],
                    "items": False,
                    "minItems": 2,
                },
                "corners": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
                },
            },
            "centre",
        ),
        [
            ("centre > East", "10.7"),
            ("centre > North", "-59.9"),
            ("Add to corners", ""),
            ("corners 1 > corners 1 (one per line, 2 entries)", "1.5\n2"),
        ],
        ("centre > North", "south", "this is not a number"),
        {"centre": [10.7, -59.9], "corners": [[1.5, 2]]},
    ),
    "meeting": FilledForm(
        of(
            {
                "subject": {**_TEXT, "default": "Weekly"},
                "who": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "anyOf": [
                            {"title": "By address", **_TEXT, "format": "email"},
                            of({"team": _TEXT, "optional": {"type": "boolean"}}, "team", title="A team"),
                        ]
                    },
                },
                "repeats": {
                    "oneOf": [
                        {"type": "null"},
                        of(
                            {"every": {"const": "week"}, "days": {"type": "integer", "minimum": 1}},
                            "every",
                            "days",
                            title="Weekly",
                        ),
                        of(
                            {"every": {"const": "month"}, "day": {"type": "integer", "maximum": 31}},
                            "every",
                            "day",
                            title="Monthly",
                        ),
                    ]
                },
            },
            "who",
        ),
        [
            ("who 1 > who 1", "By address"),
            ("who 1 > By address", "ann@example.org"),
            ("Add to who", ""),
            ("who 2 > who 2", "A team"),
            ("who 2 > team", "Harbour"),
            ("who 2 > optional", ""),
            ("repeats > repeats", "Monthly"),
            ("repeats > day (at most 31)", "24"),
        ],
        ("who 1 > By address", "ann", "this is no e-mail address, such as ann@example.org"),
        {
            "subject": "Weekly",
            "who": ["ann@example.org", {"team": "Harbour", "optional": True}],
            "repeats": {"every": "month", "day": 24},
        },
    ),
    "claim": FilledForm(
        {
            "allOf": [{"$ref": "#/$defs/base"}],
            **of(
                {
                    "severity": {"oneOf": [{"const": 1, "title": "A scratch"}, {"const": 2, "title": "A hole"}]},
                    "damages": {
                        "type": "array",
                        "items": of(
                            {
                                "what": _TEXT,
                                "cost": {"anyOf": [{"type": "number"}, {"type": "string"}], "unit": "EUR"},
                                "photos": {"type": "array", "items": {**_TEXT, "format": "uri"}},
                            },
                            "what",
                            "cost",
                        ),
                    },
                },
                "severity",
            ),
            "$defs": {"base": of({"policy": {**_TEXT, "pattern": "^[A-Z]{2}-[0-9]+$"}}, "policy")},
        },
        [
            ("severity > A hole", ""),
            ("Add to damages", ""),
            ("damages 1 > what", "Hull"),
            ("damages 1 > cost (EUR)", "12345678901234567.89"),
            ("damages 1 > photos (one per line)", "https://example.org/1.png"),
            ("policy (matching ^[A-Z]{2}-[0-9]+$)", "NO-17"),
        ],
        ("damages 1 > photos (one per line)", "1.png", "entry 1: this is no address"),
        {
            "severity": 2,
            "damages": [{"what": "Hull", "cost": "12345678901234567.89", "photos": ["https://example.org/1.png"]}],
            "policy": "NO-17",
        },
    ),
}


# --- hands: a mouse that clicks on what is to be filled in, and a keyboard that goes there from field to field


def fill_in(page: Page, name: str, pictures: Path, *, by_mouse: bool) -> str:
    """Fill in a form that is open, send it with its wrong input, correct that, and send it again.

    Args:
        page: The page, with the focus on the form.
        name: The name of the form, which its question has.
        pictures: The directory for a picture of the form with its wrong input.
        by_mouse: Whether each field is clicked; with the keyboard alone, Tab goes there.

    Returns:
        What was wrong with the form; empty for nothing.
    """
    form, panel = FORMS[name], page.locator(".agui-panel").filter(has=page.get_by_text(f"Fill in: {name}."))
    panel.wait_for()
    wrong_place, wrong_text, told = form.wrong
    answer = panel.get_by_role("button", name="Answer", exact=True)
    for place, text in form.steps:
        _enter(page, at(panel, place), wrong_text if place == wrong_place else text, by_mouse=by_mouse)
    if by_mouse:
        answer.click()
    else:
        _tab_to(page, answer)
        page.keyboard.press("Enter")
    field = at(panel, wrong_place)
    panel.locator("[aria-invalid=true]").first.wait_for()
    panel.screenshot(path=pictures / f"form_{name}_{'mouse' if by_mouse else 'keyboard'}.png")
    wrong = panel.locator("[aria-invalid=true]")
    said = page.locator(f"[id='{(field.get_attribute('aria-describedby') or '').split(' ')[-1]}']").inner_text()
    is_there = wrong.count() == 1 and field.get_attribute("aria-invalid") == "true" and _has_focus(field)
    boxes = panel.locator("textarea.agui-mono").count()
    faults = [f"{name}: {said!r} is said"] * (told not in said) + [f"{name}: not at the field alone"] * (not is_there)
    faults += [f"{name}: has {boxes} boxes for JSON"] * bool(boxes)
    _enter(page, field, dict(form.steps)[wrong_place], by_mouse=by_mouse)
    if by_mouse:
        answer.click()
    else:
        page.keyboard.press("Control+Enter")
    panel.wait_for(state="hidden")
    return "; ".join(faults)


def at(panel: Locator, place: str) -> Locator:
    """Find a field, a button or a box by its label, behind the titles of the groups around it."""
    *around, label = place.split(" > ")
    for title in around:
        group = panel.get_by_role("group", name=title, exact=True)
        panel = group.or_(panel.get_by_role("radiogroup", name=title, exact=True))
    return panel.get_by_label(re.compile(f"^{re.escape(label)}( \\*)?$"))


def _enter(page: Page, field: Locator, text: str, *, by_mouse: bool) -> None:
    kind = field.evaluate("each => each.tagName === 'INPUT' ? each.type : each.tagName.toLowerCase()")
    is_date = kind in ("date", "time", "datetime-local")
    if by_mouse:
        field.click(position={"x": 14, "y": 14} if is_date else None)  # the first part of a date
    else:
        _tab_to(page, field, is_radio=kind == "radio")
    if kind == "select":
        _choose(page, field, text, by_mouse=by_mouse)
    elif kind in ("button", "checkbox", "radio"):
        if not by_mouse:
            page.keyboard.press("Enter" if kind == "button" else "Space")
    elif is_date:
        for key in _date_keys(text, kind):
            page.keyboard.press(key)
    else:
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(text)


def _choose(page: Page, field: Locator, title: str, *, by_mouse: bool) -> None:
    if by_mouse:  # the list of a browser is no part of the page
        field.select_option(label=title)
        return
    page.keyboard.press("Home")
    for _ in range(field.locator("option").count()):
        if field.evaluate("each => each.selectedOptions[0].textContent") == title:
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"the keys do not reach {title}")


def _date_keys(text: str, kind: str) -> list[str]:
    """Write a date and a time as they are typed in English."""
    day, _, clock = ("", "", text) if kind == "time" else text.partition("T")
    year, month, number = day.split("-") if day else ("", "", "")
    keys = [*month, *number, *year]
    if clock:
        keys += ["ArrowRight"] if day else []
        keys += [*datetime.fromisoformat(f"2000-01-01T{clock}").strftime("%I%M%p")]
    return keys


def _tab_to(page: Page, field: Locator, *, is_radio: bool = False) -> None:
    for _ in range(_MOST_TABS):
        if _has_focus(field):
            return
        is_near = is_radio and field.evaluate("each => document.activeElement.name === each.name")
        page.keyboard.press("ArrowDown" if is_near else "Tab")
    raise AssertionError(f"Tab does not reach {field}")


def _has_focus(field: Locator) -> bool:
    has: bool = field.evaluate("each => each === document.activeElement")
    return has
