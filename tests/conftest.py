"""Fixtures and settings for every test."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The machines that run this are small and shared: a slow example is no failure.
# Where a submission is judged, the same examples are drawn each time.
settings.register_profile("unhurried", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("unhurried")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each `anyio` test on both event loops; a module that needs one of them overrides this."""
    backend: str = request.param
    return backend
