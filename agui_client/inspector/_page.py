"""The inspector: a recording as one HTML page that needs no network, to look at everything that happened and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from agui_client._rendering.inline_parts import escaped_json, hash_source
from agui_client._rendering.surface_html import SURFACE_STYLE
from agui_client._rendering.views import has_views
from agui_client.inspector._rows import Inspection

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices
    from agui_client.recording._reading import Recording

_FOLDER = files("agui_client.inspector") / "page"
_SCRIPTS = ("elements.js", "recording.js", "search.js", "timeline.js", "panels.js", "page.js")
_CUT = "The recording is cut off in the middle of a line."
_EMPTY = "The recording has no requests."


def inspector_page(recording: Recording, *, prices: Prices | None = None) -> bytes:
    """Return a recording as an HTML page, in UTF-8.

    The page shows the events on a timeline, the messages and the state at any moment, tool calls, warnings, requests,
    tokens and, with prices, money. All that the recording has is in it; it loads nothing, and runs no script but its
    own. Views of tools (`@renders`) draw their calls, each in a frame that can do nothing.

    Args:
        prices: The prices of a million tokens by the names of models, as `{"gpt-5": (1.25, 10)}`: of those that go in,
            and of those that come out.
    """
    return b"".join(page_parts(recording, prices=prices))


def page_parts(recording: Recording, *, prices: Prices | None = None) -> tuple[bytes, bytes, bytes]:
    """Return the page of a recording in three parts, of which the second, JSON for a script, has all of the recording.

    Args:
        prices: The prices of a million tokens by the names of models.
    """
    inspection = Inspection(prices)
    rows = [escaped_json(inspection.row(line)) for line in recording.lines]
    notes = [_CUT] if recording.is_cut else []
    return parts_of(rows, recording.path.name, notes if recording.exchanges else [*notes, _EMPTY], prices=prices)


def parts_of(
    rows: Iterable[bytes],
    title: str,
    notes: Sequence[str] = (),
    *,
    is_live: bool = False,
    prices: Prices | None = None,
) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the data of the page with some rows, the data, and what stands behind them.

    Args:
        rows: The rows of an `Inspection`, each as `escaped_json`.
        title: The name of the recording.
        notes: Sentences about it.
        is_live: Whether the page asks its server for further rows.
        prices: The prices that the rows were made with.
    """
    style, script = _file("page.css") + SURFACE_STYLE.encode(), b"\n".join(_file(name) for name in _SCRIPTS)
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {hash_source(script)}"
    # The HTML of views has styles of its own; pictures are those that came by value.
    policy += "; style-src 'unsafe-inline'" if has_views() else f"; style-src {hash_source(style)}"
    policy += "; img-src data:"
    policy += "; connect-src 'self'" if is_live else ""
    facts = escaped_json({"title": title, "live": is_live, "notes": list(notes), "prices": prices})
    data = facts.removesuffix(b"}") + b',"rows":[' + b",\n".join(rows) + b"]}"
    # The parts are filled one by one: the recording may have the name of a part in it.
    before, _, after = _file("page.html").partition(b"{{data}}")
    before = before.replace(b"{{policy}}", policy.encode()).replace(b"{{style}}", style)
    return before, data, after.replace(b"{{script}}", script)


@cache
def _file(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
