"""Places of the state by JSON Pointer, watched in runs and outside."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_client import UsageError
from agui_client._core.agent.state_watching import Places
from agui_client.state import ABSENT
from agui_client.testing import ScriptedAgent, patch, state, text, turn
from support.state_edits import After
from support.verbs import Verb, every_verb
from support.watching import Watcher

START: dict[str, Any] = {"legs": [{"to": "Oslo", "price": 3}, {"to": "Rome", "price": 4}], "a/b": {"~": 1}}
DEAR = patch({"op": "replace", "path": "/legs/0/price", "value": 9})


@every_verb
def test_a_function_is_called_with_new_values_in_runs_and_outside(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("Hi"), DEAR, state({"legs": []})), initial_state=START)
    seen: list[tuple[Any, str]] = []

    @agent.on_state("/legs/*/price")
    def price(value: Any, path: str) -> None:
        seen.append((value, path))

    agent.add_observer(edit := After(lambda: agent.set_state({**START, "legs": [{"price": 1}, START["legs"][1]]})))
    assert verb(agent, "Go").error is None
    assert edit.errors == []
    assert seen == [(1, "/legs/0/price"), (9, "/legs/0/price"), (ABSENT, "/legs/0/price"), (ABSENT, "/legs/1/price")]
    agent.set_state({"legs": {"first": {"price": 5}}})
    assert seen[4:] == [(5, "/legs/first/price")]


def test_an_observable_gives_the_present_values_and_every_new_one_until_it_is_disposed() -> None:
    agent, one, every = ScriptedAgent(turn(DEAR, DEAR, state(START)), initial_state=START), Watcher(), Watcher()
    one.watch(agent.observe_state("/legs/0/price"))
    subscription = every.watch(agent.observe_state("/legs/*/price"))
    agent.run_agent_sync("Go")
    assert (one.values, every.values) == ([3, 9, 3], [3, 4, 9, 3])
    subscription.dispose()
    agent.set_state({})
    assert (one.values, every.values) == ([3, 9, 3, ABSENT], [3, 4, 9, 3])


def test_an_observable_of_a_place_that_is_not_there_yet_waits() -> None:
    agent, watcher = ScriptedAgent(turn()), Watcher()
    watcher.watch(agent.observe_state("/trip/budget"))
    agent.set_state({"trip": {}})
    agent.set_state({"trip": {"budget": None}})
    assert watcher.values == [None]


def test_values_include_edits_that_the_agent_does_not_know_of() -> None:
    agent = ScriptedAgent(turn(text("Hi"), DEAR, DEAR), initial_state=START)
    seen: list[Any] = []
    agent.on_state("/legs")(seen.append)

    def edit() -> None:
        with agent.edit_state() as edited:
            edited["legs"][1]["price"] = 7

    agent.add_observer(After(edit))
    agent.run_agent_sync("Go")
    assert [[leg["price"] for leg in legs] for legs in seen] == [[3, 7], [9, 7]]


def test_a_function_may_edit_the_state() -> None:
    agent = ScriptedAgent(turn(DEAR), initial_state=START)

    @agent.on_state("/legs/0/price")
    def add_up(price: float) -> None:
        with agent.edit_state() as edited:
            edited["total"] = price

    agent.run_agent_sync("Go")
    assert agent.state["total"] == 9


def test_a_function_may_correct_what_it_watches() -> None:
    agent = ScriptedAgent(turn(), initial_state={"n": 0})
    seen: list[int] = []

    @agent.on_state("/n")
    def limit(value: int) -> None:
        seen.append(value)
        agent.set_state({"n": min(value, 9)})

    agent.set_state({"n": 20})
    assert (seen, agent.state) == ([20, 9], {"n": 9})


def test_a_function_that_changes_what_it_watches_with_each_call_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(turn(state({"n": 1})), initial_state={"n": 0})
    refused: list[str] = []

    @agent.on_state("/n")
    def count(value: int) -> None:
        try:
            agent.set_state({"n": value + 1})
        except UsageError as error:
            refused.append(str(error))
            raise

    assert agent.run_agent_sync("Go").state == {"n": 21}
    what = "a function that watches the state changes it with each call, and was called 20 times inside itself"
    assert refused == [f"{what}; change it only where it differs from what it should be"]
    (record,) = caplog.records
    assert record.message == "a function that watches the state at '/n' failed; it is called again all the same"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == refused[0]


def test_an_observable_whose_values_change_it_again_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(turn())
    agent.observe_messages().subscribe(lambda messages: agent.add_message({"role": "user", "content": "again"}))
    assert len(agent.messages) == 21
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "a function that watches the messages changes it with each call" in str(record.exc_info[1])


def test_a_function_that_fails_breaks_no_run_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    agent, calls = ScriptedAgent(turn(DEAR, state(START)), initial_state=START), list[Any]()

    @agent.on_state("/legs/0/price")
    def fails(price: float) -> None:
        calls.append(price)
        raise LookupError("no price")

    with caplog.at_level(logging.ERROR, "agui_client"):
        agent.run_agent_sync("Go")
    assert calls == [9, 3]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a~1b/~0", [1]),
        ("/legs/1/to", ["Rome"]),
        ("/legs/01/to", []),
        ("/legs/-1/to", []),
        ("/legs/-/to", []),
        ("/legs/0/to/0", []),
        ("/*/*/to", ["Oslo", "Rome"]),
        ("/", []),
    ],
)
def test_a_path_is_a_json_pointer(path: str, expected: list[Any]) -> None:
    watcher = Watcher()
    watcher.watch(ScriptedAgent(turn(), initial_state=START).observe_state(path))
    assert watcher.values == expected


@pytest.mark.parametrize("path", ["legs", "$.legs", 3])
def test_what_is_no_json_pointer_is_refused(path: Any) -> None:
    agent = ScriptedAgent(turn())
    with pytest.raises(UsageError, match="a place of the state is a JSON pointer"):
        agent.on_state(path)
    with pytest.raises(UsageError, match="a place of the state is a JSON pointer"):
        _ = agent.observe_state(path)


def test_an_async_function_is_refused() -> None:
    async def price(value: Any) -> None: ...

    with pytest.raises(UsageError, match="takes a plain function"):
        ScriptedAgent(turn()).on_state("/price")(price)


json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab*"), inner, max_size=3),
    max_leaves=8,
)


@given(json, json)
def test_changes_are_exactly_the_places_whose_values_differ(before: Any, after: Any) -> None:
    for path in ("/*", "/a", "/*/*", "/*/b", "/0/*/a"):
        places = Places(path)
        earlier, later = dict(places.changes(ABSENT, before)), dict(places.changes(ABSENT, after))
        differing = {
            place: later.get(place, ABSENT)
            for place in (*later, *earlier)
            if repr(earlier.get(place, ABSENT)) != repr(later.get(place, ABSENT))
        }
        found = dict(places.changes(before, after))
        assert found == {place: value for place, value in differing.items() if place in found}
        assert all(earlier.get(place) == value for place, value in differing.items() if place not in found)
