"""Notebooks: displays of what agents do, chats, and questions to the person at the notebook (extra `notebook`)."""

from agui_client._widgets.views import ShownCall, ShownCustom, renders
from agui_client.notebook.chats import marimo_chat, panel_chat
from agui_client.notebook.handlers import NotebookAnswerer, NotebookApprover
from agui_client.notebook.showing import show

__all__ = [
    "NotebookAnswerer",
    "NotebookApprover",
    "ShownCall",
    "ShownCustom",
    "marimo_chat",
    "panel_chat",
    "renders",
    "show",
]
