"""What a stream of expanded events comes to, told as plainly as possible: dicts and lists, everything copied.

The oracle for the reducer: no builders, no sharing, no caching. It takes events as JSON objects, in any order; what
fits nothing is skipped, as the client's settled questions say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import NAMESPACE_OID, uuid5

import jsonpatch

Json: TypeAlias = dict[str, Any]


class Naive:
    """Messages and state, as JSON.

    Args:
        messages: The messages so far.
        state: The state so far.
    """

    def __init__(self, messages: list[Json] | None = None, state: Any = None) -> None:
        self.state: Any = {} if state is None else state
        self.messages: list[Json] = []
        self.by_id: dict[str, Json] = {}
        self.calls: dict[str, tuple[Json, Json]] = {}
        """The latest tool call of each id with the message it is on."""
        self.results: dict[str, Json] = {}
        """The first result of each of these calls, by the call's id."""
        self.earlier: dict[str, list[tuple[tuple[Json, Json], Json]]] = {}
        """The calls of each id before these, with their results."""
        self._streamed_part: set[str] = set()
        self._anew: set[str] = set()
        self._told_again: set[str] = set()
        """The ids of calls that name the message of the call before them, and are that call if they say the same."""
        self.hold(messages or [])

    def take(self, event: Json) -> None:
        """Take in one event."""
        reduce = _FAMILIES.get(event["type"])
        if reduce is not None:
            reduce(self, copy.deepcopy(event))

    def hold(self, messages: list[Json]) -> None:
        """Hold these messages instead."""
        self.messages, self.by_id, self.calls, self.results, self.earlier = [], {}, {}, {}, {}
        self._streamed_part.clear()
        self._anew.clear()
        self._told_again.clear()
        for message in messages:
            self.put(message)

    def put(self, message: Json, at: int | None = None) -> Json:
        """Put a message at a place, the end by default."""
        self.messages.insert(len(self.messages) if at is None else at, message)
        self.register(message)
        return message

    def register(self, message: Json) -> None:
        """Of two with one id the first one that came is the one that is found."""
        self.by_id.setdefault(message["id"], message)
        if message["role"] == "tool":
            self.results.setdefault(message["toolCallId"], message)
        for call in message.get("toolCalls") or ():
            self.follow(message, call)

    def follow(self, message: Json, call: Json) -> None:
        """A call of an id whose latest call has its result is another one."""
        if call["id"] in self.calls and call["id"] in self.results:
            before = self.calls.pop(call["id"]), self.results.pop(call["id"])
            self.earlier.setdefault(call["id"], []).append(before)
        self.calls.setdefault(call["id"], (message, call))

    def free_id(self, taken: str) -> str:
        """An id for a message whose own is taken."""
        found, number = taken, 2
        while found in self.by_id:
            found, number = str(uuid5(NAMESPACE_OID, f"{taken}/{number}")), number + 1
        return found

    def takes_text(self, event: Json) -> Json | None:
        """The message an event of a text is about, unless it is one that holds no text."""
        message = self.by_id.get(event["messageId"])
        return None if message is None or message["role"] in ("tool", "activity") else message

    # --- text and reasoning messages

    def text_start(self, event: Json) -> None:
        if event["messageId"] not in self.by_id:
            role = event.get("role") or ("reasoning" if event["type"].startswith("REASONING") else "assistant")
            message = {"id": event["messageId"], "role": role, "content": "", **picked(event, "name", "subagentRunId")}
            self.put(message)
        self.text_end(event)

    def text_content(self, event: Json) -> None:
        message = self.takes_text(event)
        if message is None:
            return
        if isinstance(message.get("content"), list):
            self._append_to_parts(message, event["delta"])
        else:
            message["content"] = (message.get("content") or "") + event["delta"]
        merge(message, event)

    def _append_to_parts(self, message: Json, delta: str) -> None:
        if message["id"] in self._streamed_part:
            message["content"][-1]["text"] += delta
        elif delta:
            self._streamed_part.add(message["id"])
            message["content"].append({"type": "text", "text": delta})

    def text_end(self, event: Json) -> None:
        message = self.takes_text(event)
        if message is not None:
            merge(message, event)

    # --- tool calls

    def call_start(self, event: Json) -> None:
        call_id = event["toolCallId"]
        self._anew.discard(call_id)
        self._told_again.discard(call_id)
        if call_id in self.calls and call_id not in self.results:
            if is_whole(self.calls[call_id][1]["function"]["arguments"]):
                self._anew.add(call_id)
        else:
            is_another = call_id in self.calls
            if is_another and self.calls[call_id][0]["id"] == event.get("parentMessageId"):
                self._told_again.add(call_id)
            function = {"name": event["toolCallName"], "arguments": ""}
            message, call = self._caller(event), {"id": call_id, "type": "function", "function": function}
            message.setdefault("toolCalls", []).append(call)
            if is_another:
                self.follow(message, call)
            self.calls[call_id] = message, call
        merge(self.calls[call_id][1], event)

    def _caller(self, event: Json) -> Json:
        """The message a new call goes on: its parent, else one of the call's own."""
        call_id: str = event["toolCallId"]
        message_id = call_id
        for chosen in (event.get("parentMessageId") or call_id, call_id):
            message_id = chosen
            message = self.by_id.get(message_id)
            if message is not None and message["role"] == "assistant":
                if all(call["id"] != call_id for call in message.get("toolCalls") or ()):
                    return message
                message_id = self.free_id(message_id)
                break
            if message is None:
                break
        return self.put({"id": message_id, "role": "assistant", **picked(event, "subagentRunId")})

    def call_args(self, event: Json) -> None:
        if event["toolCallId"] in self.calls:
            _, call = self.calls[event["toolCallId"]]
            if event["delta"] and event["toolCallId"] in self._anew:
                self._anew.discard(event["toolCallId"])
                call["function"]["arguments"] = ""
            call["function"]["arguments"] += event["delta"]
            merge(call, event)

    def call_end(self, event: Json) -> None:
        call_id = event["toolCallId"]
        if call_id in self._told_again and self._says_the_same(call_id):
            self._withdraw(call_id)
        elif call_id in self.calls:
            merge(self.calls[call_id][1], event)
        self._told_again.discard(call_id)

    def call_result(self, event: Json) -> None:
        call_id = event["toolCallId"]
        is_told_again = call_id not in self.results and self._says_the_same(call_id)
        if is_told_again and self.earlier[call_id][-1][1]["content"] == event["content"]:
            self._withdraw(call_id)
        held = self.by_id.get(event["messageId"], {})
        twin = self.results.get(event["toolCallId"], {})
        if held and any(result is held for _, result in self.earlier.get(event["toolCallId"], ())):
            event["messageId"], held = self.free_id(event["messageId"]), twin
        if not held and twin.get("content") == event["content"]:
            held = twin
        elif held.get("role") != "tool" or held.get("toolCallId") != event["toolCallId"]:
            held = {"id": event["messageId"], "role": "tool", **picked(event, "toolCallId", "subagentRunId")}
            self.put(held, self._place_of_result(event["toolCallId"]))
        held["content"] = event["content"]
        merge(held, event)

    def _says_the_same(self, call_id: str) -> bool:
        """Whether a call has the name and the arguments of the one before it."""
        before = self.earlier.get(call_id, [])[-1:]
        return any(is_same(call["function"], self.calls[call_id][1]["function"]) for (_, call), _ in before)

    def _withdraw(self, call_id: str) -> None:
        """Take a call out again, which is its predecessor."""
        caller, again = self.calls[call_id]
        self.calls[call_id], self.results[call_id] = self.earlier[call_id].pop()
        caller["toolCalls"] = [each for each in caller["toolCalls"] if each is not again]
        if not caller["toolCalls"]:
            del caller["toolCalls"]
            if "content" not in caller:
                self.messages = [each for each in self.messages if each is not caller]
                del self.by_id[caller["id"]]

    def _place_of_result(self, call_id: str) -> int:
        if call_id not in self.calls:
            return len(self.messages)
        caller, _ = self.calls[call_id]
        place = next(index for index, message in enumerate(self.messages) if message is caller) + 1
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        return place

    def encrypted_value(self, event: Json) -> None:
        if event["subtype"] == "tool-call":
            holder = self.calls.get(event["entityId"], ({}, {}))[1]
        else:
            holder = self.by_id.get(event["entityId"], {})
        if holder and holder.get("role") != "activity":
            holder["encryptedValue"] = event["encryptedValue"]

    # --- what is replaced and patched

    def activity_snapshot(self, event: Json) -> None:
        held = self.by_id.get(event["messageId"])
        if held is not None and event.get("replace") is False:
            if held["role"] == "activity":
                merge(held, event)
            return
        fresh = {"id": event["messageId"], "role": "activity"}
        fresh |= picked(event, "activityType", "content", "subagentRunId")
        if held is not None and held["role"] == "activity":
            fresh |= picked(held, "metadata")
        merge(fresh, event)
        if held is None:
            self.put(fresh)
            return
        self.calls = {call_id: on for call_id, on in self.calls.items() if on[0] is not held}
        self.messages = [fresh if message is held else message for message in self.messages]
        self.by_id[event["messageId"]] = fresh

    def activity_delta(self, event: Json) -> None:
        held = self.by_id.get(event["messageId"])
        if held is None or held["role"] != "activity":
            return
        content = patched(held["content"], event["patch"])
        if isinstance(content, dict):
            held |= {"content": content, "activityType": event["activityType"]}
        merge(held, event)

    def state_snapshot(self, event: Json) -> None:
        self.state = event["snapshot"]

    def state_delta(self, event: Json) -> None:
        state = patched(self.state, event["delta"])
        self.state = self.state if state is FAILED else state

    def messages_snapshot(self, event: Json) -> None:
        incoming: dict[str, Json] = {message["id"]: message for message in event["messages"]}
        declared = {message["role"] for message in incoming.values()}
        kept = {"activity", "reasoning"} - declared
        moved = self._results_of_new_calls(incoming)
        merged = [incoming.pop(m["id"], m) for m in self.messages if m["id"] in incoming or m["role"] in kept]
        merged = [m for m in merged if m not in moved]
        called = {call["id"] for message in merged for call in message.get("toolCalls") or ()}
        late = [m for m in incoming.values() if m["role"] == "tool" and m["toolCallId"] in called]
        self.hold([*merged, *(m for m in incoming.values() if m not in late)])
        for message in [*late, *moved]:
            place = self._place_of_result(message["toolCallId"])
            caller, call = self.calls[message["toolCallId"]]
            order = [each["id"] for each in caller["toolCalls"]]
            behind = order[order.index(call["id"]) + 1 :]
            first = next(index for index, each in enumerate(self.messages) if each is caller) + 1
            later = [at for at in range(first, place) if self.messages[at]["toolCallId"] in behind]
            self.put(message, min([place, *later]))

    def _results_of_new_calls(self, incoming: dict[str, Json]) -> list[Json]:
        """The results that were there, of calls on messages that a snapshot brings: they go behind those."""
        known, callers = {message["id"] for message in self.messages}, dict[str, str]()
        moved: list[Json] = []
        for message in incoming.values():
            if message["role"] == "assistant":
                callers |= {call["id"]: message["id"] for call in message.get("toolCalls") or ()}
            elif message["role"] == "tool" and message["id"] in known:
                caller = callers.get(message["toolCallId"])
                moved += [message] if caller is not None and caller not in known else []
        return moved

    def run_started(self, event: Json) -> None:
        for message in event.get("input", {}).get("messages", ()):
            if message["id"] not in self.by_id:
                self.put(message)


