"""The functions and files that an event, a report and an answer pass through: as few as a reader can follow."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator

import pytest

from programs.benchmarks.calls import one_answer, one_delta, one_report


@pytest.fixture(autouse=True)
def no_profile_is_left() -> Generator[None]:
    """End the counting also where it fails half-way."""
    yield
    sys.setprofile(None)


@pytest.mark.skipif("AGUI_CLIENT_FAST" in os.environ, reason="its reads pass through files of their own")
def test_a_piece_of_text_passes_twelve_functions_in_eight_files_at_most() -> None:
    passed = asyncio.run(one_delta())
    assert 0 < len(passed.functions) <= 12, passed
    assert len(passed.files) <= 8, passed


def test_a_report_of_a_tool_reaches_an_observer_through_four_files_at_most() -> None:
    passed = asyncio.run(one_report())
    assert 0 < len(passed.files) <= 4, passed


def test_answers_to_interrupts_reach_the_request_through_fifteen_files_at_most() -> None:
    passed = asyncio.run(one_answer())
    assert 0 < len(passed.files) <= 15, passed
