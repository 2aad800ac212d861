"""A run as a server sends it on: one run of its caller, encoded as SSE (SSE-4, SSE-8, TOOL-8, INT-1, USAGE-3).

Of several rounds the caller sees one RUN_STARTED and one RUN_FINISHED, with the ids of the first round. Calls of tools
that the caller declared stay pending in its run; calls of functions here that want approval become interrupts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, nullcontext, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import (
    Interrupt,
    ReasoningMessageContentEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TokenUsage,
    ToolCallArgsEvent,
    aggregate_token_usage,
)
from ag_ui.encoder import EventEncoder
from pydantic_core import to_json

from agui_client._concurrency import spawn
from agui_client._protocol.events import UnrecognizedEvent
from agui_client._protocol.open_items import quoted
from agui_client._protocol.schema import is_array, is_object
from agui_client._run.run_request import event_of_result
from agui_client._run.subagents import JOURNAL
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.questions import ToolQuestion
from agui_client._transport.timeouts import is_duration
from agui_client.errors import RunFailedError, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from ag_ui.core import Event, ResumeEntry, ToolCall
    from anyio.streams.memory import MemoryObjectSendStream

    from agui_client._protocol.events import WireEvent
    from agui_client._run.async_run import AgentRun
    from agui_client._tools.toolset import OfferedTool
    from agui_client.options import RunOptions

    AsyncContextManager: TypeAlias = AbstractAsyncContextManager[object]

KEEP_ALIVE = b": keep-alive\n\n"
"""The comment that keeps a silent connection open; clients ignore it (SSE-8)."""
APPROVAL = "approval:"
"""The beginning of the ids of interrupts that ask for the approval of a tool call."""
QUESTION = "question:"
"""The beginning of the ids of interrupts that are questions of tools; what is needed to make the call again follows."""
PASSED_ON = "passed-on:"
"""The beginning of the ids of an agent's own interrupts that begin like one of these, as those of a served agent do."""
_FAILED = "The agent failed; the server's log has the reason."
_AHEAD = 64
"""The number of events that a run may be ahead of whoever sends them."""

_logger = logging.getLogger("agui_client.sse")
_encode = EventEncoder().encode
_ENDS = (RunFinishedEvent, RunErrorEvent)
_DELTAS: dict[type[Any], list[tuple[str, str, bool]]] = {
    model: [(name, field.alias or name, not field.is_required()) for name, field in model.model_fields.items()]
    for model in (TextMessageContentEvent, ReasoningMessageContentEvent, ToolCallArgsEvent)
}
"""The fields of the events that make up most of a stream, with their keys in JSON, and whether they may be absent."""


def frame_of(event: WireEvent) -> bytes:
    """Encode an event as an SSE frame (SSE-4)."""
    if isinstance(event, UnrecognizedEvent):
        return f"data: {json.dumps(event.data, ensure_ascii=False)}\n\n".encode()
    members, values = _DELTAS.get(type(event)), event.__dict__
    if members is None or event.__pydantic_extra__ or len(members) != len(values):
        return _encode(event).encode()
    # The encoder's own way takes three times as long, and most events are deltas.
    data = {key: values[name] for name, key, is_optional in members if not is_optional or values[name] is not None}
    return b"data: %b\n\n" % to_json(data, inf_nan_mode="null")


def check_keep_alive(seconds: object) -> None:
    """Check the seconds of silence after which a comment is sent.

    Raises:
        UsageError: They are no number above zero.
    """
    if not is_duration(seconds):
        raise UsageError(f"keep_alive= is a number of seconds above zero, not {seconds!r}")


async def sse_chunks(run: AgentRun, keep_alive: float, *, expose_errors: bool) -> AsyncGenerator[bytes]:
    """Run an agent in a task of its own, and iterate the events as chunks of an SSE stream.

    Args:
        run: The run, entered or not.
        keep_alive: Seconds of silence after which a comment is sent.
        expose_errors: Whether the caller gets the text of exceptions.

    Yields:
        One or more whole frames, or a comment.
    """
    sender, receiver = anyio.create_memory_object_stream[bytes](_AHEAD)
    running, ended = anyio.CancelScope(), anyio.Event()

    async def send_frames() -> None:
        """Send frames until the run ends or is left."""
        try:
            with running, sender:
                async with aclosing(caller_events(run, expose_errors=expose_errors)) as events:
                    async for event in events:
                        await _send(sender, frame_of(event))
        finally:
            ended.set()

    spawn(send_frames, copy_context())
    try:
        while True:
            chunks = [KEEP_ALIVE]
            with anyio.move_on_after(keep_alive):
                chunks = [await receiver.receive()]
            with suppress(anyio.WouldBlock, anyio.EndOfStream):
                while True:  # frames that are there already go out together
                    chunks.append(receiver.receive_nowait())
            yield b"".join(chunks)
    except anyio.EndOfStream:
        return
    finally:
        running.cancel()
        receiver.close()
        with anyio.CancelScope(shield=True):
            await ended.wait()