FAILED: Any = object()
"""What a patch that does not apply comes to."""


def is_whole(arguments: str) -> bool:
    """Whether arguments are a whole JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def is_same(one: Json, other: Json) -> bool:
    """Whether the functions of two calls are the same, with arguments that are the same JSON if they are JSON."""
    if one == other:
        return True
    try:
        arguments = [json.loads(each["arguments"] or "{}") for each in (one, other)]
    except ValueError:
        return False
    return one["name"] == other["name"] and json.dumps(arguments[0], sort_keys=True) == json.dumps(
        arguments[1], sort_keys=True
    )


def patched(document: Any, operations: list[Json]) -> Any:
    """The document with a patch applied to a copy of it."""
    try:
        return jsonpatch.apply_patch(copy.deepcopy(document), operations)
    except Exception:
        return FAILED


def picked(event: Json, *names: str) -> Json:
    """Those members of an event that it has."""
    return {name: event[name] for name in names if name in event}


def merge(holder: Json, event: Json) -> None:
    """Merge an event's metadata, key by key."""
    if event.get("metadata"):
        holder["metadata"] = {**holder.get("metadata", {}), **event["metadata"]}


_FAMILIES: dict[str, Callable[[Naive, Json], None]] = {
    "TEXT_MESSAGE_START": Naive.text_start,
    "TEXT_MESSAGE_CONTENT": Naive.text_content,
    "TEXT_MESSAGE_END": Naive.text_end,
    "REASONING_MESSAGE_START": Naive.text_start,
    "REASONING_MESSAGE_CONTENT": Naive.text_content,
    "REASONING_MESSAGE_END": Naive.text_end,
    "REASONING_ENCRYPTED_VALUE": Naive.encrypted_value,
    "TOOL_CALL_START": Naive.call_start,
    "TOOL_CALL_ARGS": Naive.call_args,
    "TOOL_CALL_END": Naive.call_end,
    "TOOL_CALL_RESULT": Naive.call_result,
    "ACTIVITY_SNAPSHOT": Naive.activity_snapshot,
    "ACTIVITY_DELTA": Naive.activity_delta,
    "STATE_SNAPSHOT": Naive.state_snapshot,
    "STATE_DELTA": Naive.state_delta,
    "MESSAGES_SNAPSHOT": Naive.messages_snapshot,
    "RUN_STARTED": Naive.run_started,
}
