"""What a tool gives back, as the content of its message: text, content parts, JSON (TOOL-6)."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from ag_ui.core import AudioPart, DataSource, DocumentPart, ImagePart, TextPart, UrlSource, VideoPart
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agui_client import attach
from agui_client._core.protocol.prompts import content_of


class Unit(Enum):
    CELSIUS = "c"


class Reading(BaseModel):
    air_temperature: float = Field(alias="airTemperature")


@dataclass
class Place:
    name: str
    reading: Reading


SEEN = ImagePart(source=UrlSource(value="http://a/b.png"))
HEARD = AudioPart(source=UrlSource(value="http://a/b.wav"))
READ = DocumentPart(source=UrlSource(value="http://a/b.pdf"))
FILM = VideoPart(source=UrlSource(value="http://a/b.mp4"))
SAID = TextPart(text="There.")


@pytest.mark.requirement("TOOL-6")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        ('{"no": "JSON twice"}', '{"no": "JSON twice"}'),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        ([], "[]"),
        ((1, "two"), '[1,"two"]'),
        ({"ü": None}, '{"ü":null}'),
        ({1: {2}}, '{"1":[2]}'),
        (Reading(airTemperature=18), '{"airTemperature":18.0}'),
        (Place("Oslo", Reading(airTemperature=18)), '{"name":"Oslo","reading":{"airTemperature":18.0}}'),
        ([Unit.CELSIUS, Decimal("1.50")], '["c","1.50"]'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (math.nan, '"NaN"'),
        ([[math.nan], {"a": (math.inf, -math.inf, 1.0)}], '[["NaN"],{"a":["Infinity","-Infinity",1.0]}]'),
        (Reading(airTemperature=math.nan), '{"airTemperature":"NaN"}'),
        (Place("Oslo", Reading(airTemperature=math.inf)), '{"name":"Oslo","reading":{"airTemperature":"Infinity"}}'),
        (b"text", '"text"'),
        (SAID, [SAID]),
        (SEEN, [SEEN]),
        ([SAID, SEEN, HEARD, FILM, READ], [SAID, SEEN, HEARD, FILM, READ]),
        ((SAID,), [SAID]),
    ],
    ids=repr,
)
def test_a_result_is_text_parts_or_json(value: Any, content: Any) -> None:
    assert content_of(value) == content


def test_parts_among_other_values_are_json() -> None:
    assert content_of([SAID, 1]) == '[{"type":"text","text":"There."},1]'


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    "value", [object(), {"a": len}, b"\xff", "half \ud83d", ["half \ud83d"], RING, {1: {object()}}]
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        content_of(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: not isinstance(value, str))
)
def test_json_values_come_out_as_they_went_in(value: Any) -> None:
    assert json.loads(str(content_of(value))) == value


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", ImagePart),
        ("IMAGE/PNG", ImagePart),
        ("audio/wav", AudioPart),
        ("video/mp4", VideoPart),
        ("application/pdf", DocumentPart),
        ("text/plain; charset=utf-8", DocumentPart),
    ],
)
def test_bytes_become_the_part_that_fits_their_type(mime_type: str, kind: type) -> None:
    part = attach(b"\x00\xff", mime_type)
    assert type(part) is kind
    assert isinstance(part.source, DataSource)
    assert (b64decode(part.source.value), part.source.mime_type) == (b"\x00\xff", mime_type)
    assert content_of(part) == [part]


def test_numbers_and_tables_of_numpy_and_pandas_are_results() -> None:
    np: Any = pytest.importorskip("numpy")
    pd: Any = pytest.importorskip("pandas")
    made: list[tuple[Any, str]] = [
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "true"),
        ({"mean": np.int32(2), "all": np.arange(3)}, '{"mean":2,"all":[0,1,2]}'),
        (np.array([[1.5, np.nan]]), '[[1.5,"NaN"]]'),
        ([np.float32("nan"), np.float64("-inf")], '["NaN","-Infinity"]'),
        (pd.Series([1.5, np.nan, np.inf]), '[1.5,null,"Infinity"]'),
        (pd.DataFrame({"a": [1.5, np.nan], "b": [None, "x"]}), '[{"a":1.5,"b":null},{"a":null,"b":"x"}]'),
        (pd.Series([1, 2]), "[1,2]"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), '[{"a":1,"b":"x"},{"a":2,"b":"y"}]'),
        ([pd.Timestamp("2026-01-02")], '["2026-01-02T00:00:00"]'),
    ]
    assert [content_of(value) for value, _ in made] == [content for _, content in made]


def test_an_object_that_only_looks_like_one_of_numpy_has_no_json_form() -> None:
    class Lookalike:
        def tolist(self) -> Lookalike:
            return self

    with pytest.raises(ValueError, match="a value of the type Lookalike has no JSON form"):
        content_of(Lookalike())
