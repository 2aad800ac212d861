"""Random conversations with calls, cut anywhere: no cut parts a call from a result of it, and the rest is in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    FunctionCall,
    Message,
    ReasoningMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

from agui_client import Window
from agui_client._core.conversation.history import chosen_messages
from agui_client.types import History

CALLS = tuple("abcdef")
limits = st.none() | st.integers(1, 12)
kinds = st.one_of(
    st.sampled_from(["system", "user", "answer", "reasoning", "activity"]),
    # Calls of a message, and results wherever they come; some calls have no result, and some results no call.
    st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True).map(tuple),
    st.sampled_from(CALLS),
)


def len_of_id(message: Message) -> int:
    return len(message.id)


windows = st.builds(
    Window,
    turns=limits,
    messages=limits,
    tokens=st.integers(1, 200),
    count=st.just(len_of_id),
)


def message(place: int, kind: str | tuple[str, ...]) -> Message:
    name = f"m{place}"
    match kind:
        case tuple():
            calls = [ToolCall(id=each, function=FunctionCall(name="look", arguments="{}")) for each in kind]
            return AssistantMessage(id=name, tool_calls=calls)
        case "system":
            return SystemMessage(id=name, content="Be brief.")
        case "user":
            return UserMessage(id=name, content="Well?" * place)
        case "answer":
            return AssistantMessage(id=name, content="Yes.")
        case "reasoning":
            return ReasoningMessage(id=name, content="Hm.")
        case "activity":
            return ActivityMessage(id=name, activity_type="MAP", content={})
        case _:
            return ToolMessage(id=name, tool_call_id=kind, content="seen")


conversations = st.lists(kinds, max_size=25).map(lambda drawn: [message(*each) for each in enumerate(drawn)])


def named_calls(messages: Iterable[Message]) -> dict[tuple[str, str], tuple[str, int]]:
    """Every mention of a call, by its id and the message: which call it is, as an id may name several in turn."""
    mentions: dict[tuple[str, str], tuple[str, int]] = {}
    number: dict[str, int] = {}
    answered: set[str] = set()
    for each in messages:
        if isinstance(each, ToolMessage):
            ids = [each.tool_call_id]
            answered.update(ids)
        else:
            ids = [call.id for call in each.tool_calls or ()] if isinstance(each, AssistantMessage) else []
            for again in answered.intersection(ids):
                answered.discard(again)
                number[again] = number.get(again, 0) + 1
        mentions.update({(name, each.id): (name, number.get(name, 0)) for name in ids})
    return mentions


def chosen(history: History, messages: list[Message], unreceived: Sequence[str] | None = None) -> list[Message]:
    async def choose() -> list[Message]:
        return await chosen_messages(history, messages, unreceived)

    return anyio.run(choose)


def check(sent: Sequence[Message], messages: Sequence[Message]) -> None:
    """Check what is true of every cut."""
    places = [messages.index(each) for each in sent]
    assert places == sorted(set(places))
    whole, part = named_calls(messages), named_calls(sent).keys()
    calls = {whole[mention] for mention in part}
    assert {mention for mention, call in whole.items() if call in calls} == part
    head = next((place for place, each in enumerate(messages) if each.role != "system"), len(messages))
    assert list(sent[:head]) == list(messages[:head])


@given(conversations, windows)
def test_no_window_parts_a_call_from_its_result(messages: list[Message], window: Window) -> None:
    sent = window.of(messages)
    known = [each for each in messages if each.role != "activity"]
    check(sent, known)
    assert not known or sent[-1:] == known[-1:]


@given(conversations, st.sets(st.integers(0, 24)))
def test_new_messages_are_sent_with_every_call_that_they_answer(messages: list[Message], new: set[int]) -> None:
    unreceived = [f"m{each}" for each in new]
    sent = chosen("new", messages, unreceived)
    check(sent, messages)
    assert {each.id for each in messages} & set(unreceived) <= {each.id for each in sent}
    assert chosen("new", messages) == chosen("full", messages, unreceived) == messages


@given(conversations, windows)
def test_what_a_window_leaves_is_a_result_that_a_function_may_return(messages: list[Message], window: Window) -> None:
    assert chosen(window.of, messages) == window.of(messages)
