"""Close event generators where they are used, not when they are garbage-collected."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def closing(source: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """Iterate inside the block; leaving it closes the source, if it can be closed."""
    try:
        yield source
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
