"""States that an application edits while a server streams snapshots and patches: nothing is lost unnamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import jsonpatch
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
)
from hypothesis import given
from hypothesis import strategies as st

from agui_client import Change, FunctionAgent, RunObserver
from agui_client.state import Conflict
from agui_client.types import RunScope
from support.json_edits import Values, scalars
from support.verbs import VERBS

Edit = Callable[[Any], Any]
"""Makes another state of a state, which it leaves as it is."""

# A seed: Hypothesis draws in the thread of the test alone, and these runs have others.
seeds = st.integers(0, 2**32).map(Random)
RUNS = 3
names = st.sampled_from(sorted(VERBS))


class Sharing(RunObserver):
    """A server and an application that edit one state, in any order.

    Args:
        random: Decides.
        theirs: The server's edits.
        ours: The application's edits.
        options: Of the agent.
    """

    def __init__(self, random: Random, theirs: Edit, ours: Edit, **options: Any) -> None:
        self.random, self._theirs, self._ours = random, theirs, ours
        self.agent: FunctionAgent[Any] = FunctionAgent(self._serve, observers=[self], **options)
        self.errors: list[Exception] = []
        self.sent: list[Any] = []

    async def _serve(self, run_input: RunAgentInput) -> AsyncIterator[Event]:
        """Answer one run: the server knows what it was sent, and what it made of that."""
        self.sent.append(state := run_input.state)
        ids: dict[str, Any] = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
        yield RunStartedEvent(**ids)
        for _ in range(self.random.randint(0, 5)):
            before, state = state, self._theirs(state)
            if self.random.random() < 0.3:
                yield TextMessageChunkEvent(message_id=run_input.run_id, delta="So.")
            if self.random.random() < 0.4:
                yield StateSnapshotEvent(snapshot=state)
            else:
                delta: Any = jsonpatch.make_patch(before, state).patch
                yield StateDeltaEvent(delta=delta)
        yield RunFinishedEvent(**ids)

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        if self.random.random() < 0.4:
            self.edit()

    def edit(self) -> None:
        """Edit the state as the application."""
        try:
            with self.agent.edit_state() as state:
                after = self._ours(state)
                state.clear()
                state.update(after)
        except Exception as error:
            self.errors.append(error)

    def run(self, verb: str) -> None:
        """Run the agent some times; check that each run is sent what the application saw before."""
        for number in range(RUNS):
            before = self.agent.state
            ending = VERBS[verb](self.agent, "Go")
            assert (ending.error, self.errors) == (None, [])
            assert self.sent[number] == before
            if self.random.random() < 0.3:
                self.edit()


@given(seeds, names)
def test_what_either_side_wrote_is_there_or_was_removed_or_is_named_by_a_conflict(random: Random, verb: str) -> None:
    values, conflicts, removed, written = Values(random), list[Conflict](), Counter[str](), Counter[str]()

    def edited(state: Any) -> Any:
        after = {**state, "root": values.edited(state.get("root"))}
        before, now = scalars(state.get("root")), scalars(after["root"])
        removed.update(before - now)
        written.update(now - before)
        return after

    def settle(conflict: Conflict) -> Any:
        conflicts.append(conflict)
        return conflict.ours if random.random() < 0.5 else conflict.theirs

    root = values.new(4)
    sharing = Sharing(random, edited, edited, initial_state={"root": root}, on_conflict=settle)
    written.update(scalars(root))
    sharing.run(verb)
    there = scalars(sharing.agent.state["root"])
    named = sum((scalars(value) for each in conflicts for value in (each.base, each.ours, each.theirs)), Counter[str]())
    assert set(there) <= set(written)
    assert set(written) - set(there) <= set(removed) | set(named)
    assert set(there) & set(removed) <= set(named)


@given(seeds, names)
def test_edits_of_different_places_all_stand_and_there_is_no_conflict(random: Random, verb: str) -> None:
    rows, ours, theirs = [0, 1], dict[int, int](), dict[int, int]()
    count = 0

    def with_field(state: Any, name: str, values: dict[int, int]) -> Any:
        nonlocal count
        count += 1
        index = random.randrange(len(state["rows"]))
        changed = {**state["rows"][index], name: count}
        values[changed["id"]] = count
        return {**state, "rows": [*state["rows"][:index], changed, *state["rows"][index + 1 :]]}

    def by_server(state: Any) -> Any:
        if random.random() < 0.3:
            rows.append(len(rows))
            return {**state, "rows": [*state["rows"], {"id": rows[-1]}]}
        return with_field({**state, "by_server": len(theirs)}, "theirs", theirs)

    def by_application(state: Any) -> Any:
        if random.random() < 0.3:
            rows.append(len(rows))
            return {**state, "rows": [{"id": rows[-1]}, *state["rows"]]}
        return with_field({**state, "by_application": len(ours)}, "ours", ours)

    def conflict_found(conflict: Conflict) -> Any:
        raise AssertionError(conflict)

    start = {"rows": [{"id": number} for number in rows]}
    sharing = Sharing(random, by_server, by_application, initial_state=start, on_conflict=conflict_found)
    sharing.run(verb)
    found = {row["id"]: (row.get("ours"), row.get("theirs")) for row in sharing.agent.state["rows"]}
    assert found == {number: (ours.get(number), theirs.get(number)) for number in rows}
    assert len(sharing.agent.state["rows"]) == len(rows)
