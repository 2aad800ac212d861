"""The chat page of a served agent: one HTML page of this package, for the callers that the app lets in.

The page needs no network but the app that serves it, and runs no script but its own. It asks the app to draw the forms
of questions, and to read what was typed in them, so that they are those of notebooks and terminals.

To change

- what the chat page shows and does: `asgi/page/`, plain scripts that are put into `page.html` as they are
- what a page may ask beside runs: `ChatPage.commands` here
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from ag_ui.core import Interrupt
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from agui_client._core.tools.interrupts import cover
from agui_client._rendering.escaping import sentence
from agui_client._rendering.forms import FormError, said
from agui_client._rendering.inline_parts import escaped_json, hash_source
from agui_client._rendering.interrupt_questions import InterruptQuestion
from agui_client._rendering.style import FORM_STYLE, STYLE
from agui_client._rendering.surface_html import SURFACE_STYLE
from agui_client.asgi._page_surfaces import AskedSurfaces, drawn_surfaces
from agui_client.asgi._request_body import command_validator, parsed
from agui_client.errors import InterruptsNotCoveredError
from agui_client.mcp_apps._frame import POLICY, frame_document, host_script

if TYPE_CHECKING:
    from agui_client._serving.served_request import ServedRequest
    from agui_client.asgi._run_addresses import Command

_PACKAGE = files("agui_client")
_SCRIPTS = ("markdown", "thread", "versions", "connection", "drawing", "questions", "surfaces", "apps", "page")
"""The scripts of the page, in one block behind `elements.js` of the inspector."""
_QUESTION = ("notebook/keys.js", "notebook/presses.js", "notebook/adopted.js", "notebook/question.js")
"""The scripts of questions, which are a module of their own, as in notebooks."""
_SURFACE = ("notebook/keys.js", "notebook/presses.js", "notebook/surface.js")
"""The scripts of surfaces, the same."""


_FRAME = "/app-frame"
"""The end of the path of the frame for pages of tools."""
_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class _AskedForm(BaseModel):
    """The body of a request for the form of a question: what is asked, and what was pressed and typed if anything."""

    model_config = ConfigDict(alias_generator=to_camel)

    interrupt: Interrupt
    arguments: str | None = None
    pressed: str | None = None
    values: dict[str, str] = {}


_validated = command_validator(_AskedForm)
_validated_surfaces = command_validator(AskedSurfaces)


class ChatPage:
    """The page, and its requests that are about no run.

    Args:
        can_rewind: Whether callers may go back to an earlier message.
        keep_alive: Seconds of silence after which the app sends a comment.
        max_body_bytes: The largest request body that is accepted, in bytes.
    """

    def __init__(self, title: str, *, can_rewind: bool, keep_alive: float, max_body_bytes: int) -> None:
        self._facts = {"title": title, "canRewind": can_rewind, "keepAlive": keep_alive}
        self._max_body_bytes = max_body_bytes
        self.commands: Mapping[str, Command] = {"/form": self._form, "/surfaces": self._surfaces}
        """The functions that respond to requests with JSON, by the ends of their paths."""

    def response(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """Return the page, or the frame for a page of a tool, in UTF-8, and the headers of the response.

        Args:
            path: The path that was asked for.
        """
        if path.endswith(_FRAME):
            # The frame has an opaque origin on any page.
            policy = f"{POLICY}; sandbox allow-scripts; frame-ancestors 'self'"
            return frame_document().encode(), {**_HEADERS, "content-security-policy": policy}
        return self._page()

    def _page(self) -> tuple[bytes, Mapping[str, str]]:
        parts = _parts()
        policy = {
            "default-src": "'none'",
            "script-src": " ".join(hash_source(parts[name]) for name in ("question", "surface", "script")),
            # The scripts of questions and surfaces make style sheets of their own, which are empty here.
            "style-src": f"{hash_source(parts['style'])} {hash_source(b'')}",
            "connect-src": "'self'",
            "img-src": "data:",
            "frame-src": "'self'",
            **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
        }
        page = _file("asgi/page/page.html")
        for name, part in {**parts, "facts": escaped_json(self._facts)}.items():
            page = page.replace(b"{{%b}}" % name.encode(), part, 1)
        rules = "; ".join(f"{name} {value}" for name, value in policy.items())
        return page, {**_HEADERS, "content-security-policy": rules}

    async def _form(self, request: ServedRequest, body: bytes) -> Any:
        """Return the form of a question, or the answer that was pressed, or the problems that it has."""
        asked = await parsed(body, _validated, max_bytes=self._max_body_bytes)
        # The schema is an agent's, and may take a while to check.
        return await anyio.to_thread.run_sync(partial(_pressed if asked.pressed is not None else _shown, asked))

    async def _surfaces(self, request: ServedRequest, body: bytes) -> Any:
        """Return the surfaces in messages as HTML, and the action of a button that was pressed."""
        asked = await parsed(body, _validated_surfaces, max_bytes=self._max_body_bytes)
        return await anyio.to_thread.run_sync(partial(drawn_surfaces, asked))


def _shown(asked: _AskedForm) -> dict[str, Any]:
    question = InterruptQuestion(asked.interrupt, asked.arguments)
    return {
        "question": sentence(question.text),
        **question.drawn,
        "choices": [asdict(each) for each in question.buttons],
    }


def _pressed(asked: _AskedForm) -> dict[str, Any]:
    interrupt = asked.interrupt
    try:
        answer = InterruptQuestion(interrupt, asked.arguments).answer(asked.pressed or "", asked.values)
        entries = cover([interrupt], {interrupt.id: answer})
    except FormError as error:
        return {"problem": said(error), "problems": {name: sentence(text) for name, text in error.problems.items()}}
    except InterruptsNotCoveredError as error:
        return {"problem": sentence(str(error)), "problems": {}}
    return {"entry": entries[0].model_dump(mode="json", by_alias=True, exclude_none=True)}


@cache
def _parts() -> dict[str, bytes]:
    """Return the parts of the page that are the same for each app, by the names of their places."""
    paths = ("inspector/page/elements.js", *(f"asgi/page/{name}.js" for name in _SCRIPTS))
    script = b"\n".join((host_script().encode(), *map(_file, paths)))
    question = b"\n".join((*map(_file, _QUESTION), b"globalThis.drawQuestion = render;\n"))
    surface = b"\n".join((*map(_file, _SURFACE), b"globalThis.drawSurface = render;\n"))
    style = (STYLE + FORM_STYLE + SURFACE_STYLE).encode() + _file("asgi/page/page.css")
    return {"style": style, "question": question, "surface": surface, "script": script}


@cache
def _file(path: str) -> bytes:
    return _PACKAGE.joinpath(path).read_bytes()