async def _send(sender: MemoryObjectSendStream[bytes], frame: bytes) -> None:
    try:
        sender.send_nowait(frame)
    except anyio.WouldBlock:
        await sender.send(frame)


async def caller_events(
    run: AgentRun, *, expose_errors: bool = False, block: AsyncContextManager | None = None
) -> AsyncGenerator[Event]:
    """Iterate a call as one run of its caller, whatever number of rounds it takes.

    Args:
        run: The run, entered or not.
        expose_errors: Whether the caller gets the text of exceptions.
        block: Left when the run is over and its last event is not sent yet; a failure of it is one of the run.

    Yields:
        One RUN_STARTED, the events of all rounds, and one RUN_FINISHED or RUN_ERROR.
    """
    usage: list[TokenUsage] = []
    last: RunFinishedEvent | RunErrorEvent | None = None
    thread_id, run_id, has_started = "", "", False
    try:
        async with block or nullcontext(), nullcontext() if run.is_entered else run:
            thread_id, run_id = run.thread_id, run.run_id
            async for event in run:
                if not has_started:
                    has_started = True
                    yield _started(event, thread_id, run_id)
                    for message in run.engine.given_results:
                        yield event_of_result(message)
                if isinstance(event, _ENDS):
                    # Not the caller's end if tools have answered, and another round follows.
                    last = event
                    usage += event.usage or ()
                elif not isinstance(event, RunStartedEvent):
                    yield event
            if not has_started:
                yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
            last = caller_end(run, last)
    except Exception as error:
        if not (isinstance(error, RunFailedError) and isinstance(last, RunErrorEvent)):
            last = failure_event(error, run_id, thread_id, expose_errors=expose_errors)
    ids = {"thread_id": thread_id, "run_id": run_id} if isinstance(last, RunFinishedEvent) else {}
    yield last.model_copy(update={**ids, "usage": aggregate_token_usage(usage) or None})


def failure_event(error: Exception, run_id: str, thread_id: str, *, expose_errors: bool) -> RunErrorEvent:
    """Log an exception, and return the event that reports it.

    Args:
        error: The exception.
        run_id: The run that failed.
        thread_id: Its thread.
        expose_errors: Whether the caller gets the text of the exception.
    """
    _logger.error("run %s of thread %s failed", quoted(run_id), quoted(thread_id), exc_info=error)
    return RunErrorEvent(message=f"{type(error).__name__}: {error}" if expose_errors else _FAILED, code="agent_failed")


def _started(first: Event, thread_id: str, run_id: str) -> RunStartedEvent:
    """Return the caller's RUN_STARTED; results of calls that were approved come before the agent's own."""
    if isinstance(first, RunStartedEvent):
        return first.model_copy(update={"thread_id": thread_id, "run_id": run_id, "input": None})
    return RunStartedEvent(thread_id=thread_id, run_id=run_id)


def caller_end(run: AgentRun, last: RunFinishedEvent | RunErrorEvent | None) -> RunFinishedEvent:
    """Return the end of a run that did not fail: one that was stopped from here is cancelled, approvals interrupt it.

    Args:
        run: The run.
        last: The last terminal event of the agent; None if it sent none.
    """
    finished = last if isinstance(last, RunFinishedEvent) else None
    outcome = finished.outcome if finished else None
    asked = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else []
    request = run.engine.request
    theirs = asked if request is not None and request.is_passed else map(_passed_on, asked)
    interrupts = [*theirs, *_questions(run), *_approvals(run)]
    if run.seal is not None:
        interrupts = [each.model_copy(update={"id": run.seal.asked(each.id)}) for each in interrupts]
    last = finished or RunFinishedEvent(thread_id=run.thread_id, run_id=run.run_id)
    if run.partial.aborted or (finished is None and not interrupts):
        return last.model_copy(update={"outcome": RunFinishedCancelledOutcome()})
    if not interrupts:
        return last
    return last.model_copy(update={"outcome": RunFinishedInterruptOutcome(interrupts=interrupts)})


