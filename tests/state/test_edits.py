"""Edits of the state, between runs and in the middle of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from ag_ui.core import StateDeltaEvent, StateSnapshotEvent, TextMessageEndEvent

from agui_client import (
    ConversationSnapshot,
    FunctionAgent,
    HookContext,
    HttpAgent,
    IncompleteRunError,
    Mutation,
    Subscriber,
    SyncAgentRun,
    UsageError,
    tool,
)
from agui_client.errors import RunFailedError
from agui_client.state import ABSENT, Conflict, StateConflictError
from agui_client.testing import Reply, ScriptedAgent, patch, serve_bytes, sse, state, text, tool_call, turn
from support.state_edits import After, Leg, Trip
from support.verbs import Verb, every_result_verb, every_verb

START = {"budget": 1, "legs": [{"to": "Oslo", "price": 3, "via": "sea"}], "seen": 0}
DEAR = patch({"op": "replace", "path": "/legs/0/price", "value": 9})


def planner(*steps: Any, **options: Any) -> ScriptedAgent[Trip]:
    """An agent that takes these steps in its first run, and says "Done." in the next."""
    return ScriptedAgent(turn(*steps), turn(text("Done.")), initial_state=START, state_model=Trip, **options)


def spend(agent: ScriptedAgent[Trip], budget: int) -> Callable[[], None]:
    """A function that edits the budget."""

    def edit() -> None:
        with agent.edit_state() as trip:
            trip.budget = budget

    return edit


# --- between runs


def test_a_block_is_entered_once_at_a_time() -> None:
    agent = planner()
    edit = agent.edit_state()
    with edit as trip:
        trip.budget = 5
        with pytest.raises(UsageError, match="this edit of the state is open already"), edit:
            pass
    assert agent.state["budget"] == 5
    with edit as trip:
        trip.budget += 1
    assert agent.state["budget"] == 6


def test_a_conflict_of_whole_states_says_so() -> None:
    agent: ScriptedAgent[Any] = ScriptedAgent(turn(text("Hi")), initial_state=[1], on_conflict="raise")

    def edit() -> None:
        with agent.edit_state() as numbers:
            numbers.append(2)
            agent.set_state({"numbers": 3})

    with pytest.raises(StateConflictError, match="edited here, at the whole state; nothing was changed") as raised:
        edit()
    assert [each.path for each in raised.value.conflicts] == [""]


@every_verb
def test_an_edit_between_runs_goes_out_with_the_next(verb: Verb) -> None:
    agent = planner(text("Hi"))
    with agent.edit_state() as trip:
        trip.budget = 900
        trip.legs.insert(0, Leg(to="Rome"))
    expected = {**START, "budget": 900, "legs": [{"to": "Rome", "price": 0.0}, *START["legs"]]}  # type: ignore[misc]
    assert agent.state == expected
    assert verb(agent, "Go").error is None
    assert agent.inputs[0].state == agent.state == expected


def test_an_exception_in_the_block_discards_the_edit() -> None:
    agent = planner()

    def edit() -> None:
        with agent.edit_state() as trip:
            trip.budget = 900
            raise KeyError

    with pytest.raises(KeyError):
        edit()
    assert agent.state == START


def test_an_edit_that_does_not_fit_the_model_changes_nothing_and_names_the_place() -> None:
    agent = planner()
    block = agent.edit_state()
    with pytest.raises(UsageError, match=r"does not fit Trip: /legs/0/price: .*nothing was changed"), block as trip:
        trip.legs[0].price = "dear"  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"cannot be written as JSON: .*nothing was changed"), block as trip:
        trip.legs.append(object())  # type: ignore[arg-type]
    assert agent.state == START


def test_without_a_model_the_block_edits_json() -> None:
    agent = ScriptedAgent(turn(), initial_state={"legs": [1]})
    before = agent.state
    with agent.edit_state() as edited:
        edited["legs"].append(Leg(to="Rome"))
    assert agent.state == {"legs": [1, {"to": "Rome", "price": 0.0}]}
    assert before == {"legs": [1]}


def test_what_was_given_out_never_changes() -> None:
    agent = planner()
    before = agent.state
    with agent.edit_state() as trip:
        trip.legs[0].price = 5
    after = agent.state
    trip.legs[0].price = 7
    assert before == START
    assert after["legs"][0]["price"] == 5
    assert agent.state is after


def test_a_block_that_changes_nothing_leaves_the_state_alone() -> None:
    agent, seen = planner(), list[Any]()
    agent.observe_state().subscribe(seen.append)
    before = agent.state
    with agent.edit_state():
        pass
    assert agent.state is before
    assert len(seen) == 1


def test_two_blocks_at_once_are_merged_and_a_conflict_goes_by_the_policy() -> None:
    agent = planner(on_conflict="mine")
    first, second = agent.edit_state(), agent.edit_state()
    with first as one, second as other:
        one.budget, one.legs[0].price = 2, 5
        other.budget, other.legs[0].to = 3, "Rome"
    assert agent.typed_state == Trip(budget=2, legs=[Leg(to="Rome", price=5)])
    assert second.conflicts == ()
    assert first.conflicts == (Conflict("/budget", 1, 2, 3),)


# --- in the middle of a run


@every_verb
def test_an_edit_during_a_run_survives_patches_and_snapshots_and_goes_out_with_the_next(verb: Verb) -> None:
    changed = {"budget": 1, "legs": [{"to": "Oslo", "price": 9, "via": "air"}, {"to": "Bonn"}], "seen": 1}
    agent = planner(DEAR, text("So."), state(changed))
    agent.add_observer(edit := After(spend(agent, 900)))
    ending = verb(agent, "Go")
    assert (ending.error, edit.errors) == (None, [])
    assert agent.state == {**changed, "budget": 900}
    assert ending.result is None or (ending.result.state, ending.result.warnings) == (agent.state, [])
    assert verb(agent, "Go on").error is None
    assert [each.state for each in agent.inputs] == [START, {**changed, "budget": 900}]
    assert agent.state == {**changed, "budget": 900}


@every_verb
def test_patches_mean_the_agents_own_state_and_not_the_edited_one(verb: Verb) -> None:
    agent = planner(
        DEAR, patch({"op": "remove", "path": "/legs/0/via"}), patch({"op": "test", "path": "/budget", "value": 1})
    )

    def put_first() -> None:
        with agent.edit_state() as trip:
            trip.legs.insert(0, Leg(to="Rome"))

    agent.add_observer(After(put_first))
    ending = verb(agent, "Go")
    assert ending.error is None
    assert agent.state["legs"] == [{"to": "Rome", "price": 0.0}, {"to": "Oslo", "price": 9}]
    # From the next run on, the agent knows of it.
    later = ScriptedAgent(turn(DEAR), initial_state=agent.state)
    verb(later, "Go")
    assert [each["price"] for each in later.state["legs"]] == [9, 9]


@every_verb
def test_an_edit_in_a_tool_goes_out_with_the_next_round(verb: Verb) -> None:
    @tool
    def set_budget(budget: int) -> str:
        """Sets the budget."""
        with agent.edit_state() as trip:
            trip.budget = budget
        return "set"

    call = tool_call("set_budget", {"budget": 700})
    agent = ScriptedAgent(
        turn(call, DEAR), turn(text("Done."), DEAR), initial_state=START, state_model=Trip, tools=[set_budget]
    )
    assert verb(agent, "Go").error is None
    dear = {**START, "legs": [{"to": "Oslo", "price": 9, "via": "sea"}]}
    assert [each.state for each in agent.inputs] == [START, {**dear, "budget": 700}]
    assert agent.state == {**dear, "budget": 700}


@every_result_verb
def test_where_the_agent_changes_the_same_place_its_value_stands_with_a_warning(verb: Verb) -> None:
    agent = planner(state({**START, "budget": 2}), state({**START, "budget": 3}))
    agent.add_observer(After(spend(agent, 900)))
    result = verb(agent, "Go").result
    assert result is not None
    assert agent.state == {**START, "budget": 3}
    (warning,) = result.warnings
    assert (warning.rule, warning.path, warning.count) == ("STATE-4", "/budget", 1)
    assert warning.message == "the agent changed what was edited here, at '/budget'; the agent's value stands"


@every_result_verb
def test_with_mine_the_edit_stands_with_a_warning_and_goes_out(verb: Verb) -> None:
    agent = planner(state({**START, "budget": 2}), on_conflict="mine")
    agent.add_observer(After(spend(agent, 900)))
    result = verb(agent, "Go").result
    assert result is not None
    assert [each.message.partition("; ")[2] for each in result.warnings] == ["the edit stands"]
    verb(agent, "Go on")
    assert agent.inputs[1].state == agent.state == {**START, "budget": 900}


@every_verb
def test_with_raise_a_conflict_ends_the_run_and_carries_the_edit(verb: Verb) -> None:
    agent = planner(state({**START, "budget": 2}), on_conflict="raise")
    agent.add_observer(After(spend(agent, 900)))
    error = verb(agent, "Go").error
    assert isinstance(error, StateConflictError)
    assert error.conflicts == (Conflict("/budget", 1, 900, 2),)
    assert str(error) == "the agent changed what was edited here, at '/budget'; the agent's value stands"
    assert agent.state == {**START, "budget": 2}
    assert verb(agent, "Go on").error is None


@every_verb
def test_a_function_decides_and_there_is_no_warning(verb: Verb) -> None:
    asked: list[Conflict] = []

    def highest(conflict: Conflict) -> Any:
        asked.append(conflict)
        return max(conflict.ours, conflict.theirs)

    agent = planner(state({**START, "budget": 2}), text("So."), on_conflict=highest)
    agent.add_observer(After(spend(agent, 900)))
    ending = verb(agent, "Go")
    assert asked == [Conflict("/budget", 1, 900, 2)]
    assert agent.state == {**START, "budget": 900}
    assert ending.result is None or ending.result.warnings == []


@pytest.mark.parametrize("policy", ["theirs", "mine", "raise"])
def test_what_both_append_to_a_list_during_a_run_stands_under_each_policy(policy: Any) -> None:
    def add(name: str) -> Any:
        return patch({"op": "add", "path": "/legs/-", "value": {"to": name}})

    def edit() -> None:
        with agent.edit_state() as trip:
            trip.legs.append(Leg(to="Bonn"))

    agent = planner(add("Rome"), add("Bern"), on_conflict=policy)
    agent.add_observer(After(edit))
    result = agent.run_agent_sync("Go")
    assert [leg["to"] for leg in result.state["legs"]] == ["Oslo", "Rome", "Bern", "Bonn"]
    assert result.warnings == []


@pytest.mark.parametrize(
    ("decided", "expected"), [(Leg(to="Rome"), {"hotel": {"to": "Rome", "price": 0.0}}), (ABSENT, {})]
)
def test_a_function_may_return_a_model_or_remove_the_place(decided: Any, expected: Any) -> None:
    agent = ScriptedAgent(turn(state({"hotel": 2})), initial_state={"hotel": 1}, on_conflict=lambda _: decided)

    def edit() -> None:
        with agent.edit_state() as edited:
            edited["hotel"] = 3

    agent.add_observer(After(edit))
    agent.run_agent_sync("Go")
    assert agent.state == expected


def test_a_function_that_fails_ends_the_run() -> None:
    def fails(conflict: Conflict) -> Any:
        raise LookupError(conflict.path)

    agent = planner(state({**START, "budget": 2}), on_conflict=fails)
    agent.add_observer(After(spend(agent, 900)))
    with pytest.raises(LookupError, match="/budget"):
        agent.run_agent_sync("Go")
    assert agent.state == {**START, "budget": 2}
    assert agent.run_agent_sync("Go on").text == "Done."


def test_an_agent_that_wrote_between_reading_and_the_end_of_the_block_is_a_conflict() -> None:
    agent = planner(patch({"op": "replace", "path": "/budget", "value": 2}), DEAR, on_conflict="raise")

    def edit(run: SyncAgentRun, budget: int) -> None:
        with agent.edit_state() as trip:
            trip.budget = budget
            assert isinstance(next(run), StateDeltaEvent)

    with agent.stream_sync("Go") as run:
        next(run)
        with pytest.raises(StateConflictError, match=r"at '/budget'; nothing was changed"):
            edit(run, 900)
        assert agent.state == {**START, "budget": 2}
        edit(run, 800)
        run.result()
    assert agent.state == {**START, "budget": 800, "legs": [{"to": "Oslo", "price": 9, "via": "sea"}]}


def test_edits_in_one_run_add_up() -> None:
    agent = planner(text("So."), DEAR)
    agent.add_observer(After(spend(agent, 2)))
    agent.add_observer(After(spend(agent, 3), TextMessageEndEvent))

    def to_rome() -> None:
        with agent.edit_state() as trip:
            trip.legs[0].to = "Rome"

    agent.add_observer(After(to_rome, StateDeltaEvent))
    result = agent.run_agent_sync("Go")
    assert (result.state, result.warnings) == (agent.state, [])
    assert agent.state == {**START, "budget": 3, "legs": [{"to": "Rome", "price": 9, "via": "sea"}]}


def test_an_edit_before_the_first_event_is_not_in_the_first_request_and_stays_pending() -> None:
    agent = planner(DEAR, state({**START, "seen": 1}))
    with agent.stream_sync("Go") as run:
        spend(agent, 900)()
        run.result()
    assert agent.inputs[0].state == START
    assert agent.state == {**START, "budget": 900, "seen": 1}


def test_a_second_edit_of_one_place_before_the_first_event_of_the_next_run_is_no_conflict() -> None:
    agent = planner(text("So."), on_conflict="raise")
    agent.add_observer(After(spend(agent, 2)))
    agent.run_agent_sync("Go")
    with agent.stream_sync("Go on") as run:
        spend(agent, 3)()
        run.result()
    assert (agent.inputs[1].state, agent.state) == ({**START, "budget": 2}, {**START, "budget": 3})


def test_hooks_see_the_edits_and_what_they_set_replaces_them() -> None:
    class Watching(Subscriber):
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_state_changed(self, context: HookContext) -> Mutation | None:
            self.seen.append(context.state["budget"])
            return Mutation(state={**context.state, "budget": 5}) if len(self.seen) == 2 else None

    agent = planner(DEAR, state({**START, "seen": 1}), state({**START, "seen": 2}))
    agent.subscribe(watching := Watching())
    agent.add_observer(After(spend(agent, 900)))
    assert agent.run_agent_sync("Go").warnings == []
    assert watching.seen == [900, 900, 1]
    assert agent.state == {**START, "seen": 2}


def test_setting_the_whole_state_drops_pending_edits() -> None:
    agent = planner(DEAR, state({**START, "seen": 1}))
    agent.add_observer(After(spend(agent, 900)))
    agent.add_observer(After(lambda: agent.set_state({"budget": 5, "legs": []}), StateDeltaEvent))
    agent.run_agent_sync("Go")
    assert agent.state == {**START, "seen": 1}


def test_pending_edits_are_part_of_saved_conversations_and_clones() -> None:
    agent = planner(DEAR)
    agent.add_observer(After(spend(agent, 900)))
    agent.run_agent_sync("Go")
    saved = ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json())
    other = ScriptedAgent(turn())
    other.restore(saved)
    assert other.state == agent.clone().state == agent.state
    assert agent.state["budget"] == 900


def test_a_run_that_never_starts_keeps_the_edits() -> None:
    agent = planner(DEAR)
    agent.add_observer(After(spend(agent, 900)))
    agent.run_agent_sync("Go")
    broken = FunctionAgent(lambda _: (_ for _ in ()).throw(OSError("down")))
    broken.restore(agent.snapshot())
    with pytest.raises(RunFailedError, match="the agent raised OSError: down"):
        broken.run_agent_sync("Go")
    assert broken.state == agent.state


@pytest.mark.parametrize("ending", ["whole", "cut"])
@pytest.mark.anyio
async def test_an_edit_during_a_replay_survives_its_states(ending: str) -> None:
    seen = patch({"op": "replace", "path": "/seen", "value": 8})
    replay = sse(turn(state({"budget": 1, "seen": 7}), text("Hi"), seen))

    def edit() -> None:
        with agent.edit_state() as edited:
            edited["budget"] = 900

    with serve_bytes(Reply([replay if ending == "whole" else replay[:-60]])) as server:
        agent = HttpAgent(server.url, connect_url="/connect", initial_state={"budget": 1, "seen": 0})
        agent.add_observer(After(edit, StateSnapshotEvent))
        with nullcontext() if ending == "whole" else pytest.raises(IncompleteRunError):
            await agent.connect_agent()
    assert agent.state == {"budget": 900, "seen": 8 if ending == "whole" else 0}


@pytest.mark.anyio
async def test_a_replay_that_is_cut_ends_with_that_and_not_with_the_conflict_that_going_back_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def edit() -> None:
        with agent.edit_state() as edited:
            edited["seen"] = 9

    with serve_bytes(Reply([sse(turn(state({"seen": 7}), text("Hi")))[:-60]])) as server:
        agent = HttpAgent(server.url, connect_url="/connect", initial_state={"seen": 0}, on_conflict="raise")
        agent.add_observer(After(edit, StateSnapshotEvent))
        with pytest.raises(IncompleteRunError):
            await agent.connect_agent()
    assert agent.state == {"seen": 0}
    assert "the agent changed what was edited here, at '/seen'; the agent's value stands (STATE-4)" in caplog.messages


def test_edits_in_other_threads_while_a_run_goes_on_are_all_kept() -> None:
    steps = [patch({"op": "replace", "path": "/seen", "value": number}) for number in range(200)]
    agent = planner(*steps, state({**START, "seen": -1}))

    def add(number: int) -> None:
        with agent.edit_state() as trip:
            trip.legs.append(Leg(to=f"place {number}"))

    begun = threading.Event()
    agent.add_observer(After(begun.set))
    runner = threading.Thread(target=agent.run_agent_sync, args=("Go",))
    runner.start()
    assert begun.wait(10)
    for number in range(20):
        add(number)
    runner.join(20)
    assert [leg["to"] for leg in agent.state["legs"]] == ["Oslo", *(f"place {number}" for number in range(20))]
    assert agent.state["seen"] == -1


# --- refused


@pytest.mark.parametrize("policy", ["ours", 3, True])
def test_a_policy_that_does_not_exist_is_refused(policy: Any) -> None:
    with pytest.raises(UsageError, match="on_conflict= takes 'theirs', 'mine', 'raise'"):
        ScriptedAgent(turn(), on_conflict=policy)


def test_an_async_policy_is_refused() -> None:
    async def ask(conflict: Conflict) -> Any:
        return conflict.ours

    with pytest.raises(UsageError, match="a plain function"):
        ScriptedAgent(turn(), on_conflict=ask)
