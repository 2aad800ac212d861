"""The modules that are public, and their names: CONTRIBUTING.md says what that promises."""

from __future__ import annotations

from importlib import import_module

PUBLIC_MODULES = (
    "agui_client",
    "agui_client.a2ui",
    "agui_client.adapters",
    "agui_client.asgi",
    "agui_client.aws",
    "agui_client.batch",
    "agui_client.demo",
    "agui_client.doctor",
    "agui_client.errors",
    "agui_client.evaluation",
    "agui_client.fast",
    "agui_client.inspector",
    "agui_client.llm",
    "agui_client.mcp",
    "agui_client.mcp_apps",
    "agui_client.notebook",
    "agui_client.reconnect",
    "agui_client.recording",
    "agui_client.state",
    "agui_client.store",
    "agui_client.teams",
    "agui_client.terminal",
    "agui_client.testing",
    "agui_client.testing.faults",
    "agui_client.types",
)


def public_names(module: str) -> list[str]:
    """Return the public names of a public module: its `__all__`, or what it imports as itself."""
    there = import_module(module)
    # pytest adds names of its own to the modules of an installed plugin.
    named = [name for name in vars(there) if name.isidentifier() and not name.startswith("_")]
    return getattr(there, "__all__", None) or named
