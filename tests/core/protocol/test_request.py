"""The run input before it is sent: what is taken out, what is refused, what an older peer gets, what versions mean."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

import pytest
from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivityMessage,
    AssistantMessage,
    BinaryInputContent,
    Context,
    DataSource,
    FileSource,
    FunctionCall,
    ImagePart,
    Message,
    ReasoningMessage,
    ResumeEntry,
    RunAgentInput,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic import BaseModel

from agui_client._core.protocol import request, shared_messages
from agui_client._core.protocol.placeholders import marked
from agui_client._core.protocol.plain_json import write
from agui_client._core.protocol.request import prepare_input, request_body
from agui_client._core.protocol.verify import version_key, version_warning
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import UsageError

Wire = dict[str, Any]

IMAGE = ImagePart(source=DataSource(value="AAAA", mime_type="image/png"))
EMPTY: Wire = {"tools": [], "context": [], "forwardedProps": {}}
"""The members of an input that are sent though nobody gave them."""


def run_input(*messages: Message | Wire, **fields: Any) -> RunAgentInput:
    """An input as a conversation hands it over: built without validation."""
    return RunAgentInput.model_construct(thread_id="t", run_id="r", messages=list(messages), **fields)


def sent(given: RunAgentInput, peer: str | None = None) -> tuple[Wire, list[tuple[str, str]]]:
    """The request body, without thread and run id, and the warnings as (rule, message)."""
    warnings = WarningLog()
    before = copy.deepcopy(given)
    prepared = prepare_input(given, warnings, max_protocol_version=peer)
    assert given == before, "the input must not be changed"
    assert prepared is not given
    body = prepared.model_dump(mode="json", by_alias=True)
    assert (body.pop("threadId"), body.pop("runId")) == ("t", "r")
    assert RunAgentInput.model_validate_json(prepared.model_dump_json(by_alias=True)) == prepared
    return body, [(record.rule, record.message) for record in warnings.records()]


def messages_sent(*messages: Message | Wire, peer: str | None = None) -> tuple[list[Wire], list[tuple[str, str]]]:
    body, warnings = sent(run_input(*messages), peer)
    return body["messages"], warnings


def refused(given: RunAgentInput, peer: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        prepare_input(given, WarningLog(), max_protocol_version=peer)
    text = str(caught.value)
    assert text.startswith("the run input cannot be sent: ")
    assert text.endswith("; nothing was sent")
    return text.removeprefix("the run input cannot be sent: ").removesuffix("; nothing was sent")


# What a current peer gets


_NESTED: Wire = {"a": [1, None, {"b": "ä"}]}
_FULL = run_input(
    UserMessage(id="u1", content=[TextPart(text="hi"), IMAGE], metadata=_NESTED),
    ActivityMessage(id="x1", activity_type="plan", content={}),
    AssistantMessage(id="a1", tool_calls=[ToolCall(id="c1", function=FunctionCall(name="f", arguments="{}"))]),
    ToolMessage(id="t1", tool_call_id="c1", content="done"),
    ReasoningMessage(id="r1", content="hm", encrypted_value="secret"),
    state=_NESTED,
    tools=[Tool(name="f", description="d", parameters=_NESTED)],
    context=[Context(description="d", value="v")],
    resume=[ResumeEntry(interrupt_id="i", status="resolved", payload=_NESTED)],
)


@pytest.mark.parametrize("peer", [None, "0.0.39"])
def test_what_needs_no_stripping_is_prepared_as_what_does(peer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = copy.deepcopy(_FULL)
    copied, shared = (
        prepare_input(_FULL, WarningLog(), max_protocol_version=peer, is_copied=each) for each in (True, False)
    )
    monkeypatch.setattr(request, "write", _refuse)
    stripped = prepare_input(_FULL, WarningLog(), max_protocol_version=peer)
    assert copied == shared == stripped
    assert json.loads(request_body(stripped)) == stripped.model_dump(mode="json", by_alias=True)
    copied.messages[0].metadata["a"] = copied.state["a"] = None  # type: ignore[index]
    assert before == _FULL


Messages = list[Message]


def _appended(messages: Messages) -> Messages:
    messages.append(UserMessage(id="new", content="New."))
    return messages


def _sorted(messages: Messages) -> Messages:
    messages.sort(key=lambda each: each.id)
    return messages


def _from_the_end(messages: Messages) -> Messages:
    return [messages[at] for at in range(-len(messages), 0)]


def _popped(messages: Messages) -> Messages:
    return [messages.pop() for _ in range(len(messages))]


def _pickled(messages: Messages) -> Messages:
    read: Messages = pickle.loads(pickle.dumps(messages))
    return read


_LOOKS: dict[str, Callable[[Messages], Sequence[Message]]] = {
    "list": list,
    "tuple": tuple,
    "slice": lambda messages: messages[:],
    "reversed": lambda messages: [*reversed(messages)],
    "copy": lambda messages: messages.copy(),
    "sum": lambda messages: messages.__add__([]),
    "from the end": _from_the_end,
    "pop": _popped,
    "append": _appended,
    "sort": _sorted,
    "deepcopy": copy.deepcopy,
    "pickle": _pickled,
}


@pytest.mark.parametrize("look", _LOOKS.values(), ids=_LOOKS)
def test_an_agent_writes_into_copies_however_it_looks_at_messages(
    look: Callable[[Messages], Sequence[Message]],
) -> None:
    before = copy.deepcopy(_FULL)
    for each in look(prepare_input(_FULL, WarningLog()).messages):
        each.id = "changed"
        if each.metadata:
            each.metadata["a"] = "changed"
        if isinstance(each, UserMessage) and isinstance(each.content, list):
            each.content.clear()
    assert before == _FULL


def test_a_look_at_one_message_copies_that_one_alone_and_what_was_written_into_it_stays() -> None:
    given = [UserMessage(id=each, content="Hi") for each in "abc"]
    messages = prepare_input(run_input(*given), WarningLog()).messages
    messages[1].id = "mine"
    shared = [list[Message].__getitem__(messages, at) is each for at, each in enumerate(given)]
    assert (messages[1].id, given[1].id, shared) == ("mine", "b", [True, False, True])
    with pytest.raises(IndexError):
        messages[len(messages)]


def test_messages_that_were_found_to_conform_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def count(model: Any) -> bytes:
        written.append(len(model.messages))
        return write(model)

    monkeypatch.setattr(request, "write", count)
    messages: list[Message] = [UserMessage(id=f"{number}", content="Hi") for number in range(2500)]
    for _ in range(2):
        prepare_input(run_input(*messages), WarningLog())
        messages = [*messages, UserMessage(id="last", content="Hi")]
    assert written == [1000, 1000, 500, 1]
    # One that is made later at the place of one that is gone is another message.
    known = shared_messages._known
    count_before = len(known)
    del messages
    assert len(known) <= count_before - 2500


def _refuse(model: BaseModel) -> bytes:
    raise ValueError


def test_the_body_is_what_pydantic_makes_of_a_prepared_input() -> None:
    prepared = prepare_input(_FULL, WarningLog())
    assert json.loads(request_body(prepared)) == prepared.model_dump(mode="json", by_alias=True)


@pytest.mark.requirement("INPUT-2", "INPUT-5", "VER-4", "VER-13")
def test_a_bare_input_declares_the_version_and_is_whole() -> None:
    """Servers with models from before 1.0 refuse an input without these members."""
    assert sent(run_input()) == ({"messages": [], **EMPTY, "protocolVersion": "1.0"}, [])
    assert PROTOCOL_VERSION == "1.0"


def test_the_version_declared_is_this_client_s() -> None:
    assert sent(run_input(protocol_version="0.9"))[0]["protocolVersion"] == "1.0"
    assert sent(run_input(), "1.7")[0]["protocolVersion"] == "1.0"


@pytest.mark.requirement("INPUT-7", "INPUT-8", "INPUT-9", "REASON-6", "TOOL-6")
def test_a_full_input_travels_as_it_is() -> None:
    file = ImagePart(source=FileSource(value="file-1", provider="openai"), metadata={"title": None})
    given = run_input(
        UserMessage(id="u1", content=[TextPart(text="hi"), IMAGE, file], subagent_run_id="s"),
        AssistantMessage(id="a1", encrypted_value="secret"),
        ToolMessage(id="t1", tool_call_id="c1", content=[TextPart(text="done")], error="no"),
        ReasoningMessage(id="r1", content="hm", encrypted_value="secret"),
        state={"a": [1, None, "ä", 0.5, True], "": {}},
        tools=[Tool(name="f", description="d", parameters={"default": None})],
        context=[Context(description="d", value="v")],
        forwarded_props={"tenant": None},
        resume=[ResumeEntry(interrupt_id="i", status="resolved", payload=0)],
        parent_run_id="p",
    )
    body, warnings = sent(given)
    assert body == {
        "messages": [
            {
                "id": "u1",
                "role": "user",
                "subagentRunId": "s",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
                    {
                        "type": "image",
                        "source": {"type": "file", "value": "file-1", "provider": "openai"},
                        "metadata": {"title": None},
                    },
                ],
            },
            {"id": "a1", "role": "assistant", "encryptedValue": "secret"},
            {
                "id": "t1",
                "role": "tool",
                "toolCallId": "c1",
                "content": [{"type": "text", "text": "done"}],
                "error": "no",
            },
            {"id": "r1", "role": "reasoning", "content": "hm", "encryptedValue": "secret"},
        ],
        "state": {"a": [1, None, "ä", 0.5, True], "": {}},
        "tools": [{"name": "f", "description": "d", "parameters": {"default": None}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"tenant": None},
        "resume": [{"interruptId": "i", "status": "resolved", "payload": 0}],
        "parentRunId": "p",
        "protocolVersion": "1.0",
    }
    assert warnings == []


@pytest.mark.requirement("INPUT-6")
def test_optional_values_that_are_none_are_left_out() -> None:
    given = run_input(
        {"id": "a1", "role": "assistant", "content": None, "toolCalls": None, "metadata": {"a": None}},
        state=None,
        forwarded_props=None,
        tools=[Tool(name="f", description="d", parameters=None)],
    )
    assert sent(given) == (
        {
            "messages": [{"id": "a1", "role": "assistant", "metadata": {"a": None}}],
            **EMPTY,
            "tools": [{"name": "f", "description": "d"}],
            "protocolVersion": "1.0",
        },
        [],
    )


@pytest.mark.requirement("INPUT-4")
def test_activity_messages_stay_at_home_whatever_is_in_them() -> None:
    user = {"id": "u1", "role": "user", "content": "hi"}
    progress = ActivityMessage(id="x1", activity_type="plan", content={"since": datetime.now(UTC)})
    assert messages_sent(progress, user, {"role": "activity", "x": 1}) == ([user], [])


@pytest.mark.requirement("INPUT-3")
def test_unknown_material_is_stripped_with_a_warning() -> None:
    user = UserMessage.model_validate({"id": "u1", "content": [{"type": "text", "text": "hi", "x": 1}], "y": 1})
    body, warnings = sent(run_input(user, {"id": "n", "role": "narrator"}, bookkeeping=1))
    assert body["messages"] == [{"id": "u1", "role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert "bookkeeping" not in body
    assert warnings == [
        ("INPUT-3", "unknown property /messages/0/content/0/x of the run input stripped"),
        ("INPUT-3", "unknown property /messages/0/y of the run input stripped"),
        ("INPUT-3", "/messages/1 of the run input dropped: unknown role 'narrator'"),
        ("INPUT-3", "unknown property /bookkeeping of the run input stripped"),
    ]


@pytest.mark.requirement("INPUT-10")
def test_a_part_with_an_unknown_source_is_not_sent() -> None:
    part = {"type": "image", "source": {"type": "hologram"}}
    messages, warnings = messages_sent({"id": "u1", "role": "user", "content": [part, {"type": "text", "text": "hi"}]})
    assert messages == [{"id": "u1", "role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert [rule for rule, _ in warnings] == ["INPUT-3"]


@pytest.mark.requirement("VER-12")
@pytest.mark.parametrize("peer", [None, "0.0.47"])
@pytest.mark.parametrize(
    "part",
    [
        {"type": "binary", "mimeType": "image/png", "data": "AAAA"},
        BinaryInputContent(mime_type="image/png", data="AAAA"),
    ],
    ids=["json", "model"],
)
def test_binary_parts_are_sent_as_media(part: Any, peer: str | None) -> None:
    message = UserMessage.model_construct(id="u1", content=[TextPart(text="hi"), part])
    messages, warnings = messages_sent(message, {"id": "u2", "role": "user", "content": [part]}, peer=peer)
    image = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    assert [message["content"] for message in messages] == [[{"type": "text", "text": "hi"}, image], [image]]
    assert warnings == []


@pytest.mark.requirement("VER-11")
def test_a_binary_part_with_an_id_only_is_not_sent_and_warned_about() -> None:
    part = {"type": "binary", "mimeType": "image/png", "id": "asset-1"}
    messages, warnings = messages_sent({"id": "u1", "role": "user", "content": [part]})
    assert messages == [{"id": "u1", "role": "user", "content": []}]
    assert [rule for rule, _ in warnings] == ["VER-11"]


# What is refused


@pytest.mark.requirement("INPUT-3")
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (run_input({"id": 5, "role": "user", "content": "x"}), "/messages/0/id should be a valid string, got 5"),
        (run_input({"id": "u", "role": "user"}), "/messages/0/content is missing"),
        (run_input({"id": "u", "content": "x"}), "/messages/0 should have a string as its role"),
        (
            run_input(UserMessage.model_construct(id="u", content=5)),
            "/messages/0/content should be a string or an array of parts, got 5",
        ),
        (
            run_input({"id": "a", "role": "assistant", "encryptedValue": 7}),
            "/messages/0/encryptedValue should be a valid string",
        ),
        (run_input(tools=[{"name": "f"}]), "/tools/0/description is missing"),
        (
            RunAgentInput.model_construct(thread_id=5, run_id="r", messages=[]),
            "/threadId should be a valid string, got 5",
        ),
        (
            RunAgentInput.model_construct(thread_id="t", run_id="r", messages=None),
            "/messages should be a valid list, got null",
        ),
        (RunAgentInput.model_construct(run_id="r", messages=[]), "/threadId is missing"),
        (
            run_input(resume=[{"interruptId": "i"}, {"interruptId": 5, "status": "resolved"}]),
            "/resume/0/status is missing; /resume/1/interruptId should be a valid string, got 5",
        ),
    ],
)
def test_a_malformed_value_is_refused_with_its_path(given: RunAgentInput, error: str) -> None:
    assert refused(given) == error


@pytest.mark.requirement("INPUT-3", "INPUT-4")
def test_paths_count_the_messages_that_are_sent() -> None:
    activity = ActivityMessage(id="x1", activity_type="plan", content={})
    assert refused(run_input(activity, {"id": 5, "role": "user", "content": "x"})).startswith("/messages/0/id ")


class _Colour(Enum):
    RED = 1


class _Cart(BaseModel):
    since: date


class _Grade(StrEnum):
    GOOD = "good"


@pytest.mark.requirement("INPUT-3")
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), " is nan, which is not a JSON number"),
        (float("-inf"), " is -inf, which is not a JSON number"),
        ({1, 2}, " is of type set, which JSON cannot hold"),
        (datetime(2026, 1, 1, tzinfo=UTC), " is of type datetime, which JSON cannot hold"),
        (Decimal(1), " is of type Decimal, which JSON cannot hold"),
        (b"x", " is of type bytes, which JSON cannot hold"),
        (_Colour.RED, " is of type _Colour, which JSON cannot hold"),
        ("\ud83d", " holds half of a character (a lone surrogate)"),
        ({1: "x"}, " has a name of type int that is not text"),
        ({"\ud83d": "x"}, " has a name of type str that is not text"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_path(value: Any, error: str) -> None:
    nested = {"a/b": [0, value]}
    user = {"id": "u1", "role": "user", "content": "x", "metadata": nested}
    tool = Tool(name="f", description="d", parameters=nested)
    assert refused(run_input(state=nested)) == f"/state/a~1b/1{error}"
    assert refused(run_input(forwarded_props=nested)) == f"/forwardedProps/a~1b/1{error}"
    assert refused(run_input(user)) == f"/messages/0/metadata/a~1b/1{error}"
    assert refused(run_input(tools=[tool])) == f"/tools/0/parameters/a~1b/1{error}"


def test_what_json_can_hold_after_all_is_sent() -> None:
    state = {"row": (1, (2,)), "model": _Cart(since=date(2026, 1, 2)), "grade": _Grade.GOOD, "face": "🙂", "big": 2**70}
    body, warnings = sent(run_input(state=state))
    plain = {"row": [1, [2]], "model": {"since": "2026-01-02"}, "grade": "good", "face": "🙂", "big": 2**70}
    assert body["state"] == plain
    assert warnings == []
    assert type(prepare_input(run_input(state=state), WarningLog()).state["grade"]) is str  # type: ignore[index]


def test_an_application_s_own_model_that_cannot_be_written_is_refused() -> None:
    cart = _Cart.model_construct(since=object())
    assert refused(run_input(state=cart)) == "/state is a _Cart that cannot be written as JSON"


def test_a_state_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    assert refused(run_input(state=loop)) == "/state contains itself, or is nested too deeply"


def test_an_object_that_is_no_message_is_refused() -> None:
    nonsense: Any = object()
    assert refused(run_input(nonsense)) == "/messages/0 is of type object, which JSON cannot hold"


# What an older peer gets


@pytest.mark.requirement("INPUT-2", "SET-16")
@pytest.mark.parametrize("peer", ["0.0.39", "0.0.57", "0.1", "0.9.9"])
def test_a_peer_from_before_1_0_is_not_told_the_version(peer: str) -> None:
    assert sent(run_input(), peer) == ({"messages": [], **EMPTY}, [])


@pytest.mark.requirement("VER-5", "VER-7", "SET-16")
@pytest.mark.parametrize(("peer", "tagged"), [("0.0.52", False), ("0.0.57", False), ("0.0.58", True), ("1.0", True)])
def test_subagent_tags_are_withheld_in_silence_from_peers_that_know_no_subagents(peer: str, *, tagged: bool) -> None:
    messages, warnings = messages_sent(AssistantMessage(id="a1", content="x", subagent_run_id="s1"), peer=peer)
    tag = {"subagentRunId": "s1"} if tagged else {}
    assert messages == [{"id": "a1", "role": "assistant", "content": "x", **tag}]
    assert warnings == []


@pytest.mark.requirement("VER-5", "VER-8", "SET-16", "TOOL-7")
def test_a_0_0_39_peer_gets_the_text_of_content_parts_and_the_developer_a_warning() -> None:
    activity: dict[str, Any] = {"id": "x1", "role": "activity", "activityType": "plan", "content": {}}
    user = UserMessage(id="u1", content=[TextPart(text="What is "), IMAGE, TextPart(text="this?")])
    result = ToolMessage(id="t1", tool_call_id="c1", content=[TextPart(text="done")], metadata=marked())
    messages, warnings = messages_sent(activity, user, result, peer="0.0.39")
    assert messages == [
        {"id": "u1", "role": "user", "content": "What is this?"},
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "done"},
    ]
    what = "/messages/0/content written as a string DROPS non-text parts (image)"
    assert warnings == [("VER-8", f"{what}: a peer of 0.0.39 or older takes none; upgrade it")]


@pytest.mark.requirement("VER-6")
def test_a_0_0_39_peer_gets_the_empty_string_for_absent_content() -> None:
    messages, warnings = messages_sent(AssistantMessage(id="a1"), peer="0.0.38")
    assert messages == [{"id": "a1", "role": "assistant", "content": ""}]
    assert warnings == []


@pytest.mark.requirement("VER-6")
def test_a_malformed_text_part_is_refused_and_not_flattened_away() -> None:
    message = {"id": "u1", "role": "user", "content": [{"type": "text", "text": 42}]}
    assert refused(run_input(message), "0.0.39") == "/messages/0/content/0/text should be a valid string, got 42"


@pytest.mark.requirement("VER-8")
def test_the_parent_run_is_withheld_from_a_0_0_39_peer_with_a_warning() -> None:
    body, warnings = sent(run_input(parent_run_id="p"), "0.0.39")
    assert body == {"messages": [], **EMPTY}
    assert [rule for rule, _ in warnings] == ["VER-8"]
    log = WarningLog()
    prepare_input(run_input(parent_run_id="p"), log, max_protocol_version="0.0.39")
    assert [record.path for record in log.records()] == ["/parentRunId"]
    assert sent(run_input(parent_run_id="p"), "0.0.40") == ({"messages": [], **EMPTY, "parentRunId": "p"}, [])


@pytest.mark.requirement("VER-4", "VER-5")
def test_a_newer_peer_keeps_content_parts() -> None:
    messages, warnings = messages_sent(UserMessage(id="u1", content=[IMAGE]), peer="0.0.40")
    assert messages[0]["content"][0]["type"] == "image"
    assert warnings == []


# Versions


@pytest.mark.requirement("VER-1")
def test_versions_compare_number_by_number() -> None:
    assert version_key("1.10") > version_key("1.9")
    assert version_key("1.0.0") == version_key("1.0") == version_key("1")
    assert version_key("0.0.39") < version_key("0.0.57") < version_key("0.1") < version_key("1.0")


@pytest.mark.parametrize("version", ["", "v1", "1.", ".1", "1.0-beta", "1.٣", "latest", "9" * 5000])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match=r"is not a version; write numbers and dots, such as 0\.0\.57 or 1\.0"):
        prepare_input(run_input(), WarningLog(), max_protocol_version=version)


@pytest.mark.requirement("VER-3")
@pytest.mark.parametrize("declared", [None, "1.0", "0.9", "0.57"])
def test_an_absent_equal_or_older_declaration_is_fine(declared: str | None) -> None:
    assert version_warning(declared) is None


@pytest.mark.requirement("VER-1", "VER-2")
@pytest.mark.parametrize("declared", ["1.1", "1.10", "2.0"])
def test_a_newer_declaration_is_warned_about(declared: str) -> None:
    assert version_warning(declared) == (
        f"the producer speaks protocol version {declared}, this client 1.0: what is new in it will be stripped",
        "upgrade the client to see it",
    )


@pytest.mark.requirement("VER-1", "VER-2")
@pytest.mark.parametrize("declared", ["1", "1.0.0", "v1", "draft", "", "1.0\n", "1.٣"])
def test_a_declaration_that_cannot_be_interpreted_is_warned_about(declared: str) -> None:
    assert version_warning(declared) == (
        (
            f"the producer declares protocol version {declared!r}, which this client cannot interpret: "
            "it speaks 1.0, and proceeds as with a newer producer"
        ),
        None,
    )
