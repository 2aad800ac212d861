"""Answers of the right content type that hold no event: they are quoted, with the address, and without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from agui_client import AGUIError, DecodeError, HttpAgent, IncompleteRunError
from agui_client.testing import Reply, pause, serve_bytes, sse, text, turn
from support.verbs import Verb, every_verb

NO_JSON = "event 0: the frame is not JSON (Expecting value: line 1 column {} (char {})); {}"
NO_TYPE = "event 0: the frame has no `type` that is a string; {}"
ONE_EVENT = "the producer must send one AG-UI event per frame"
NOTHING = "the stream ended without any event: no run started, so there is no outcome"


def failure(agent: HttpAgent, verb: Verb | None = None) -> AGUIError:
    if verb is not None:
        error = verb(agent, "Hi").error
        assert isinstance(error, AGUIError)
        return error
    with pytest.raises(AGUIError) as caught:
        agent.run_agent_sync("Hi")
    return caught.value


@every_verb
def test_words_in_place_of_events_are_quoted_with_the_address_and_its_secrets_hidden(verb: Verb) -> None:
    with serve_bytes(b"data: Sorry, quota exceeded\n\n") as server:
        secret = server.url.replace("http://", "http://ada:s3cr3t@") + "agent?key=s3cr3t"
        error = failure(HttpAgent(secret), verb)
        words = f"{server.url}agent responded with 'Sorry, quota exceeded'"
    assert type(error) is DecodeError
    assert str(error) == f"{NO_JSON.format(1, 0, ONE_EVENT)}; {words}"


ANSWERS: dict[str, tuple[list[Any], type[AGUIError], str, str]] = {
    "words in pieces": (
        [b"data: Sorry, ", pause(0.01), b"quota\n\n"], DecodeError, NO_JSON.format(1, 0, ONE_EVENT), "'Sorry, quota'"
    ),
    "words on lines": (
        [b"event: error\r\ndata: Sorry,\r\ndata: quota\r\n\r\nmore"],
        DecodeError, NO_JSON.format(1, 0, ONE_EVENT), r"'Sorry,\nquota'",
    ),
    "the end of another protocol": (
        [b"data: [DONE]\n\n"], DecodeError, NO_JSON.format(2, 1, ONE_EVENT), "'[DONE]'"
    ),
    "an error of another protocol": (
        [b'data: {"error": {"message": "quota exceeded", "code": 429}}\n\ndata: [DONE]\n\n'],
        DecodeError, NO_TYPE.format(ONE_EVENT), "'quota exceeded'",
    ),
    "words that no blank line ends": (
        [b"data: Sorry"], IncompleteRunError,
        "the stream was cut inside a frame, 5 characters into it; the run has no outcome", "'Sorry'",
    ),
    "no frames": ([b"Sorry, quota exceeded"], IncompleteRunError, NOTHING, "'Sorry, quota exceeded'"),
    "an error without a frame": ([b'{"detail": "quota exceeded"}'], IncompleteRunError, NOTHING, "'quota exceeded'"),
    "many words": ([b"x" * 9999], IncompleteRunError, NOTHING, repr("x" * 300)[:299] + "\N{HORIZONTAL ELLIPSIS}"),
    "nothing": ([], IncompleteRunError, NOTHING, "nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.requirement("PROC-12", "TRUNC-1")
def test_an_answer_without_events_is_quoted(name: str) -> None:
    pieces, kind, happened, words = ANSWERS[name]
    with serve_bytes(Reply(pieces)) as server:
        error = failure(HttpAgent(server.url))
        assert (type(error), str(error)) == (kind, f"{happened}; {server.url} responded with {words}")


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"encryptedValue": "s3cr3t"}\n\n',
        b'data: {"error": "Authorization: Bearer s3cr3t was refused"}\n\n',
        b"data: Bearer s3cr3t was refused\n\n",
        b"data: cookie: s3cr3t\n\n",
        b"data: no answer from https://ada:s3cr3t@models/\n\n",
        b'data: {"type": "RAW", "event": "s3cr3t"\n\n',
        b'data: "encryptedValue": "s3cr3t"\n\n',
        b'data: ["s3cr3t"]\n\n',
        b"data: s3cr3t \xff\n\n",
        b": s3cr3t\n\n",
    ],
)
def test_what_may_hold_a_secret_is_not_quoted(body: bytes) -> None:
    with serve_bytes(body) as server:
        message = str(failure(HttpAgent(server.url)))
        assert message.endswith(f"; the response came from {server.url}")
    assert "s3cr3t" not in message


def test_behind_an_event_nothing_is_quoted() -> None:
    with serve_bytes(sse(turn(text("Hi.")))[:-40] + b"\n\ndata: Sorry\n\n") as server:
        message = str(failure(HttpAgent(server.url)))
    assert "Sorry" not in message
