"""A chat as one HTML file, to be kept or sent: it loads nothing, and runs no script.

To change

- the file that a chat is saved in: `html_page` here; `notebook/_content.py` has its elements
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.run.result import RunResult
from agui_client._rendering.escaping import exact
from agui_client._rendering.story import Speakers, calls_in
from agui_client.a2ui import Surfaces
from agui_client.notebook._content import closing_lines, conversation, elements_of, state_fold, waiting_lines
from agui_client.notebook._elements import Element, page

if TYPE_CHECKING:
    from ag_ui.core import Message

_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; img-src data:"
"""Views have styles of their own; pictures are those that came by value."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body>
{body}
</body>
</html>
"""
_STYLE = "body{margin:16px auto;max-width:760px;padding:0 12px}"


def html_page(
    shown: RunResult | AbstractAgent | ConversationSnapshot | Sequence[Message], *, title: str = "Chat"
) -> bytes:
    """Return a chat as one HTML page, in UTF-8: `Path("chat.html").write_bytes(html_page(agent))`.

    All messages are in it, with tool calls as their views draw them, surfaces, the state and what waits for an answer.

    Args:
        shown: A result, whose whole conversation is saved; an agent; a snapshot of a conversation; or messages.
        title: The title of the page.

    Raises:
        UsageError: There is no display of such an object.
    """
    return document(title, f"<style>{_STYLE}</style>{page(_elements(shown))}")


def document(title: str, body: str) -> bytes:
    """Write an HTML page that runs no script and loads nothing."""
    return _PAGE.format(policy=_POLICY, title=html.escape(exact(title)), body=body).encode()


def _elements(shown: RunResult | AbstractAgent | ConversationSnapshot | Sequence[Message]) -> list[Element]:
    match shown:
        case RunResult():
            speakers = Speakers(shown.subagents)
            calls = calls_in(shown.messages, shown.tool_executions, shown.answered, speakers)
            chat = conversation(shown.messages, calls, speakers=speakers, most=None)
            return [*chat, *elements_of(Surfaces(shown.messages)), *state_fold(shown.state), *closing_lines(shown)]
        case AbstractAgent():
            return [*_elements(shown.snapshot()), *waiting_lines((), shown.pending_tool_calls)]
        case ConversationSnapshot():
            calls = calls_in(shown.messages, records=shown.tool_calls)
            chat = conversation(shown.messages, calls, most=None)
            rest = [*state_fold(shown.state), *waiting_lines(shown.pending_interrupts)]
            return [*chat, *elements_of(Surfaces(shown.messages)), *rest]
        case _:
            return [*conversation(shown, most=None), *elements_of(Surfaces(shown))]
