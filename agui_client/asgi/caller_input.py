"""The run that answers a caller's input, with the agent's own conversation or with the one in the input.

The input is the whole conversation, so that a server needs to keep nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import Interrupt

from agui_client._tools.toolset import Toolset, chooses_tools, tool_list
from agui_client.asgi.caller_interrupts import CallerAnswers
from agui_client.asgi.seal import Seal
from agui_client.conversation import ConversationSnapshot

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._run.async_run import AgentRun
    from agui_client._run.sync_run import SyncAgentRun
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
        UsageError: The input answers an interrupt that was not signed, or the secret cannot be one.
    """
    agent, options, seal = _answering(agent, input, secret)
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
        UsageError: The input answers an interrupt that was not signed, or the secret cannot be one.
    """
    agent, options, seal = _answering(agent, input, secret)
    run = agent.stream_sync(None, **options)
    run.seal = seal
    return run


def _answering(
    agent: AbstractAgent, input: RunAgentInput, secret: str | bytes | None
) -> tuple[AbstractAgent, RunOptions, Seal | None]:
    """Return the agent that answers an input, with its conversation in place, and the keywords and seal of its run."""
    resume, is_owner, seal = input.resume or [], agent.thread_id == input.thread_id, None
    if secret is not None:
        seal = Seal(secret, input.thread_id)
        resume = [entry.model_copy(update={"interrupt_id": seal.verified(entry.interrupt_id)}) for entry in resume]
        seal.distrust(input.state, agent.state if is_owner else None)
    # What was shown is the agent's to say, where it stores its conversation.
    messages = agent.messages if is_owner else input.messages
    calls = {call.id: call for each in messages if each.role == "assistant" for call in each.tool_calls or ()}
    answers = CallerAnswers(resume, calls)
    options: RunOptions = {
        "run_id": input.run_id,
        "tools": _with_tools(agent.tools, input),
        "context": input.context or (),
        "forwarded_props": input.forwarded_props,
        **answers.options,
    }
    if not is_owner:
        return clone_for(agent, input, answers), options, seal
    known = {message.id for message in agent.messages}
    agent.add_messages(message for message in input.messages if message.id not in known)
    if input.state is not None:
        agent.set_state(input.state)
    return agent, options, seal


def clone_for(agent: AbstractAgent, input: RunAgentInput, answers: CallerAnswers | None = None) -> AbstractAgent:
    """Return a clone of an agent with the conversation of an input, and with what waits for the caller's answers.

    Args:
        agent: The agent.
        input: The input that the caller sent.
        answers: The caller's answers; None if it gives none.
    """
    answers = answers or CallerAnswers((), {})
    agent = agent.clone(thread_id=input.thread_id)
    agent.restore(
        ConversationSnapshot(
            thread_id=input.thread_id,
            messages=input.messages,
            state={} if input.state is None else input.state,
            # Of the interrupts that the caller answers, the agent needs no more than their ids.
            pending_interrupts=[Interrupt(id=entry.interrupt_id, reason="") for entry in answers.entries],
            tool_questions=answers.questions,
            # The ids of their interrupts say that these calls are the ones that were shown.
            shown_tool_calls=answers.calls,
        )
    )
    return agent


def _with_tools(own: Any, input: RunAgentInput) -> ToolSource:
    """Return the agent's tools and the definitions of the caller's, which the caller answers itself."""
    theirs = input.tools or []
    if isinstance(own, Toolset):
        return [own, *theirs]
    if chooses_tools(own):
        return lambda run_input: [*tool_list(own(run_input)), *theirs]
    return [*tool_list(own), *theirs]