def _passed_on(interrupt: Interrupt) -> Interrupt:
    """Return an interrupt of the agent under an id that is not taken for one of this module's."""
    if not interrupt.id.startswith((APPROVAL, QUESTION, PASSED_ON)):
        return interrupt
    return interrupt.model_copy(update={"id": PASSED_ON + interrupt.id})


def _questions(run: AgentRun) -> list[Interrupt]:
    """Return an interrupt for each question of a tool here."""
    asked = [execution.question for execution in run.tool_executions if execution.question is not None]
    return [each.interrupt.model_copy(update={"id": QUESTION + _packed(each, run)}) for each in asked]


def _packed(question: ToolQuestion, run: AgentRun) -> str:
    value = question.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    if run.engine.setup.save is not None:
        # The answer is for the conversation that is saved here; its caller has no need to see what the tool has left.
        value.pop("left", None)
    elif question.left is not None:
        value["left"] = _without_encrypted(value["left"])
    return urlsafe_b64encode(to_json(value, inf_nan_mode="constants")).decode()


def _without_encrypted(value: Any) -> Any:
    """Return a JSON value without the encrypted values of messages: ids are logged and recorded."""
    if is_object(value):
        return {name: _without_encrypted(each) for name, each in value.items() if name != "encryptedValue"}
    return [_without_encrypted(each) for each in value] if is_array(value) else value


def _unpacked(interrupt_id: str) -> ToolQuestion:
    """Return the question of a tool that is in the id of an interrupt.

    Raises:
        UsageError: There is none in it.
    """
    try:
        return ToolQuestion.model_validate_json(urlsafe_b64decode(interrupt_id.removeprefix(QUESTION)))
    except ValueError:
        raise UsageError(f"resume answers {quoted(interrupt_id)}, which is no question of a tool") from None


class CallerAnswers:
    """A caller's answers to the interrupts that it got, as answers to what the agent itself waits for.

    Args:
        resume: The caller's entries.
        calls: The tool calls that the caller may have decided about, by id.

    Raises:
        UsageError: An entry answers a question that no tool has asked.
    """

    def __init__(self, resume: Iterable[ResumeEntry], calls: Mapping[str, ToolCall]) -> None:
        self.entries: list[ResumeEntry] = []
        """The answers to interrupts of the agent."""
        self.questions: list[ToolQuestion] = []
        """The questions of tools that are answered."""
        self.decisions: dict[str, Approve | Deny] = {}
        """The decisions about tool calls, by call id."""
        answers: list[ResumeEntry] = []
        for entry in resume:
            if entry.interrupt_id.startswith(APPROVAL):
                tool_call_id = entry.interrupt_id.removeprefix(APPROVAL).rpartition(":")[0]
                self.decisions[tool_call_id] = _decision(entry, calls.get(tool_call_id))
            elif entry.interrupt_id.startswith(QUESTION):
                self.questions.append(_unpacked(entry.interrupt_id))
                answers.append(entry.model_copy(update={"interrupt_id": self.questions[-1].interrupt.id}))
            else:
                own_id = entry.interrupt_id.removeprefix(PASSED_ON)
                self.entries.append(entry.model_copy(update={"interrupt_id": own_id}))
        self.options: RunOptions = {}
        """The keywords of the run that goes on with the answers."""
        if self.entries or answers:
            self.options["resume"] = [*self.entries, *answers]
        if self.decisions:
            self.options["tool_results"] = self.decisions


def _decision(entry: ResumeEntry, call: ToolCall | None) -> Approve | Deny:
    """Return a caller's decision about a call; only an approval of the very call that was shown approves it (SEC-3)."""
    given: dict[str, Any] = entry.payload if is_object(entry.payload) else {}
    if entry.status != "resolved" or given.get("approved") is not True:
        reason = given.get("reason")
        return Deny(reason) if isinstance(reason, str) and reason else Deny()
    if call is None or not entry.interrupt_id.endswith(f":{_digest(call)}"):
        return Deny("The call is not the one that was approved.")
    return Approve(given.get("editedArgs"))


