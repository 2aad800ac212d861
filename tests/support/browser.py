"""Debian's Chromium without a window, driven in a thread of its own: Playwright's calls would take over a test's."""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_LIMIT = 90.0
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
"""Waits until the page has drawn what it was asked for."""


class Chromium:
    """A browser with one page, made in the thread in which it lives.

    Args:
        page: Playwright's.
        thread: That thread.
    """

    def __init__(self, page: Page, thread: ThreadPoolExecutor) -> None:
        self._page, self._thread = page, thread
        self._complaints: list[str] = []
        page.set_default_timeout(_LIMIT / 3 * 1000)
        page.on("console", lambda message: self._complaints.append(message.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))

    def visit(
        self,
        place: Path | str,
        look: Callable[[Page], T],
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1280,
        limit: float = _LIMIT,
    ) -> tuple[T, list[str]]:
        """Open a page, and look at it.

        Args:
            place: A file, or an address.
            look: Called with the page, in the browser's thread.
            scheme: The colours that the system asks for.
            width: The width of the window.
            limit: The most seconds that the look may take.

        Returns:
            The look's result, and everything that the page complained about.
        """

        def visited() -> tuple[T, list[str]]:
            """Do it in the browser's thread."""
            self._page.set_viewport_size({"width": width, "height": 800})
            self._page.emulate_media(color_scheme=scheme)
            self._page.goto(place.as_uri() if isinstance(place, Path) else place)
            try:
                return look(self._page), [*self._complaints]
            finally:  # a page that stayed would complain in the next visit that its server has gone
                self._page.goto("about:blank")

        self._complaints.clear()
        return self._thread.submit(visited).result(limit)


@contextmanager
def chromium() -> Generator[Chromium]:
    """Start Chromium while the block lasts; without it or Playwright, the test is skipped."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the extra `dev` has playwright, which drives the browser"
    )
    place = os.environ.get("AGUI_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if place is None:
        pytest.skip("there is no Chromium here; install Debian's, or name one with AGUI_CHROMIUM")
    with ThreadPoolExecutor(1) as thread:
        driver = thread.submit(lambda: playwright.sync_playwright().start()).result(_LIMIT)
        try:
            # Without a sandbox, as root in a container has none; every page is made by a test.
            options = {"executable_path": place, "args": ["--no-sandbox"], "timeout": _LIMIT * 1000}
            browser = thread.submit(lambda: driver.chromium.launch(**options)).result(_LIMIT)
            try:
                yield thread.submit(lambda: Chromium(browser.new_page(), thread)).result(_LIMIT)
            finally:
                thread.submit(browser.close).result(_LIMIT)
        finally:
            # Playwright begins calls that its own end cuts off before they are awaited.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                thread.submit(driver.stop).result(_LIMIT)
                gc.collect()
