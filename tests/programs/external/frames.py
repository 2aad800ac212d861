"""Streams of server-sent events, as this client and the parsers of three packages read them.

The cases follow files of web-platform-tests (eventsource/format-*.any.js), which no package has, as bytes and the data
of the events that a browser gets from them. Each comes whole, cut at random and byte by byte, and so do streams that
are put together at random. Where the parsers do not agree, `ON_PURPOSE` names the one that differs.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from random import Random
from typing import Any, TypeAlias

from agui_client._core.transport.numbered import NumberedFramer
from agui_client._core.transport.sse import Framer

from .judging import Case
from .packages import printed_by_node, python_package

PARSER, UNDICI, LAUNCHDARKLY = (
    ("eventsource-parser", "3.1.1"),
    ("undici", "7.30.2"),
    ("launchdarkly-eventsource", "1.7.4"),
)
Pieces: TypeAlias = Sequence[bytes]

_LONG = "x" * 2049
CASES: dict[str, tuple[str, list[str]]] = {
    "format-bom": ("\ufeffdata:1\n\n\ufeffdata:2\n\ndata:3\n\n", ["1", "3"]),
    "format-bom-2": ("\ufeff\ufeffdata:1\n\ndata:2\n\ndata:3\n\n", ["2", "3"]),
    "format-comments": (
        f"data:1\r:\0\n:\r\ndata:2\n:{_LONG}\rdata:3\n:data:fail\r:{_LONG}\ndata:4\n\n",
        ["1\n2\n3\n4"],
    ),
    "format-data-before-final-empty-line": ("retry:1000\ndata:test1\n\nid:test\ndata:test2", ["test1"]),
    "format-field-data": ("data:\n\ndata\ndata\n\ndata:test\n\n", ["", "\n", "test"]),
    "format-field-event-empty": ("event: \ndata:data\n\n", ["data"]),
    "format-field-event": ("event:test\ndata:x\n\ndata:x\n\n", ["x", "x"]),
    "format-field-id": ("id: …\ndata:1\n\n", ["1"]),
    "format-field-id-2": ("id\ndata:1\n\ndata:2\n\n", ["1", "2"]),
    "format-field-id-null": ("id:\0\0\ndata:x\n\n", ["x"]),
    "format-field-parsing": (
        "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
        ["\0\n 2\n1\n3\n\n4"],
    ),
    "format-field-retry": ("retry:03000\ndata:x\n\n", ["x"]),
    "format-field-retry-bogus": ("retry:3000\nretry:1000x\ndata:x\n\n", ["x"]),
    "format-field-retry-empty": ("retry\ndata:test\n\n", ["test"]),
    "format-field-unknown": ("data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\n\n", ["test\n"]),
    "format-leading-space": ("data:\ttest\rdata: \ndata:test\n\n", ["\ttest\n\ntest"]),
    "format-newlines": ("data:test\r\ndata\ndata:test\r\n\r\n", ["test\n\ntest"]),
    "format-null-character": ("data:\0\n\n\n\n", ["\0"]),
    "format-utf-8": ("data:ok…\n\n", ["ok…"]),
}
"""Streams by the names of the files that they follow, with the data of their events."""

_FIELDS = ["data", "data:", "data: ", "data:  ", "data:x", "data: é\U0001f600", ":", ": hi", "id: 1", "id", "retry: 5"]
_ODD = [
    "event: e",
    "retry: x",
    "id: 2\0",
    "foo: x",
    "Data: x",
    " data: x",
    "data : x",
    "data: a: b",
    "data: \ufeff",
    "",
]
_ENDS = ["\n", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r"]
_RANDOM = 2_000

_PARSER_PROGRAM = """
import { createParser } from "eventsource-parser";
import { text } from "node:stream/consumers";
console.log(JSON.stringify(JSON.parse(await text(process.stdin)).map((pieces) => {
  const data = [], decoder = new TextDecoder();
  let retry = null;
  const parser = createParser({ onEvent: (event) => data.push(event.data), onRetry: (value) => (retry = value) });
  for (const piece of pieces) parser.feed(decoder.decode(Buffer.from(piece, "latin1"), { stream: true }));
  return { data, retry };
})));
"""
_UNDICI_PROGRAM = """
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
const { EventSourceStream } = createRequire(process.cwd() + "/x")("undici/lib/web/eventsource/eventsource-stream.js");
console.log(JSON.stringify(JSON.parse(await text(process.stdin)).map((pieces) => {
  const data = [], state = {};
  const stream = new EventSourceStream({ eventSourceSettings: state, push: (event) => data.push(event.options.data) });
  for (const piece of pieces) stream._transform(Buffer.from(piece, "latin1"), "", () => {});
  return { data, retry: state.reconnectionTime ?? null, id: state.lastEventId ?? null };
})));
"""

ON_PURPOSE = {
    f"format-bom, {how}, launchdarkly-eventsource": "that parser takes a byte order mark for a part of the first line"
    for how in ("whole", "cut", "byte by byte")
}


def cases() -> Iterator[Case]:
    """Read each stream in each way of cutting it, and compare with the table and with the three parsers."""
    random = Random(1)
    streams = {name: stream.encode() for name, (stream, _) in CASES.items()}
    streams |= {f"random {seed}": _random_stream(Random(seed)) for seed in range(_RANDOM)}
    cut = {name: [[stream], _cut(stream, random), _cut(stream, random, 1)] for name, stream in streams.items()}
    ways = {f"{name}, {how}": each for name, all_ways in cut.items() for how, each in zip(_HOW, all_ways, strict=True)}
    given = [[piece.decode("latin-1") for piece in pieces] for pieces in ways.values()]
    readings = {
        PARSER[0]: printed_by_node(PARSER, _PARSER_PROGRAM, given),
        UNDICI[0]: printed_by_node(UNDICI, _UNDICI_PROGRAM, given),
        LAUNCHDARKLY[0]: [*map(_launchdarkly_reader(), ways.values())],
    }
    for number, (name, pieces) in enumerate(ways.items()):
        ours = _read(pieces)
        stream = name.rpartition(",")[0]
        if stream in CASES:
            yield Case(name, _difference(ours, {"data": CASES[stream][1]}))
        for package, theirs in readings.items():
            if package == LAUNCHDARKLY[0] and stream not in CASES and pieces[0].startswith(codecs.BOM_UTF8[:1]):
                continue  # as in ON_PURPOSE
            yield Case(f"{name}, {package}", _difference(ours, theirs[number]))


_HOW = ("whole", "cut", "byte by byte")


def _read(pieces: Pieces) -> dict[str, Any]:
    """Read a stream with both framers of this client; the last piece ends its last frame."""
    plain, numbered = Framer(1_000_000), NumberedFramer(1_000_000, drops_known=False)
    data = [each for piece in pieces for each in plain.feed(piece)]
    assert data == [each for piece in pieces for each in numbered.feed(piece)]
    seconds = numbered.retry_seconds
    return {"data": data, "retry": None if seconds is None else round(seconds * 1000), "id": numbered.cursor}


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    # A frame without data is no event of AG-UI, but a priming or a keep-alive (SSE-5).
    expected = [each for each in theirs["data"] if each]
    if ours["data"] != expected:
        return f"the data is {ours['data']!r}, and {expected!r} there"
    if "retry" in theirs and ours["retry"] != theirs["retry"]:
        return f"the wait is {ours['retry']!r}, and {theirs['retry']!r} there"
    # None where no request goes on behind the last event, which a browser does not judge.
    if theirs.get("id") is not None and ours["id"] not in (None, theirs["id"]):
        return f"the stream is taken up behind {ours['id']!r}, and {theirs['id']!r} there"
    return None


def _launchdarkly_reader() -> Callable[[Pieces], dict[str, Any]]:
    sys.path.append(str(python_package(*LAUNCHDARKLY)))
    reader: Any = import_module("ld_eventsource.reader")

    def read(pieces: Pieces) -> dict[str, Any]:
        """Read a stream."""
        waits: list[int] = []
        lines = reader._BufferedLineReader.lines_from(pieces)
        events = reader._SSEReader(lines, None, waits.append).events_and_comments()
        data = [each.data for each in events if hasattr(each, "data")]
        return {"data": data, "retry": waits[-1] if waits else None}

    return read


def _cut(stream: bytes, random: Random, most: int = 12) -> list[bytes]:
    pieces: list[bytes] = []
    while stream:
        length = random.randint(1, most)
        pieces.append(stream[:length])
        stream = stream[length:]
    return pieces


def _random_stream(random: Random) -> bytes:
    text = "\ufeff" * (random.random() < 0.1)
    for _ in range(random.randint(1, 14)):
        text += random.choice(_FIELDS if random.random() < 0.8 else _ODD) + random.choice(_ENDS)
    return f"{text}\n\n".encode()