def _digest(call: ToolCall) -> str:
    """Return a short text that changes with the name and the arguments of a call."""
    return hashlib.sha256(f"{call.function.name}\n{call.function.arguments}".encode()).hexdigest()[:16]


def _approvals(run: AgentRun) -> list[Interrupt]:
    """Return an interrupt for each pending call of a function here, which waits for approval."""
    asked = {interrupt.tool_call_id for interrupt in run.partial.interrupts}
    calls = [call for call in run.partial.pending_tool_calls if call.id not in asked]
    pending = [(call, run.engine.tools.offered.get(call.function.name)) for call in calls]
    return [_approval(call, tool) for call, tool in pending if tool is not None and tool.toolset is not None]


def _approval(call: ToolCall, tool: OfferedTool) -> Interrupt:
    edits = {"description": "Arguments to use instead.", **(tool.definition.parameters or {"type": "object"})}
    return Interrupt(
        id=f"{APPROVAL}{call.id}:{_digest(call)}",
        reason="tool_call",
        message=f"Allow the call of {call.function.name}?",
        tool_call_id=call.id,
        response_schema={
            "type": "object",
            "properties": {
                "approved": {"type": "boolean", "description": "Whether the tool may run."},
                "editedArgs": edits,
                "reason": {"type": "string", "description": "The reason of a refusal, for the agent."},
            },
            "required": ["approved"],
        },
    )


_SHORTEST = 16


class Seal:
    """Signs the ids of interrupts in one thread, with a key that its caller does not know.

    Args:
        secret: The key.
        thread_id: The thread.

    Raises:
        UsageError: The key is none, or so short that it can be guessed.
    """

    def __init__(self, secret: str | bytes, thread_id: str) -> None:
        self._key, self._thread_id = key_of(secret), thread_id
        self._answered: set[str] = set()
        self._unproven: tuple[str, ...] = ()

    def distrust(self, state: Any, own_state: Any) -> None:
        """Sign none of the interrupts in a caller's journal: a team asks again what its journal says it has asked.

        Args:
            state: The state that the caller sent.
            own_state: The state of a thread that is stored here, whose journal may have the same interrupts.
        """
        self._unproven = tuple(set(_noted(state)) - set(_noted(own_state)))

    def asked(self, interrupt_id: str) -> str:
        """Return the id under which a caller gets an interrupt that the agent asks.

        Raises:
            UsageError: It may be one that the caller made up.
        """
        if interrupt_id not in self._answered and interrupt_id.endswith(self._unproven):
            raise UsageError(
                f"the interrupt {quoted(interrupt_id)} of the caller's state is not answered: with secret=, "
                "a caller answers all interrupts of a run at once"
            )
        return self._signed(interrupt_id)

    def _signed(self, interrupt_id: str) -> str:
        named = json.dumps([self._thread_id, interrupt_id]).encode()
        return f"{interrupt_id}.{hmac.new(self._key, named, 'sha256').hexdigest()}"

    def opened(self, answered_id: str) -> str:
        """Return the id of the interrupt that a caller answers.

        Raises:
            UsageError: It was never signed.
        """
        interrupt_id = answered_id.rpartition(".")[0]
        if not hmac.compare_digest(self._signed(interrupt_id).encode(), answered_id.encode()):
            raise UsageError(f"resume answers {quoted(answered_id)}, which was not asked in this thread")
        self._answered.add(interrupt_id)
        return interrupt_id


def key_of(secret: object) -> bytes:
    """Return the key that the `secret=` option means.

    Raises:
        UsageError: It is none, or so short that it can be guessed.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or len(key) < _SHORTEST:
        raise UsageError(f"secret= is text or bytes, not fewer than {_SHORTEST}: secrets.token_urlsafe() makes one")
    return key


def _noted(value: Any, *, is_journal: bool = False) -> Iterator[str]:
    """Yield the ids of the interrupts in the journals of teams, which are in each other where members are teams."""
    if is_object(value):
        for name, each in value.items():
            if is_journal and name == "interrupts" and is_array(each):
                yield from (str(one["id"]) for one in each if is_object(one) and one.get("id"))
            yield from _noted(each, is_journal=is_journal or name == JOURNAL)
    elif is_array(value):
        for each in value:
            yield from _noted(each, is_journal=is_journal)
