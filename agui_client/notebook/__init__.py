"""Notebooks: displays of what agents do, chats, and questions to the person at the notebook (extra `notebook`)."""

from agui_client._rendering.views import ShownCall, ShownCustom, renders
from agui_client.notebook._app_page import opened
from agui_client.notebook._chats import marimo_chat, panel_chat
from agui_client.notebook._handlers import NotebookAnswerer, NotebookApprover
from agui_client.notebook._pressing import pressed
from agui_client.notebook._saving import html_page
from agui_client.notebook._showing import show

__all__ = [
    "NotebookAnswerer",
    "NotebookApprover",
    "ShownCall",
    "ShownCustom",
    "html_page",
    "marimo_chat",
    "opened",
    "panel_chat",
    "pressed",
    "renders",
    "show",
]
