"""Streams that grow: for each kind of event some, of which a run may have any number, with other or with equal ids."""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeAlias

Wire: TypeAlias = dict[str, Any]
Ids: TypeAlias = Callable[[str, int], str]
"""Returns an id by the kind of thing and its number."""
Growing: TypeAlias = Callable[[int, Ids], Iterator[Wire]]
"""Yields the events inside a run, in proportion to a number."""


def other(kind: str, number: int) -> str:
    """Each thing has an id of its own."""
    return f"{kind}{number}"


def equal(kind: str, number: int) -> str:
    """All things of a kind have one id."""
    return kind


def event(type: str, **members: Any) -> Wire:  # noqa: A002 - the protocol's word
    return {"type": type, **members}


def _started() -> Wire:
    return event("RUN_STARTED", threadId="thread-1", runId="run-1")


def _finished(**members: Any) -> Wire:
    return event("RUN_FINISHED", threadId="thread-1", runId="run-1", **members)


def _text(message_id: str, **members: Any) -> Iterator[Wire]:
    yield event("TEXT_MESSAGE_START", messageId=message_id, role="assistant", **members)
    yield event("TEXT_MESSAGE_CONTENT", messageId=message_id, delta="word ")
    yield event("TEXT_MESSAGE_END", messageId=message_id)


def _call(call_id: str, parent: str | None = None, arguments: str = "{}") -> Iterator[Wire]:
    parents = {} if parent is None else {"parentMessageId": parent}
    yield event("TOOL_CALL_START", toolCallId=call_id, toolCallName="look", **parents)
    yield event("TOOL_CALL_ARGS", toolCallId=call_id, delta=arguments)
    yield event("TOOL_CALL_END", toolCallId=call_id)


def _result(call_id: str, message_id: str, content: str = "found") -> Wire:
    return event("TOOL_CALL_RESULT", toolCallId=call_id, messageId=message_id, content=content)


def _made(call_id: str) -> Wire:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def _more(**members: Any) -> Wire:
    return {"metadata": {"agui-client": members}}


