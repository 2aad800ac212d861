"""Notebooks: displays of what agents did, and questions to the person at the notebook (extra `notebook`)."""

from agui_client.notebook.handlers import NotebookAnswerer, NotebookApprover

__all__ = ["NotebookAnswerer", "NotebookApprover"]
