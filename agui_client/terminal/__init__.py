"""Approval and answers at a terminal, for scripts: `approve=TerminalApprover()`, `answer=TerminalAnswerer()`.

These are the classes that the command line uses; they need the extra `cli`.
"""

try:
    from agui_client.terminal._handlers import TerminalAnswerer, TerminalApprover
except ModuleNotFoundError as _missing:
    raise ImportError("agui_client.terminal needs its extra: pip install 'agui-client[cli]'") from _missing

__all__ = ["TerminalAnswerer", "TerminalApprover"]
