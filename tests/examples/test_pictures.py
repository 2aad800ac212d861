"""The pictures of README and docs are drawn from what the package makes today, and are small."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("playwright.sync_api")
pytest.importorskip("markdown_it", reason="the pictures show Markdown as HTML")
from support.made_pages import PICTURE
from support.pictures import DOCS, MOST_BYTES, PICTURES, drawn_from, hash_of

ANEW = "draw it anew: PYTHONPATH=.:tests python -m support.pictures"


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_picture_is_drawn_from_the_page_as_it_is(name: str) -> None:
    make, scheme, _ = PICTURES[name]
    assert drawn_from((DOCS / name).read_bytes()) == hash_of(make(scheme)), ANEW


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_picture_is_small(name: str) -> None:
    assert (DOCS / name).stat().st_size <= MOST_BYTES


def test_no_line_of_the_picture_of_the_demo_is_cut_off() -> None:
    drawn = PICTURE.read_text("utf-8")
    window = re.search(r'clip-terminal">\s*<rect x="0" y="0" width="[\d.]+" height="([\d.]+)"', drawn)
    assert window is not None
    places = re.findall(r'<text [^>]* y="([\d.]+)" [^>]*clip-path="url\(#demo-line-[^>]*>[^<\s]', drawn)
    # A line stands on its place, and its letters reach some units below.
    assert max(map(float, places)) + 10 <= float(window[1])
