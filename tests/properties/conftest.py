"""Settings for the property tests."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run on one event loop: what is drawn here is streams, and test_matrix compares the loops."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Generator[None, None, None]:
    """Thousands of streams log thousands of warnings; here they are looked at where a caller finds them."""
    logger = logging.getLogger("agui_client")
    logger.disabled = True
    yield
    logger.disabled = False