def texts(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield from _text(ids("text", at))


def one_text(n: int, ids: Ids) -> Iterator[Wire]:
    yield event("TEXT_MESSAGE_START", messageId="text", role="assistant")
    for at in range(n):
        yield event("TEXT_MESSAGE_CONTENT", messageId="text", delta="word ", metadata={ids("seen", at): 1})
    yield event("TEXT_MESSAGE_END", messageId="text")


def messages_side_by_side(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("TEXT_MESSAGE_START", messageId=other("text", at), role="assistant")
    for at in range(n):
        yield event("TEXT_MESSAGE_END", messageId=other("text", at))


def thoughts(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        thought = {"messageId": ids("thought", at)}
        yield event("REASONING_START", **thought)
        yield event("REASONING_MESSAGE_START", role="reasoning", **thought)
        yield event("REASONING_MESSAGE_CONTENT", delta="Hm", **thought)
        yield event("REASONING_MESSAGE_END", **thought)
        yield event("REASONING_END", **thought)
        yield event("REASONING_ENCRYPTED_VALUE", subtype="message", entityId=ids("thought", at), encryptedValue="c2Vj")


def chunks(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("TEXT_MESSAGE_CHUNK", messageId=ids("text", at), delta="word")
        yield event("REASONING_MESSAGE_CHUNK", messageId=ids("thought", at), delta="Hm")
        yield event("TOOL_CALL_CHUNK", toolCallId=ids("call", at), toolCallName="look", delta="{}")


def calls_and_results(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield from _call(ids("call", at), arguments=json.dumps({"at": at}))
        yield _result(ids("call", at), ids("result", at), f"found {at}")


def results_with_one_id(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield from _call(ids("call", at))
        yield _result(ids("call", at), "result", f"found {at}")


def calls_that_are_sent_again(n: int, ids: Ids) -> Iterator[Wire]:
    yield from _text("text")
    yield from _call("call", "text", json.dumps({"long": list(range(n))}))
    yield _result("call", "result")
    for _ in range(n):
        yield from _call("call", "text")
        yield _result("call", "result")


def calls_of_one_message(n: int, ids: Ids) -> Iterator[Wire]:
    yield from _text("text")
    for at in range(n):
        yield from _call(ids("call", at), "text")


def results_between_messages(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield from _call(other("call", at))
    for at in range(n):
        yield _result(other("call", at), ids("result", at))


def results_between_deltas(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield from _call(other("call", at))
    yield event("TEXT_MESSAGE_START", messageId="text", role="assistant")
    for at in range(n):
        yield event("TEXT_MESSAGE_CONTENT", messageId="text", delta="word ")
        yield _result(other("call", at), ids("result", at))
    yield event("TEXT_MESSAGE_END", messageId="text")


def results_in_front_of_each_other(n: int, ids: Ids) -> Iterator[Wire]:
    calls = [{"id": "text", "role": "assistant", "toolCalls": [_made(other("call", at)) for at in range(n)]}]
    results = [
        {"id": other("result", at), "role": "tool", "toolCallId": other("call", at), "content": "found"}
        for at in range(n)
    ]
    yield event("MESSAGES_SNAPSHOT", messages=calls)
    yield event("MESSAGES_SNAPSHOT", messages=[*calls, *results[n // 2 :], *reversed(results[: n // 2])])


def snapshots(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("MESSAGES_SNAPSHOT", messages=[{"id": ids("user", at), "role": "user", "content": "Hi"}])


def a_snapshot(n: int, ids: Ids) -> Iterator[Wire]:
    lost = [other("lost", at) for at in range(n)]
    yield event("SUBAGENT_STARTED", subagentRunId="scout", name="scout")
    yield event("SUBAGENT_ERROR", subagentRunId="scout", message="lost", **_more(partialMessageIds=lost))
    words = [{"id": ids("text", at), "role": "assistant", "content": ""} for at in range(n)]
    made = [{"id": other("made", at), "role": "assistant", "toolCalls": [_made(ids("call", at))]} for at in range(n)]
    facts = _more(incompleteIds=[ids("text", at) for at in range(n)], missingIds=[ids("lost", at) for at in range(n)])
    yield event("MESSAGES_SNAPSHOT", messages=[*words, *made], **facts)


def subagents(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        if at == 0 or ids is other:
            yield from _call(ids("call", at))
        scout = {"subagentRunId": f"scout{at}"}
        yield event("SUBAGENT_STARTED", name="scout", parentToolCallId=ids("call", at), **scout)
        yield event("SUBAGENT_FINISHED", **scout)


def subagents_inside_each_other(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        around = {"parentSubagentRunId": f"scout{at - 1}"} if at else {}
        yield event("SUBAGENT_STARTED", name="scout", subagentRunId=f"scout{at}", **around)
    for at in reversed(range(n)):
        used = _more(usage=[{"inputTokens": 1}]) if at == n - 1 else {}
        yield event("SUBAGENT_FINISHED", subagentRunId=f"scout{at}", **used)


def failed_subagents(n: int, ids: Ids) -> Iterator[Wire]:
    scout = {"subagentRunId": "scout"}
    yield event("SUBAGENT_STARTED", name="scout", **scout)
    for at in range(n):
        if at == 0 or ids is other:
            yield from _text(ids("text", at), **scout)
    yield event(
        "SUBAGENT_ERROR", message="lost", **scout, **_more(partialMessageIds=[ids("text", at) for at in range(n)])
    )


def failed_subagents_with_parts(n: int, ids: Ids) -> Iterator[Wire]:
    """A snapshot has a message of many parts, which the end of a subagent names again and again."""
    scout = {"subagentRunId": "scout"}
    said = {"id": "text", "role": "user", "content": [{"type": "text", "text": "word"}] * n}
    yield event("MESSAGES_SNAPSHOT", messages=[said])
    yield event("SUBAGENT_STARTED", name="scout", **scout)
    named = [ids("text", at) for at in range(n)]
    yield event("SUBAGENT_ERROR", message="lost", **scout, **_more(partialMessageIds=named))


def activities(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        plan = {"messageId": ids("plan", at), "activityType": "PLAN"}
        yield event("ACTIVITY_SNAPSHOT", content={"x": 1}, **plan)
        yield event("ACTIVITY_DELTA", patch=[{"op": "add", "path": f"/{at}", "value": 2}], **plan)


def states(n: int, ids: Ids) -> Iterator[Wire]:
    yield event("STATE_SNAPSHOT", snapshot={"list": [], "empty": [{}] * 40, "copies": []})
    for at in range(n):
        yield event("STATE_DELTA", delta=[{"op": "add", "path": "/list/0", "value": ids("item", at)}])
        yield event("STATE_DELTA", delta=[{"op": "copy", "from": "/empty", "path": "/copies/-"}])
        yield event(
            "STATE_DELTA", delta=[{"op": "add", "path": "/list/0", "value": 1}, {"op": "remove", "path": "/no"}]
        )


def runs(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("TOOL_CALL_START", toolCallId=ids("call", at), toolCallName="look")
        yield event("RUN_ERROR", message="lost") if at % 2 else event("TOOL_CALL_END", toolCallId=ids("call", at))
        if not at % 2:
            yield _finished()
        yield _started()


def an_echo(n: int, ids: Ids) -> Iterator[Wire]:
    yield _finished()
    messages = [{"id": ids("echo", at), "role": "user", "content": "Hi"} for at in range(n)]
    rest: Wire = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    echo: Wire = {"threadId": "thread-1", "runId": "run-2", "messages": messages, **rest}
    yield {**_started(), "input": echo}


def steps(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("STEP_STARTED", stepName=ids("step", at))
        yield event("STEP_FINISHED", stepName=ids("step", at))


def predictions(n: int, ids: Ids) -> Iterator[Wire]:
    value = [{"state_key": "draft", "tool": "look", "tool_argument": "at"}]
    for at in range(n):
        yield from _call(other("call", at))
        yield event("CUSTOM", name="PredictState", value=value)
        yield event("STATE_SNAPSHOT", snapshot={})


def foreign(n: int, ids: Ids) -> Iterator[Wire]:
    for at in range(n):
        yield event("RAW", event={"x": at})
        yield event("CUSTOM", name=ids("on_interrupt", at), value={"why": at})
        yield event(ids("LATER", at), x=at)


def interrupts(n: int, ids: Ids) -> Iterator[Wire]:
    yield from _text("text")
    for at in range(n):
        yield from _call(other("call", at), "text")
    asked = [{"id": f"ask{at}", "reason": "tool_call", "toolCallId": ids("call", at)} for at in range(n)]
    yield _finished(outcome={"type": "interrupt", "interrupts": asked})


GROWING: dict[str, Growing] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(
            texts,
            one_text,
            messages_side_by_side,
            thoughts,
            chunks,
            calls_and_results,
            results_with_one_id,
            calls_that_are_sent_again,
        ),
        *(
            calls_of_one_message,
            results_between_messages,
            results_between_deltas,
            results_in_front_of_each_other,
            snapshots,
            a_snapshot,
        ),
        *(subagents, subagents_inside_each_other, failed_subagents, failed_subagents_with_parts, activities, states),
        *(runs, an_echo, steps, predictions, foreign, interrupts),
    )
}
"""The streams, by their names."""


def stream(growing: Growing, n: int, ids: Ids, *, is_cut: bool = False) -> list[Wire]:
    """Return the events of a whole stream, or of one that is cut where a sixth of it is missing."""
    events = [_started(), *growing(n, ids)]
    if is_cut:
        return events[: len(events) - len(events) // 6]
    return events if events[-1]["type"] == "RUN_FINISHED" else [*events, _finished()]


def body(events: list[Wire]) -> bytes:
    """Return the events as a server sends them."""
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in events)


def lines_of(work: Callable[[], object], *, with_threads: bool = False) -> int:
    """The number of lines of the package that a piece of work runs: the same under any load, and loops count.

    Args:
        work: The work.
        with_threads: Whether those count, too, that run in threads which begin meanwhile.
    """
    lines, is_over = 0, False

    def count(frame: FrameType, what: str, detail: object) -> Any:
        nonlocal lines
        lines += what == "line"
        return count

    def begin(frame: FrameType, what: str, detail: object) -> Any:
        # A thread that began meanwhile, and stays, keeps this function: CPython 3.11 may crash where it removes itself.
        return count if not is_over and "agui_client" in frame.f_code.co_filename else None

    before, collects = sys.gettrace(), gc.isenabled()
    # What earlier tests have left would be forgotten here, line by line.
    gc.disable()
    sys.settrace(begin)
    if with_threads:
        threading.settrace(begin)
    try:
        work()
    finally:
        sys.settrace(before)
        is_over = True
        if with_threads:
            threading.settrace(None)  # pyright: ignore[reportArgumentType]
        if collects:
            gc.enable()
    return lines
