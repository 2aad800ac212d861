"""The run that answers a caller's input: whose conversation it goes on with, and what the caller's answers mean.

The input is the whole conversation, so that a server needs to keep nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import Interrupt

from agui_client._protocol.schema import is_object
from agui_client._run.caller_stream import APPROVAL, PASSED_ON, QUESTION, Seal, digest, unpacked
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.toolset import Toolset
from agui_client.conversation import ConversationSnapshot

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, RunAgentInput, ToolCall

    from agui_client._run.async_run import AgentRun
    from agui_client._run.sync_run import SyncAgentRun
    from agui_client._tools.questions import ToolQuestion
    from agui_client._tools.toolset import ToolSource
    from agui_client.agent import AbstractAgent
    from agui_client.options import RunOptions


def served_run(agent: AbstractAgent, input: RunAgentInput, *, secret: str | bytes | None = None) -> AgentRun:
    """Return the run of an agent that answers a caller's input; send its `sse()` on.

    An agent whose `thread_id` is the caller's goes on with its own conversation, which it shares with nobody else: of
    the input, only messages are added that the conversation does not have. Any other agent is cloned, and the clone
    gets the conversation of the input.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread.
        input: The input that the caller sent.
        secret: The key that signs interrupts, as for `agent_app`.

    Returns:
        The run, not entered yet.

    Raises:
        UsageError: The input answers an interrupt that was not signed, or the secret is none.
    """
    seal = None if secret is None else Seal(secret, input.thread_id)
    agent, options = _answering(agent, input, seal)
    run = agent.stream(None, **options)
    run.seal = seal
    return run


def served_run_sync(agent: AbstractAgent, input: RunAgentInput, *, secret: str | bytes | None = None) -> SyncAgentRun:
    """`served_run` for Flask, Django's sync views, and other code without `await`.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread.
        input: The input that the caller sent.
        secret: The key that signs interrupts, as for `agent_app`.

    Returns:
        The run, not entered yet; send its `sse()` on.

    Raises:
        UsageError: The input answers an interrupt that was not signed, or the secret is none.
    """
    seal = None if secret is None else Seal(secret, input.thread_id)
    agent, options = _answering(agent, input, seal)
    run = agent.stream_sync(None, **options)
    run.seal = seal
    return run


def _answering(agent: AbstractAgent, input: RunAgentInput, seal: Seal | None) -> tuple[AbstractAgent, RunOptions]:
    """Return the agent that answers an input, with its conversation in place, and the keywords of its run."""
    resume = input.resume or []
    if seal is not None:
        resume = [entry.model_copy(update={"interrupt_id": seal.opened(entry.interrupt_id)}) for entry in resume]
    approvals = {entry.interrupt_id: entry for entry in resume if entry.interrupt_id.startswith(APPROVAL)}
    entries = [
        entry.model_copy(update={"interrupt_id": entry.interrupt_id.removeprefix(PASSED_ON)})
        for entry in resume
        if not entry.interrupt_id.startswith((APPROVAL, QUESTION))
    ]
    asked = [(entry, unpacked(entry.interrupt_id)) for entry in resume if _is_question(entry)]
    answers = [entry.model_copy(update={"interrupt_id": question.interrupt.id}) for entry, question in asked]
    options: RunOptions = {
        "run_id": input.run_id,
        "tools": _with_tools(agent.tools, input),
        "context": input.context or (),
        "forwarded_props": input.forwarded_props,
    }
    is_owner = agent.thread_id == input.thread_id
    if seal is not None:
        seal.distrust(input.state, agent.state if is_owner else None)
    # What was shown is the agent's to say, where it stores its conversation.
    messages = agent.messages if is_owner else input.messages
    calls = {call.id: call for each in messages if each.role == "assistant" for call in each.tool_calls or ()}
    results: dict[str, Approve | Deny] = {}
    for entry in approvals.values():
        tool_call_id = entry.interrupt_id.removeprefix(APPROVAL).rpartition(":")[0]
        results[tool_call_id] = _decision(entry, calls.get(tool_call_id))
    waiting = [question.interrupt.tool_call_id or "" for _, question in asked]
    if is_owner:
        known = {message.id for message in agent.messages}
        agent.add_messages(message for message in input.messages if message.id not in known)
        if input.state is not None:
            agent.set_state(input.state)
    else:
        # The ids of their interrupts say that these calls are the ones that were shown.
        shown = [calls[each] for each in (*results, *waiting) if each in calls]
        agent = _with_conversation(agent, input, entries, [question for _, question in asked], shown)
    if entries or answers:
        options["resume"] = [*entries, *answers]
    if results:
        options["tool_results"] = results
    return agent, options


def _with_conversation(
    agent: AbstractAgent,
    input: RunAgentInput,
    entries: list[ResumeEntry],
    questions: list[ToolQuestion],
    shown: list[ToolCall],
) -> AbstractAgent:
    """Return a clone of an agent with the conversation of an input, and with the interrupts that the input answers."""
    agent = agent.clone(thread_id=input.thread_id)
    agent.restore(
        ConversationSnapshot(
            thread_id=input.thread_id,
            messages=input.messages,
            state={} if input.state is None else input.state,
            # Of the interrupts that the caller answers, the agent needs no more than their ids.
            pending_interrupts=[Interrupt(id=entry.interrupt_id, reason="") for entry in entries],
            tool_questions=questions,
            shown_tool_calls=shown,
        )
    )
    return agent


def _with_tools(own: ToolSource, input: RunAgentInput) -> ToolSource:
    """Return the agent's tools and the definitions of the caller's, which the caller answers itself."""
    theirs = input.tools or []
    if isinstance(own, Toolset):
        return [own, *theirs]
    if callable(own):
        return lambda run_input: [*own(run_input), *theirs]
    return [*own, *theirs]


def _is_question(entry: ResumeEntry) -> bool:
    return entry.interrupt_id.startswith(QUESTION)


def _decision(entry: ResumeEntry, call: ToolCall | None) -> Approve | Deny:
    """Return a caller's decision about a call; only an approval of the very call that was shown approves it (SEC-3)."""
    given: dict[str, Any] = entry.payload if is_object(entry.payload) else {}
    if entry.status != "resolved" or given.get("approved") is not True:
        reason = given.get("reason")
        return Deny(reason) if isinstance(reason, str) and reason else Deny()
    if call is None or not entry.interrupt_id.endswith(f":{digest(call)}"):
        return Deny("The call is not the one that was approved.")
    return Approve(given.get("editedArgs"))
