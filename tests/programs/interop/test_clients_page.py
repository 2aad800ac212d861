"""docs/callers.md says what clients that others wrote have shown."""

from __future__ import annotations

import re
from pathlib import Path

from programs.interop.clients.stories import CLIENTS, STORIES

PAGE = (Path(__file__).parents[3] / "docs" / "callers.md").read_text("utf-8")
SECTION = PAGE.partition("## Clients that others wrote")[2].partition("\n## ")[0]


def test_the_table_of_clients_says_what_their_users_see() -> None:
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", SECTION, re.MULTILINE)]
    marks = {
        story: ["yes" if told.shown in client.expected(story) else "no" for client in CLIENTS.values()]
        for story, told in STORIES.items()
    }
    assert rows[2:] == [[story, *cells] for story, cells in marks.items()]
    assert all(name in head.lower() for name, head in zip(CLIENTS, rows[0][1:], strict=True))
