"""The state as a type of the application: models, dataclasses, unions; and a state that does not fit."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from ag_ui.core import Event, RunAgentInput, RunStartedEvent
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, computed_field
from typing_extensions import TypedDict

from agui_client import FunctionAgent, HttpAgent, ParseError, UsageError
from agui_client.testing import ScriptedAgent, patch, state, text, turn
from support.state_edits import After, Leg, Trip
from support.verbs import Verb, every_result_verb


@dataclass
class Walk:
    kind: Literal["walk"]
    start: date
    stops: list[str] = field(default_factory=list[str])


class Ride(TypedDict):
    kind: Literal["ride"]
    horse: str


class Cruise(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    kind: Literal["cruise"]
    deck_size: int = Field(alias="deckSize")
    day: date

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_large(self) -> bool:
        """A member that is written, but not read."""
        return self.deck_size > 100


WAYS = TypeAdapter[Walk | Ride | Cruise](Annotated[Walk | Ride | Cruise, Field(discriminator="kind")])
WALK = {"kind": "walk", "start": "2026-05-01"}
CRUISE = {"kind": "cruise", "deckSize": 5, "day": "2026-05-01"}


def test_the_state_is_read_as_a_model() -> None:
    agent = ScriptedAgent(turn(), initial_state={"legs": [{"to": "Oslo"}], "more": 1}, state_model=Trip)
    assert agent.typed_state == Trip(legs=[Leg(to="Oslo")])
    assert agent.typed_state is not agent.typed_state


def test_changing_what_was_read_changes_nothing() -> None:
    agent = ScriptedAgent(turn(), initial_state=Trip(), state_model=Trip)
    agent.typed_state.budget = 900
    assert agent.typed_state.budget == agent.state["budget"] == 0


def test_a_dataclass_is_edited_like_a_model() -> None:
    agent = ScriptedAgent(turn(), initial_state=WALK, state_model=Walk)
    with agent.edit_state() as walk:
        walk.stops.append("Bergen")
    assert agent.state == {**WALK, "stops": ["Bergen"]}
    assert agent.typed_state == Walk("walk", date(2026, 5, 1), ["Bergen"])


def test_a_typed_dict_is_edited_like_a_model() -> None:
    agent = ScriptedAgent(turn(), initial_state={"kind": "ride", "horse": "Blesi", "age": 9}, state_model=Ride)
    with agent.edit_state() as ride:
        ride["horse"] = "Sleipnir"
    assert agent.state == {"kind": "ride", "horse": "Sleipnir", "age": 9}


def test_a_strict_model_with_aliases_and_computed_members_is_written_as_it_is_read() -> None:
    agent = ScriptedAgent(turn(), initial_state=CRUISE, state_model=Cruise)
    with agent.edit_state() as cruise:
        cruise.deck_size = 500
    assert agent.state == {**CRUISE, "deckSize": 500}
    assert agent.typed_state.is_large


def test_a_union_is_read_by_what_the_state_says() -> None:
    agent = ScriptedAgent(turn(), initial_state=WALK, state_model=WAYS)
    assert agent.typed_state == Walk("walk", date(2026, 5, 1))
    agent.set_state({"kind": "ride", "horse": "Blesi"})
    with agent.edit_state() as ride:
        assert isinstance(ride, dict)
        ride["horse"] = "Sleipnir"
    assert agent.state == {"kind": "ride", "horse": "Sleipnir"}


@every_result_verb
def test_a_state_of_the_agent_that_does_not_fit_is_a_warning_with_the_path_and_stays_readable(verb: Verb) -> None:
    dear = patch({"op": "add", "path": "/legs/1/price", "value": "dear"})
    agent = ScriptedAgent(turn(state({"legs": [{"to": "Oslo"}, {"to": "Rome"}]}), dear), state_model=Trip)
    result = verb(agent, "Go").result
    assert result is not None
    problem = "Input should be a valid number, unable to parse string as a number"
    assert [(each.rule, each.path, each.message) for each in result.warnings] == [
        ("STATE-2", "/legs/1/price", f"the state does not fit Trip at /legs/1/price: {problem}")
    ]
    assert agent.state == {"legs": [{"to": "Oslo"}, {"to": "Rome", "price": "dear"}]}
    with pytest.raises(ParseError, match=r"does not fit Trip: /legs/1/price: .*; `state` has it as it is"):
        _ = agent.typed_state
    with pytest.raises(ParseError), agent.edit_state():
        pytest.fail("there is nothing to edit")


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        ({"kind": "walk", "start": "May", "stops": [1]}, ["/start", "/stops/0"]),
        ({"kind": "walk"}, ["/start"]),
        ({"kind": "cruise", "deckSize": "5", "day": "2026-05-01", "bar": 1}, ["/deckSize", "/bar"]),
        ({"kind": "flight"}, [""]),
        ("walk", [""]),
    ],
)
def test_the_path_of_a_misfit_is_one_of_the_state_also_in_unions(raw: Any, paths: list[str]) -> None:
    result = ScriptedAgent(turn(state(raw)), state_model=WAYS).run_agent_sync("Go")
    assert [each.path for each in result.warnings] == paths


def test_a_state_that_fits_again_at_the_end_of_the_run_is_no_warning() -> None:
    mended = patch({"op": "add", "path": "/to", "value": "Oslo"})
    assert ScriptedAgent(turn(state({}), mended), state_model=Leg).run_agent_sync("Go").warnings == []


def test_a_clone_has_the_type_and_checks_its_own_state() -> None:
    agent = ScriptedAgent(turn(state({"budget": 5})), turn(state({"budget": "much"})), state_model=Trip)
    agent.run_agent_sync("Go")
    twin = agent.clone()
    assert [each.path for each in twin.run_agent_sync("Go").warnings] == ["/budget"]
    assert agent.typed_state == Trip(budget=5)
    assert agent.clone().run_agent_sync("Go", tool_results={}).warnings != []


def test_without_a_model_there_is_no_typed_state() -> None:
    with pytest.raises(UsageError, match="give the agent state_model="):
        _ = HttpAgent("http://localhost:1/").typed_state


@pytest.mark.anyio
async def test_a_run_its_snapshots_and_its_result_have_the_state_as_the_model() -> None:
    agent = ScriptedAgent(turn(state({"budget": 1}), state({"budget": 2})), state_model=Trip)
    async with agent.stream("Go") as run:
        seen = [(each.typed_state, run.typed_state) async for each in run.snapshots]
    assert seen[1:3] == [(Trip(budget=1), Trip(budget=1)), (Trip(budget=2), Trip(budget=2))]
    result = await run.result()
    agent.set_state({"budget": 3})
    assert (result.typed_state, run.typed_state) == (Trip(budget=2), Trip(budget=2))
    with agent.stream_sync() as sync_run:
        assert next(sync_run.snapshots).typed_state == Trip(budget=3)
        assert sync_run.typed_state == Trip(budget=3)


def test_the_model_is_no_part_of_a_results_data() -> None:
    class Local(BaseModel):
        budget: int = 0

    result = ScriptedAgent(turn(), state_model=Local, initial_state=Local()).run_agent_sync("Go")
    copy = pickle.loads(pickle.dumps(result))
    assert (result.typed_state, copy) == (Local(), result)
    assert (copy.to_json(), repr(copy)) == (result.to_json(), repr(result))
    with pytest.raises(UsageError, match="typed_state needs to know the type"):
        _ = copy.typed_state


def test_a_result_without_a_model_has_no_typed_state() -> None:
    result = ScriptedAgent(turn()).run_agent_sync("Go")
    with pytest.raises(UsageError, match="give the agent state_model="):
        _ = result.typed_state


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(UsageError, match="state_model= takes a type that pydantic can read"):
        ScriptedAgent(turn(), state_model=Trip(budget=1))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="state_model= takes a type that pydantic can read"):
        ScriptedAgent(turn(), state_model="Trips")  # type: ignore[arg-type]


def test_every_kind_of_agent_takes_the_type() -> None:
    async def nothing(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)

    for agent in (HttpAgent("http://localhost:1/", state_model=Trip), FunctionAgent(nothing, state_model=Trip)):
        agent.state = {"budget": 3}
        assert agent.typed_state == Trip(budget=3)


def test_edits_and_warnings_go_together() -> None:
    agent = ScriptedAgent(
        turn(text("Hi"), state({"budget": "much", "legs": []})), initial_state=Trip(), state_model=Trip
    )

    def edit() -> None:
        with agent.edit_state() as trip:
            trip.legs.append(Leg(to="Rome"))

    agent.add_observer(After(edit))
    result = agent.run_agent_sync("Go")
    assert agent.state == {"budget": "much", "legs": [{"to": "Rome", "price": 0.0}]}
    assert [each.path for each in result.warnings] == ["/budget"]
