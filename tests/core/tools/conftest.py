"""Fixtures of the tests that stop a call while something holds it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agui_client.testing import ScriptedAgent
from support.holding import Holder, Holding
from support.waiting import in_thread


@pytest.fixture
def holding() -> Iterator[Holding]:
    """What holds; it is let go when the test is over."""
    made = Holding()
    yield made
    made.may_end.set()


@pytest.fixture
def made(holder: Holder, holding: Holding) -> ScriptedAgent:
    """An agent with something that holds; made elsewhere, as making it may take a run."""
    return in_thread(lambda: holder(holding))
