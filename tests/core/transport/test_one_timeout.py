"""A number given as `timeout` is the limit of every single wait, and of none that adds up."""

from __future__ import annotations

import pytest

from agui_client import HttpAgent, StreamTooLargeError, Timeouts
from agui_client.testing import serve_bytes, sse, text, turn

TOO_LARGE = r"a frame of at least [0-9]+ bytes exceeds max_event_bytes=2000; raise"


@pytest.mark.parametrize("seconds", [3, 0.5])
def test_one_number_limits_every_wait_and_not_the_whole_run(seconds: float) -> None:
    waits = Timeouts(connect=seconds, first_event=seconds, idle=seconds, after_end=seconds, write=seconds, pool=seconds)
    assert Timeouts.of(seconds) == waits
    assert waits.total == Timeouts().total


@pytest.mark.requirement("SSE-12")
def test_a_frame_that_is_too_large_is_refused_with_its_size_and_the_option() -> None:
    with (
        serve_bytes(sse(turn(text("x" * 5000, chunk=5000)))) as server,
        pytest.raises(StreamTooLargeError, match=TOO_LARGE),
    ):
        HttpAgent(server.url, max_event_bytes=2000).run_agent_sync("Hi")
