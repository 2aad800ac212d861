"""What hooks may change, with every verb, and what a hook that raises does."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    RunErrorEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    UserMessage,
)

from agui_client import HookContext, HttpAgent, Mutation, Subscriber
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    serve_bytes,
    sse,
    state,
    text,
    turn,
)
from support.recording import Recorder
from support.verbs import Verb, every_kind_of_verb
from support.waiting import LIMIT


class Mutating(Subscriber):
    """Returns a mutation at the first text it hears."""

    def __init__(self, mutation: Mutation) -> None:
        self._mutation: Mutation | None = mutation

    def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> Mutation | None:
        mutation, self._mutation = self._mutation, None
        return mutation


@every_kind_of_verb
@pytest.mark.parametrize("value", [{"mine": True}, None, [], 0], ids=repr)
def test_a_state_mutation_takes_effect_before_the_event(verb: Verb, value: Any) -> None:
    agent, recorder = ScriptedAgent(turn(state({"n": 1}), text("a b"))), Recorder()
    agent.subscribe(Mutating(Mutation(state=value)))
    agent.subscribe(recorder)
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert agent.state == value
    assert [message.content for message in agent.messages] == ["Hi", "a b"]
    assert len(recorder.of("on_state_changed")) == 2
    if ending.result:
        assert ending.result.state == value


@every_kind_of_verb
def test_a_message_mutation_takes_effect_before_the_event(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("a b", message_id="m1"), text("c", message_id="m2")))
    note = UserMessage(id="note", content="A note")

    class Noting(Subscriber):
        def on_text_message_end_event(self, event: TextMessageEndEvent, context: HookContext) -> Mutation | None:
            return Mutation(messages=[*context.messages, note]) if event.message_id == "m1" else None

    agent.subscribe(Noting())
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert [message.content for message in agent.messages] == ["Hi", "a b", "A note", "c"]
    if ending.result:
        assert ending.result.messages == agent.messages


@every_kind_of_verb
def test_stopping_keeps_an_event_from_later_subscribers_and_from_the_conversation(verb: Verb) -> None:
    agent, recorder = ScriptedAgent(turn(text("a b c"))), Recorder()
    agent.subscribe(Mutating(Mutation(stop_propagation=True)))
    agent.subscribe(recorder)
    ending = verb(agent, "Hi")
    assert ending.error is None
    assert [message.content for message in agent.messages] == ["Hi", "b c"]
    assert [event.delta for event, _ in recorder.of("on_text_message_content_event")] == ["b ", "c"]
    assert ending.events is None or ending.types.count("TEXT_MESSAGE_CONTENT") == 3


@every_kind_of_verb
def test_a_mutation_that_stops_still_changes_the_state(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("a b")))
    agent.subscribe(Mutating(Mutation(state={"mine": True}, stop_propagation=True)))
    verb(agent, "Hi")
    assert agent.state == {"mine": True}
    assert [message.content for message in agent.messages] == ["Hi", "b"]


@every_kind_of_verb
def test_what_is_changed_when_a_run_is_initialized_is_sent(verb: Verb) -> None:
    class Preparing(Subscriber):
        async def on_run_initialized(self, context: HookContext) -> Mutation:
            await anyio.lowlevel.checkpoint()
            system = UserMessage(id="system", content="Be brief.")
            return Mutation(messages=[system, *context.messages], state={"tenant": "acme"})

    agent = ScriptedAgent(turn(text("Hi.")))
    agent.subscribe(Preparing())
    assert verb(agent, "Hi").error is None
    [sent] = agent.inputs
    assert [message.content for message in sent.messages] == ["Be brief.", "Hi"]
    assert sent.state == {"tenant": "acme"}
    assert [message.content for message in agent.messages] == ["Be brief.", "Hi", "Hi."]
    assert agent.state == {"tenant": "acme"}


@every_kind_of_verb
@pytest.mark.parametrize("moment", ["on_run_finalized", "on_run_failed"])
def test_what_is_changed_when_a_run_is_over_is_there_for_the_next(verb: Verb, moment: str) -> None:
    def tidy(*details: object) -> Mutation:
        return Mutation(state={"runs": 1})

    tidying = Subscriber()
    setattr(tidying, moment, tidy)
    agent = ScriptedAgent([turn(text("Hi.")), RunErrorEvent(message="late")])
    agent.subscribe(tidying)
    verb(agent, "Hi")
    assert agent.state == {"runs": 1}


def test_mutations_reach_the_hot_observables() -> None:
    agent = ScriptedAgent(turn(text("a")))
    agent.subscribe(Mutating(Mutation(state=1)))
    states: list[Any] = []
    agent.observe_state().subscribe(states.append)
    anyio.run(agent.run_agent)
    agent.subscribe(Mutating(Mutation(state=2)))
    agent.run_agent_sync()
    assert states == [{}, 1, 2]


# --- hooks that raise


@every_kind_of_verb
@pytest.mark.parametrize(
    "moment",
    ["on_run_initialized", "on_event", "on_text_message_start_event", "on_messages_changed", "on_run_finalized"],
)
def test_an_exception_in_a_hook_ends_the_run_with_it(verb: Verb, moment: str) -> None:
    def refuse(*details: Any) -> None:
        raise own

    own = ZeroDivisionError("mine")
    refusing = Subscriber()
    setattr(refusing, moment, refuse)
    with serve_bytes(sse(turn(text("a")))) as server:
        agent = HttpAgent(server.url)
        subscription = agent.subscribe(refusing)
        assert verb(agent, "Hi").error is own
        assert not agent.is_running
        subscription.unsubscribe()
        assert verb(agent, "Again").error is None


@every_kind_of_verb
def test_an_exception_in_a_hook_closes_the_connection(verb: Verb) -> None:
    class Refusing(Subscriber):
        async def on_text_message_start_event(self, event: Any, context: HookContext) -> None:
            await anyio.lowlevel.checkpoint()
            raise ZeroDivisionError

    with serve_bytes(
        Reply([sse(turn(text("a"))).partition(b'data: {"type":"TEXT_MESSAGE_END')[0]], end="stall")
    ) as server:
        agent = HttpAgent(server.url)
        agent.subscribe(Refusing())
        assert isinstance(verb(agent, "Hi").error, ZeroDivisionError)
        assert server.disconnected.wait(LIMIT)


@pytest.mark.anyio
async def test_the_end_is_told_when_a_run_is_left_or_cancelled() -> None:
    agent, recorder = ScriptedAgent(turn(StateSnapshotEvent(snapshot=1))), Recorder()
    agent.subscribe(recorder)
    async with agent.stream() as run:
        await anext(run)
    with anyio.CancelScope() as scope:
        async with agent.stream() as run:
            await anext(run)
            scope.cancel()
            await anyio.sleep_forever()
    assert recorder.names == ["on_run_initialized", "on_event", "on_run_started_event", "on_run_finalized"] * 2
