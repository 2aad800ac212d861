"""Terminals: what runs show there, and approval and answers: `approve=TerminalApprover()`, `answer=TerminalAnswerer()`.

These are the classes that the command line uses; they need the extra `cli`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agui_client.terminal._handlers import TerminalAnswerer, TerminalApprover

__all__ = ["TerminalAnswerer", "TerminalApprover"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("agui_client.terminal._handlers"), name)
    except ModuleNotFoundError as missing:
        raise ImportError("agui_client.terminal needs its extra: pip install 'agui-client[cli]'") from missing
