"""Stores of tests: threads in a database by themselves, and the keywords of apps whose callers are one owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client.store import Keeping

if TYPE_CHECKING:
    from agui_client.store._sql.threads import SQLStore

FOR_ALL: dict[str, Any] = {"owner_of": lambda _caller: "", "keeping": Keeping(threads="transcripts")}  # pyright: ignore[reportUnknownLambdaType]
"""All callers are one owner, who has the conversations."""


def sql_store(url: str) -> SQLStore:
    """Return the threads of a database."""
    from agui_client.store._sql.database import Database
    from agui_client.store._sql.threads import SQLStore

    return SQLStore(Database(url))
