"""Weaving: what one item needs is a strand, and the strands of a run are interleaved at random.

A strand sends an event and yields, so that others come in between; it looks at what is held when it sends, not when it
begins. Legal by construction: an id has one owner for good, and no two strands stream into one item at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from weaves import material
from weaves.naive import Json, Naive

THREAD_ID, RUN_ID = "thread-1", "run-1"
"""What a weave answers; runs before the last are replayed ones."""

Strand: TypeAlias = Generator[None, None, None]
Owner: TypeAlias = str | None

_FINAL = ("RUN_FINISHED", "RUN_ERROR")
_END_EVERY_LANE = ("RUN_STARTED", *_FINAL, "MESSAGES_SNAPSHOT")
_END_NO_LANE = ("RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED")


@dataclass(frozen=True)
class Weave:
    """A legal stream."""

    events: list[Json]
    """As they are sent."""
    meant: list[Json]
    """The same with every chunk told as the start and content it stands for."""
    messages: list[Json]
    """What they come to."""
    state: Any
    """What they come to."""

    @property
    def has_failed(self) -> bool:
        """Whether the last run reports a failure."""
        ends: list[str] = [event["type"] for event in self.meant if event["type"] in _FINAL]
        return ends[-1] == "RUN_ERROR"


@dataclass
class _Lane:
    """An open chunk stream."""

    kind: str
    item: str
    opener: Json


@dataclass
class _Run:
    """What is forgotten with a run."""

    busy: set[str] = field(default_factory=set[str])
    announced: list[str] = field(default_factory=list[str])
    steps: set[tuple[Owner, str]] = field(default_factory=set[tuple[Owner, str]])


class Loom:
    """Weaves one stream.

    Args:
        random: Decides everything.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[Json] = []
        self.meant: list[Json] = []
        self.naive = Naive()
        self._owners: dict[str, Owner] = {}
        self._answered: dict[str, str] = {}
        self._lanes: dict[Owner, _Lane] = {}
        self._run = _Run()

    def weave(self) -> Weave:
        """A stream of one run, or of some replayed ones and that."""
        for number in range(self.random.choice((0, 0, 0, 1, 2))):
            self._weave_run(f"replayed-{number}")
        self._weave_run(RUN_ID)
        return Weave(self.events, self.meant, self.naive.messages, self.naive.state)

    # --- one run

    def _weave_run(self, run_id: str) -> None:
        self._run = _Run()
        last = self.events[-1]["type"] if self.events else None
        if last != "RUN_ERROR" and self._one_in(15):
            self.send({"type": "RUN_ERROR", "message": "nothing will start"})
            return
        self.send({"type": "RUN_STARTED", "threadId": THREAD_ID, "runId": run_id, **self._introduction(run_id)})
        strands = [self._strand() for _ in range(self.random.randrange(1, 14))]
        while strands:
            if self._one_in(80):
                self.send({"type": "RUN_ERROR", "message": "in the middle", **self._usage()})
                return
            strand = self.random.choice(strands)
            if next(strand, StopIteration) is StopIteration:
                strands.remove(strand)
        self.send({"type": "RUN_FINISHED", "threadId": THREAD_ID, "runId": run_id, **self._conclusion()})
        if self._one_in(12):
            self.send({"type": "RUN_ERROR", "message": "after all", "code": "LATE"})

    def _introduction(self, run_id: str) -> Json:
        said: Json = {"protocolVersion": "1.0"} if self._one_in(2) else {}
        if self._one_in(5):
            messages = [self._new_message() for _ in range(self.random.randrange(3))]
            said["input"] = {"threadId": THREAD_ID, "runId": run_id, "messages": messages}
        return said

    def _conclusion(self) -> Json:
        outcomes: tuple[Json, ...] = (
            {},
            {"outcome": {"type": "success"}},
            {"outcome": {"type": "success", "pendingToolCallIds": list(self.naive.calls)[:1]}},
            {"outcome": {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "ask"}]}},
            {"outcome": {"type": "cancelled"}},
        )
        result: Json = {"result": 1} if self._one_in(4) else {}
        return {**self.random.choice(outcomes), **self._usage(), **result}

    def _usage(self) -> Json:
        return {"usage": [{"provider": "p", "inputTokens": 3}]} if self._one_in(4) else {}

    def _strand(self) -> Strand:
        return self.random.choice(_STRANDS)(self)

    # --- what strands need

    def send(self, event: Json, *meant: Json) -> None:
        """Send an event; what it means is itself unless something else is given."""
        self.events.append(event)
        self._close_lanes(event)
        for explicit in meant or (event,):
            if not explicit["type"].endswith("_CHUNK"):
                self.meant.append(explicit)
                self.naive.take(explicit)

    def _close_lanes(self, event: Json) -> None:
        """End the chunk streams that an event ends, by the specification's tables (CHUNK-7 … CHUNK-10)."""
        kind = event["type"]
        if kind in _END_EVERY_LANE:
            for owner in [*self._lanes]:
                self._close_lane(owner)
        elif kind not in _END_NO_LANE and not kind.endswith("_CHUNK"):
            for owner, lane in list(self._lanes.items()):
                id_field = "toolCallId" if lane.kind == "TOOL_CALL" else "messageId"
                is_named = kind.startswith(lane.kind) and event.get(id_field) == lane.item
                is_named = is_named and kind != "TOOL_CALL_RESULT"
                if owner == event.get("subagentRunId") or is_named:
                    self._close_lane(owner)

    def _close_lane(self, owner: Owner) -> None:
        """End a chunk stream: a call that was told again is compared with the one before it then."""
        lane = self._lanes.pop(owner, None)
        if lane is not None and lane.kind == "TOOL_CALL":
            self.naive.take({"type": "TOOL_CALL_END", "toolCallId": lane.item})

    def _one_in(self, many: int) -> bool:
        return self.random.randrange(many) == 0

    def _claim(self, family: str, many: int = 4) -> str | None:
        """An id of a family that no other strand streams into."""
        free = [item for item in (f"{family}{n}" for n in range(many)) if item not in self._run.busy]
        if not free:
            return None
        item = self.random.choice(free)
        self._run.busy.add(item)
        return item

    def _release(self, item: str) -> None:
        self._run.busy.discard(item)

    def _owner(self, item: str) -> Owner:
        return self._owners.setdefault(item, self.random.choice((None, None, "s1", "s2")))

    def _tag(self, owner: Owner, *, always: bool = False) -> Json:
        return {"subagentRunId": owner} if owner is not None and (always or self._one_in(2)) else {}

    def _extras(self) -> Json:
        return material.extras(self.random)

    def _deltas(self) -> list[str]:
        return [material.text(self.random) for _ in range(self.random.randrange(4))]

    # --- streamed items

    def text(self) -> Strand:
        item = self._claim("m")
        if item is None:
            return
        owner = self._owner(item)
        role = self.naive.by_id.get(item, {}).get("role") or self.random.choice(("assistant", "user", "system"))
        said: Json = {"role": role} if role != "assistant" or self._one_in(2) else {}
        said |= {"name": "ada"} if self._one_in(4) else {}
        if self._one_in(3):
            yield from self._chunks("TEXT_MESSAGE", {"messageId": item}, owner, said, {"role": role})
        else:
            yield from self._triad("TEXT_MESSAGE", {"messageId": item}, owner, said)
        self._release(item)

    def reasoning(self) -> Strand:
        item = self._claim("r")
        if item is None:
            return
        owner = self._owner(item)
        if self._one_in(3):
            yield from self._chunks("REASONING_MESSAGE", {"messageId": item}, owner, {}, {"role": "reasoning"})
        else:
            yield from self._triad("REASONING_MESSAGE", {"messageId": item}, owner, {"role": "reasoning"})
        self._release(item)

    def call(self) -> Strand:
        item = self._claim("c")
        if item is None:
            return
        parent = self.random.choice(("m0", "m1", "m2", "m3", None))
        if item in self._owners or parent is None:
            owner = self._owner(item)
            parent = parent if parent is not None and self._owner(parent) == owner else None
        else:
            owner = self._owners[item] = self._owner(parent)
        said: Json = {"toolCallName": f"tool-{item}", **({} if parent is None else {"parentMessageId": parent})}
        if self._one_in(3):
            yield from self._chunks("TOOL_CALL", {"toolCallId": item}, owner, said, {})
        else:
            yield from self._triad("TOOL_CALL", {"toolCallId": item}, owner, said)
        self._release(item)

    def _triad(self, family: str, item: Json, owner: Owner, said: Json) -> Strand:
        content = "ARGS" if family == "TOOL_CALL" else "CONTENT"
        always = {**item, **self._tag(owner, always=True)}
        self.send({"type": f"{family}_START", **always, **said, **self._extras()})
        yield
        for delta in self._deltas():
            continued = {**item, **self._tag(owner), **self._extras()}
            self.send({"type": f"{family}_{content}", **continued, "delta": delta})
            yield
        self.send({"type": f"{family}_END", **item, **self._tag(owner), **self._extras()})
        yield

    def _chunks(self, family: str, item: Json, owner: Owner, said: Json, by_omission: Json) -> Strand:
        """An item in chunks. Where another event has ended its stream, the next chunk opens it again."""
        for delta in self._deltas():
            carried = self._extras()
            given: Json = {} if self._one_in(8) else {"delta": delta}
            lane = self._lanes.get(owner)
            if lane is not None and (lane.kind, lane.item) == (family, next(iter(item.values()))):
                named = self._continuation(family, item, owner, lane)
            else:
                self._close_lane(owner)
                self._lanes[owner] = _Lane(family, next(iter(item.values())), said)
                named = {**item, **self._tag(owner, always=True), **said}
                lane = None
            chunk = {"type": f"{family}_CHUNK", **named, **given, **carried}
            self.send(chunk, *self._meant(family, item, owner, {**by_omission, **said}, chunk, is_first=lane is None))
            yield

    def _continuation(self, family: str, item: Json, owner: Owner, lane: _Lane) -> Json:
        """What a later chunk says about its stream: nothing, if only one is possible."""
        repeated = {name: value for name, value in lane.opener.items() if self._one_in(3)}
        rivals = [other for other in self._lanes.values() if other.kind == family]
        tag = self._tag(owner)
        is_clear = bool(tag) or owner is None or len(rivals) == 1
        return {**({} if is_clear and self._one_in(2) else item), **tag, **repeated}

    def _meant(
        self, family: str, item: Json, owner: Owner, said: Json, chunk: Json, *, is_first: bool
    ) -> tuple[Json, ...]:
        tagged = {**item, **({} if owner is None else {"subagentRunId": owner})}
        metadata = {"metadata": chunk["metadata"]} if "metadata" in chunk else {}
        content = {"type": f"{family}_{'ARGS' if family == 'TOOL_CALL' else 'CONTENT'}", **tagged}
        if not is_first and not chunk.keys() & {"delta", "metadata", "rawEvent"}:
            return ()
        if not is_first:
            return ({**content, "delta": chunk.get("delta", ""), **metadata},)
        start = {"type": f"{family}_START", **tagged, **said, **metadata}
        return (start, {**content, "delta": chunk["delta"], **metadata}) if "delta" in chunk else (start,)

    # --- everything else

    def result(self) -> Strand:
        item = self._claim("t")
        if item is None:
            return
        call = self._answered.setdefault(item, self.random.choice(("c0", "c1", "c2", "c9")))
        tag = self._tag(self._owner(item), always=True)
        content = material.parts(self.random)
        event = {"type": "TOOL_CALL_RESULT", "messageId": item, "toolCallId": call, "content": content}
        self.send({**event, **tag, **self._extras()})
        self._release(item)
        yield

    def span(self) -> Strand:
        span = self._claim("span r")
        if span is None:
            return
        item, owner = span.removeprefix("span "), self._owner(span)
        self.send({"type": "REASONING_START", "messageId": item, **self._tag(owner, always=True)})
        yield
        self.send({"type": "REASONING_END", "messageId": item, **self._tag(owner)})
        self._release(span)
        yield

    def encrypted(self) -> Strand:
        event = {"type": "REASONING_ENCRYPTED_VALUE", "encryptedValue": material.SECRET + material.text(self.random)}
        if self._one_in(2):
            self.send({**event, "subtype": "tool-call", "entityId": self.random.choice(("c0", "c1", "c9"))})
        else:
            self.send({**event, "subtype": "message", "entityId": self.random.choice(("m0", "r0", "a0", "t0", "m9"))})
        yield

    def activity(self) -> Strand:
        item = self.random.choice(("a0", "a1"))
        for _ in range(self.random.randrange(1, 4)):
            owner, named = self._owner(item), {"messageId": item, "activityType": self.random.choice(("plan", "map"))}
            held = self.naive.by_id.get(item)
            if held is None or self._one_in(3):
                replace: Json = self.random.choice(({}, {"replace": True}, {"replace": False}))
                event = {"type": "ACTIVITY_SNAPSHOT", "content": material.mapping(self.random), **replace}
            else:
                event = {"type": "ACTIVITY_DELTA", "patch": material.patch(self.random, held["content"])}
            tag = self._tag(owner, always=event["type"] == "ACTIVITY_SNAPSHOT")
            self.send({**event, **named, **tag, **self._extras()})
            yield

    def state(self) -> Strand:
        for _ in range(self.random.randrange(1, 4)):
            if self._one_in(3):
                event: Json = {"type": "STATE_SNAPSHOT", "snapshot": material.value(self.random, 3)}
            else:
                event = {"type": "STATE_DELTA", "delta": material.patch(self.random, self.naive.state)}
            self.send({**event, **self._tag("s1"), **self._extras()})
            yield

    def snapshot(self) -> Strand:
        messages = [self._restated(message) for message in self.naive.messages if not self._one_in(6)]
        messages += [self._new_message() for _ in range(self.random.randrange(2))]
        if self._one_in(2):
            self.random.shuffle(messages)
        self.send({"type": "MESSAGES_SNAPSHOT", "messages": messages, **self._extras()})
        yield

    def _restated(self, message: Json) -> Json:
        restated = copy.deepcopy(message)
        if self._one_in(4):
            restated.pop("metadata", None)
            restated.pop("encryptedValue", None)
        if message["role"] not in ("tool", "activity") and isinstance(message.get("content"), str) and self._one_in(4):
            restated["content"] = "restated"
        return restated

    def _new_message(self) -> Json:
        item = f"u{self.random.randrange(1000)}"
        return {"id": item, "role": "user", "content": material.parts(self.random)}

    def step(self) -> Strand:
        owner, name = self.random.choice((None, "s1")), self.random.choice(("look", "think"))
        if (owner, name) in self._run.steps:
            return
        self._run.steps.add((owner, name))
        self.send({"type": "STEP_STARTED", "stepName": name, **self._tag(owner, always=True)})
        yield
        self.send({"type": "STEP_FINISHED", "stepName": name, **self._tag(owner, always=True)})
        self._run.steps.discard((owner, name))
        yield

    def subagent(self) -> Strand:
        subagent = self.random.choice(("s1", "s2", "s3"))
        if subagent in self._run.announced:
            return
        parent: Json = {"parentSubagentRunId": self._run.announced[0]} if self._run.announced else {}
        self._run.announced.append(subagent)
        self.send({"type": "SUBAGENT_STARTED", "subagentRunId": subagent, "name": "scout", **parent})
        yield
        if self._one_in(3):
            self.send({"type": "SUBAGENT_ERROR", "subagentRunId": subagent, "message": "lost"})
        else:
            outcome: Json = self.random.choice(({}, {"outcome": {"type": "success"}}, {"result": [1]}))
            self.send({"type": "SUBAGENT_FINISHED", "subagentRunId": subagent, **outcome})
        yield

    def foreign(self) -> Strand:
        raw: Json = {"type": "RAW", "event": material.value(self.random)}
        custom: Json = {"type": "CUSTOM", "name": "ping", "value": material.value(self.random)}
        self.send({**self.random.choice((raw, custom)), **self._tag("s2"), **self._extras()})
        yield


_STRANDS = (
    *(Loom.text, Loom.text, Loom.text, Loom.call, Loom.call, Loom.call, Loom.reasoning, Loom.result, Loom.result),
    *(Loom.span, Loom.encrypted, Loom.activity, Loom.state, Loom.snapshot, Loom.step, Loom.subagent, Loom.foreign),
)


def weave(random: Random) -> Weave:
    """A random legal stream."""
    return Loom(random).weave()
