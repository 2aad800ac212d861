"""People at a terminal, ready-made, for scripts: `approve=TerminalApprover()`, `answer=TerminalAnswerer()`.

The command line's own, under a public name; needs its extra, `cli`.
"""

try:
    from agui_client._cli.people import TerminalAnswerer, TerminalApprover
except ModuleNotFoundError as missing:
    raise ImportError("agui_client.terminal needs its extra: pip install 'agui-client[cli]'") from missing

__all__ = ["TerminalAnswerer", "TerminalApprover"]
