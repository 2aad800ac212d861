"""Secrets in recordings: found at any depth of JSON, in pieces and in what is no JSON; nothing else is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from hypothesis import given
from hypothesis import strategies as st

from agui_client import tool
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client._core.protocol.events import VALIDATOR, UnrecognizedEvent
from agui_client.recording import Recording, ReplayAgent, record
from agui_client.recording._format import AgentRecord
from support.secret_texts import random_pieces, random_text, shows_secret
from weaves.memory import Server, framed

INPUT = RunAgentInput.model_validate(
    {"threadId": "t", "runId": "r", "state": None, "messages": [], "tools": [], "context": [], "forwardedProps": None}
)
HUGE = "9" * 5000


def recorded(
    path: Path,
    events: Sequence[dict[str, Any] | Event],
    *,
    ends: bool = True,
    sent: SentSecrets | None = None,
    **members: Any,
) -> list[dict[str, Any]]:
    """The events of an answer, as they are in its recording."""
    recorder = record(path)
    input = INPUT.model_copy(update=members)
    key = recorder.begin_request(recorder.new_call(), input, agent=AgentRecord(agent_id="a"), sent=sent)
    for event in events:
        recorder.write_event(key, UnrecognizedEvent(event["type"], event) if isinstance(event, dict) else event)
    if ends:
        recorder.end_request(key, None, is_whole=True, is_in_process=False)
    recorder.close()
    return [line.event for line in Recording.read(path).exchanges[0].events]


def pieces_of(pieces: list[str]) -> list[dict[str, Any]]:
    return [{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": piece} for piece in pieces]


def joined(events: list[dict[str, Any]]) -> str:
    return "".join(event.get("delta", "") for event in events)


END = {"type": "TOOL_CALL_END", "toolCallId": "c"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f'{{"n": {HUGE}, "authorization": "s"}}', f'{{"n": {HUGE}, "authorization": "[redacted]"}}'),
        ('{"cookie": "s", "cookie": "s"}', '{"cookie": "[redacted]", "cookie": "[redacted]"}'),
        ('{"\\u0061uthorization" : "\\u0073"}', '{"\\u0061uthorization" : "[redacted]"}'),
        ('{"a": 1.0}\n{"Api-Key": "s"}', '{"a": 1.0}\n{"Api-Key": "[redacted]"}'),
        ('"{\\"in\\": \\"{\\\\\\"password\\\\\\": 7}\\"}"', '"{\\"in\\": \\"{\\\\\\"password\\\\\\": 0}\\"}"'),
        ('{"access_token": {"a": ["s", 5, true]}}', '{"access_token": {"a": ["[redacted]", 0, true]}}'),
        ('[["authorization", "s"], ["a", "b"]]', '[["authorization", "[redacted]"], ["a", "b"]]'),
        ('{"name": "Set-Cookie", "value": "s"}', '{"name": "Set-Cookie", "value": "[redacted]"}'),
        ('{"value": "s", "path": "/a~1authorization"}', '{"value": "[redacted]", "path": "/a~1authorization"}'),
        ('{"token": "s", "Secret": ["s"]}', '{"token": "[redacted]", "Secret": ["[redacted]"]}'),
        ('{"max_tokens": 5, "tokens": 5, "pageToken": "p"}', '{"max_tokens": 5, "tokens": 5, "pageToken": "p"}'),
        (
            '{"db_pass": "s", "pwd": "s", "bypass": "b"}',
            '{"db_pass": "[redacted]", "pwd": "[redacted]", "bypass": "b"}',
        ),
        ('{"said": "Bearer abc.def, then"}', '{"said": "Bearer [redacted], then"}'),
        ("Basic dXNlcjpwYXNz is a basic scheme", "Basic [redacted] is a basic scheme"),
        ("use sk-proj-0123456789abcdef for task-0123456789abcdef", "use [redacted] for task-0123456789abcdef"),
        ("see https://h/?token=s&page_token=2", "see https://h/?token=[redacted]&page_token=2"),
        ('{"required": ["api_key", "place"]}', '{"required": ["api_key", "place"]}'),
        (
            '{"properties": {"password": {"type": "string", "default": "s"}}}',
            '{"properties": {"password": {"type": "string", "default": "[redacted]"}}}',
        ),
        ('"see https:\\/\\/ada:s@h/?q=1"', '"see https:\\/\\/[redacted]@h/?q=1"'),
        ("see https://h/?q=1&api_key=s&n=2 there", "see https://h/?q=1&api_key=[redacted]&n=2 there"),
        ("Host: h\nAuthorization: Bearer s\nAccept: *", "Host: h\nAuthorization: [redacted]\nAccept: *"),
        ("PASSWORD = 's'\nuser = 'ada'", "PASSWORD = [redacted]\nuser = 'ada'"),
        ('It says {"encryptedValue": "s"}.', "[redacted]"),
        ('data: {"cookie": "s"}\n\n', "[redacted]"),
        ('{"authorization": "Bearer s', "[redacted]"),
        ("{'authorization': 's'}", "[redacted]"),
        ("[(b'cookie', b's')]", "[redacted]"),
        ("headers['Authorization'] = 's'", "[redacted]"),
        ("authorization:\n  Bearer s", "authorization:[redacted]"),
        ('The "authorization" header, and cookies. {', 'The "authorization" header, and cookies. {'),
    ],
)
def test_what_can_be_read_is_redacted_in_its_place_and_the_rest_as_a_whole(
    text: str, shown: str, tmp_path: Path
) -> None:
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": text}
    error = {"type": "RUN_ERROR", "message": text}
    assert recorded(tmp_path / "run.jsonl", [result, error], state={"in": text}) == [
        result | {"content": shown},
        error | {"message": shown},
    ]
    (exchange,) = Recording.read(tmp_path / "run.jsonl").exchanges
    assert exchange.input.state == {"in": shown}


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        (
            [{"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/headers/Authorization/0", "value": [7, "s"]}]}],
            [
                {
                    "type": "STATE_DELTA",
                    "delta": [{"op": "add", "path": "/headers/Authorization/0", "value": [0, "[redacted]"]}],
                }
            ],
        ),
        (
            [{"type": "RAW", "event": {"HEADERS": [["x-api-key", "s"]]}, "rawEvent": {"proxy_authorization": "s"}}],
            [
                {
                    "type": "RAW",
                    "event": {"HEADERS": [["x-api-key", "[redacted]"]]},
                    "rawEvent": {"proxy_authorization": "[redacted]"},
                }
            ],
        ),
    ],
)
def test_events_keep_their_shape(events: list[dict[str, Any]], shown: list[dict[str, Any]], tmp_path: Path) -> None:
    assert recorded(tmp_path / "run.jsonl", events) == shown


def test_pieces_get_their_part_of_the_redacted_text_and_copies_of_them_are_left_out(tmp_path: Path) -> None:
    sent = pieces_of(['{"place": "Oslo", "autho', 'rization"', ': "Bea', "rer", ' s", "days', '": 2}'])
    sent[3]["rawEvent"] = {"arguments": "rer"}
    shown = ['{"place": "Oslo", "autho', 'rization"', ': "[redacted]', "", '", "days', '": 2}']
    events = recorded(tmp_path / "run.jsonl", [*sent, END])
    assert [event.get("delta") for event in events] == [*shown, None]
    assert events[3]["rawEvent"] == "[redacted]"


def test_a_program_that_is_killed_has_written_what_came_before_a_secret(tmp_path: Path) -> None:
    sent = pieces_of(['{"place": "Oslo"', ', "autho', 'rization": "Bea', 'rer s"'])
    assert recorded(tmp_path / "run.jsonl", sent, ends=False) == sent[:2]


@pytest.mark.parametrize("said", ["Bearer Qq7.Zz9/XxY, too", "basic QqZ7XxQ7ZzXx=", "sk-Qq-7Zz9XxQq7Zz9XxQq"])
@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_a_secret_without_a_name_is_in_no_piece(said: str, size: int, tmp_path: Path) -> None:
    text = f"I use {said}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    shown = joined(recorded(tmp_path / "run.jsonl", [*pieces_of(pieces), END]))
    assert shown.startswith("I use ")
    assert not set("QqZzXx79") & set(shown)


def test_a_text_that_is_cut_off_or_goes_on_behind_its_end_shows_no_secret(tmp_path: Path) -> None:
    cut = pieces_of(['{"password": ', '"se', "sa"])
    assert joined(recorded(tmp_path / "cut.jsonl", cut)) == "[redacted]"
    split = [*pieces_of(['{"password":']), END, *pieces_of([' "sesame"}']), END]
    assert joined(recorded(tmp_path / "split.jsonl", split)) == "[redacted][the rest is redacted]"


def test_texts_side_by_side_do_not_wait_for_each_other_longer_than_for_their_own_ends(tmp_path: Path) -> None:
    chunks: list[dict[str, Any]] = [
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "delta": '{"cookie'},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hello"},
        {"type": "TOOL_CALL_CHUNK", "delta": '": "s"}'},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": " you."},
    ]
    shown = [chunks[0], chunks[1], chunks[2] | {"delta": '": "[redacted]"}'}, chunks[3]]
    assert recorded(tmp_path / "run.jsonl", chunks) == shown


def test_a_run_with_secrets_in_the_pieces_of_its_arguments_is_replayed(tmp_path: Path) -> None:
    @tool
    def send(headers: dict[str, str], body: str) -> str:
        """Sends."""
        return f"sent {body}"

    path, text = tmp_path / "run.jsonl", json.dumps({"headers": {"Authorization": "sesame"}, "body": "x"})
    started, ended = ({"type": f"RUN_{what}", "threadId": "thread-1", "runId": "r"} for what in ("STARTED", "FINISHED"))
    call = [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "send"},
        *pieces_of([text[at : at + 3] for at in range(0, len(text), 3)]),
        END,
    ]
    answer = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Done."}
    bodies = [[framed(map(json.dumps, [started, *steps, ended]))] for steps in (call, [answer])]
    agent = Server(*bodies).agent(tools=[send]).use(record(path))
    assert agent.run_agent_sync("Send it", run_id="r").text == "Done."
    assert "sesame" not in path.read_text("utf-8")
    first = Recording.read(path).exchanges[0]
    assert joined([line.event for line in first.events]) == text.replace("sesame", "[redacted]")
    assert ReplayAgent(path, tools=[send]).run_agent_sync("Send it").text == "Done."


@given(random=st.randoms(use_true_random=False))
def test_no_character_of_a_secret_is_recorded(random: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("secrets") / "run.jsonl"
    text = random_text(random, has_secret=True)
    pieces = random_pieces(random, text)
    events = [
        *pieces_of(pieces),
        *([END] if random.random() < 0.7 else []),
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": text},
        {"type": "CUSTOM", "name": "n", "value": {"in": [text]}},
    ]
    shown = recorded(path, events, state={"in": text})
    assert len(shown) == len(events)
    assert not shows_secret(path.read_text("utf-8"))
    assert not shows_secret(joined(shown))
    # What a replay makes of the pieces and asks is what was recorded, or has lost even more.
    asked = recorded(path.with_name("again.jsonl"), [events[-2] | {"content": joined(shown)}])[0]["content"]
    assert asked in (shown[-2]["content"], "[redacted]")


_CREDENTIAL = "abc123/def-456"
_MENTIONS = (
    *('password": "x", ', "Bearer abcdefgh ", "Basic aGVsbG8X ", "http://us:pw@h/ ", "sk-abcdefghijklmnopqrs "),
    *(_CREDENTIAL, "\\u0070assword: x", "api_key=xyz&", '{"path":"/token","value":"zz"}', "monkey ", "basics "),
)
"""Secrets, and words that have a part of their names."""


def _pieces_with_mentions(random: Random) -> list[str]:
    """A text of plain words with a mention here and there, in pieces of a few characters."""
    words = random.choice(["", '{"a": "', " "])
    for _ in range(random.choice([1, 3])):
        words += "plain " * random.choice([2, 50]) + random.choice(_MENTIONS)
    text, longest = words + random.choice([" end", '"}']), random.choice([1, 3, 12])
    places = [0]
    while places[-1] < len(text):
        places.append(places[-1] + random.randint(1, longest))
    return [text[start:end] for start, end in pairwise(places)]


@given(random=st.randoms(use_true_random=False))
def test_pieces_of_official_events_are_recorded_as_those_of_other_json_are(
    random: Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, sent = tmp_path_factory.mktemp("pieces"), SentSecrets()
    if random.random() < 0.5:
        sent.add_request("http://agent/", [("authorization", f"Bearer {_CREDENTIAL}")])
    item_id = random.choice(["i", "i", "i", "token", _CREDENTIAL, '"delta":"'])
    call: list[dict[str, Any]] = [
        {"type": "TOOL_CALL_ARGS", "toolCallId": item_id, "delta": piece} for piece in _pieces_with_mentions(random)
    ]
    said = [
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": item_id, "delta": piece}
        for piece in _pieces_with_mentions(random)
    ]
    events, lanes = list[dict[str, Any]](), [[*call, {"type": "TOOL_CALL_END", "toolCallId": item_id}], said]
    while lanes := [lane for lane in lanes if lane]:
        lane, count = random.choice(lanes), random.choice([1, 20])
        events += lane[:count]
        del lane[:count]
    official: list[Event] = [VALIDATOR.validate_python(event, by_alias=True) for event in events]
    assert recorded(folder / "a", official, sent=sent) == recorded(folder / "b", events, sent=sent)


@given(random=st.randoms(use_true_random=False))
def test_what_has_no_secret_is_recorded_as_it_is(random: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = random_text(random, has_secret=False)
    events = [
        *pieces_of(random_pieces(random, text)),
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": text},
    ]
    assert recorded(tmp_path_factory.mktemp("clean") / "run.jsonl", events) == events
