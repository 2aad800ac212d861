"""What is handed out never changes: messages, states and events, whoever looked at them and whenever."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import anyio
import pytest
from ag_ui.core import Event
from hypothesis import given
from hypothesis import strategies as st

from agui_client import Reducer, RunFailedError
from weaves import Weave, as_json, encoded, exact, judged, spoil, weave
from weaves.memory import Server, framed

randoms = st.randoms(use_true_random=False)
weaves = randoms.map(weave)


class Album:
    """Looks at a reducer now and then, and remembers what it looked like."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kept: list[tuple[Any, Any]] = []

    def look(self, event: Event, reducer: Reducer) -> None:
        match self._random.randrange(6):
            case 0:
                self.keep([event])
            case 1:
                self.keep([reducer.messages, reducer.state])
            case 2:
                self.keep([reducer.message(f"m{self._random.randrange(4)}")])
            case 3:
                self.keep([reducer.tool_call(f"c{self._random.randrange(4)}")])
            case 4:
                self.keep([reducer.text_of(f"m{self._random.randrange(4)}")])
            case _:
                pass

    def keep(self, handed_out: Any) -> None:
        self._kept.append((handed_out, copy.deepcopy(plain(handed_out))))

    def expect_unchanged(self) -> None:
        for handed_out, then in self._kept:
            assert exact(plain(handed_out)) == exact(then)


def plain(value: Any) -> Any:
    """Models as JSON, everything else as it is."""
    if isinstance(value, list):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return as_json(value) if hasattr(value, "model_dump") else value


@given(random=randoms)
def test_what_was_looked_at_stays_as_it_was_and_looking_changes_nothing(random: Random) -> None:
    events = weave(random).events
    frames = spoil(random, events).frames if random.randrange(2) else [encoded(event) for event in events]
    album = Album(random)
    verdict = judged(frames, look=album.look)
    album.expect_unchanged()
    assert exact(list(verdict.comparable)) == exact(list(judged(frames).comparable))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(woven=weaves)
def test_the_snapshots_of_a_run_stay_as_they_were(backend: str, woven: Weave) -> None:
    album, agent = Album(Random()), Server([framed(encoded(event) for event in woven.events)]).agent()

    async def taken() -> None:
        async with agent.stream(run_id="run-1") as run:
            async for snapshot in run.snapshots:
                album.keep([snapshot.event, snapshot.messages, snapshot.state])
                album.keep([run.partial.messages, run.partial.state])

    try:
        anyio.run(taken, backend=backend)
    except RunFailedError:
        assert woven.has_failed
    agent.set_state({"the caller's": [1]})
    album.expect_unchanged()
