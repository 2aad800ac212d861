"""The verbs: run an agent, iterate its events, reconnect, stop and steer; in a task, or in a thread without `await`.

A verb makes an `AgentRun` or a `SyncAgentRun` (`_core/verbs`), whose block carries the turn out. Which agent it asks
and with what is `AbstractAgent._starting`'s to say; observables are `observing`'s.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Unpack, cast

from agui_client._core.agent.thread_view import ThreadView
from agui_client._core.protocol.prompts import Prompt
from agui_client._core.run.options import ConnectOptions, RunOptions, lists_keywords
from agui_client._core.run.scope import StateT
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.run.engine import Engine
    from agui_client._core.run.result import RunResult
    from agui_client._core.run.run_loop import RunLoop
    from agui_client._core.verbs.async_run import AgentRun, Start
    from agui_client._core.verbs.sync_run import SyncAgentRun


class Verbs(ThreadView[StateT]):
    """The verbs that run an agent; see `AbstractAgent`."""

    @abstractmethod
    def _starting(self, prompt: Prompt, options: ConnectOptions, *, is_replay: bool = False) -> Start:
        """Check the keywords of a turn, and return the function that makes its engine when its block is entered."""

    def _connecting(self, options: RunOptions) -> Start:
        """Return the function that connects in place of a turn whose server refuses the run it asks for once more."""

        def connect(loop: RunLoop) -> Engine:
            """Make the engine with the keywords that say how a server is asked."""
            how = {name: each for name, each in options.items() if name in ConnectOptions.__annotations__}
            return self._starting(None, cast("ConnectOptions", how), is_replay=True)(loop)

        return connect

    @lists_keywords(RunOptions)
    async def run_agent(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> RunResult[StateT]:
        """Run the agent and wait for its result.

        Args:
            prompt: Text; a list of texts, paths and content parts (see `attach`); a message; a `RunAgentInput`, which
                is sent as it is and becomes the conversation; or None to continue with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The result; interrupts and unanswered tool calls are in it, not raised.

        Raises:
            RunFailedError: The agent reported RUN_ERROR.
            ProtocolError: The stream broke the protocol, or stopped without a terminal event.
            TransportError: No usable response arrived.
            UsageError: Another run is in progress, interrupts are not covered, or the input cannot be sent.
        """
        async with self.stream(prompt, **options) as run:
            return await run.result()

    @lists_keywords(RunOptions)
    def stream(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> AgentRun[StateT]:
        """Run the agent and iterate its events: `async with agent.stream("...") as run: async for event in run`.

        Args:
            prompt: Text; a list of texts, paths and content parts (see `attach`); a message; a `RunAgentInput`, which
                is sent as it is and becomes the conversation; or None to continue with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The run, as an async context manager; nothing is sent before the first event is requested.
        """
        from agui_client._core.verbs.async_run import AgentRun

        return AgentRun(self._starting(prompt, options), self._connecting(options))

    @lists_keywords(RunOptions)
    def run_agent_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> RunResult[StateT]:
        """`run_agent` for code without `await`: scripts, threads, and notebooks with a running loop.

        Args:
            prompt: Text; a list of texts, paths and content parts (see `attach`); a message; a `RunAgentInput`, which
                is sent as it is and becomes the conversation; or None to continue with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The result.

        Raises:
            AGUIError: As `run_agent`.
        """
        with self.stream_sync(prompt, **options) as run:
            return run.result()

    @lists_keywords(RunOptions)
    def stream_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> SyncAgentRun[StateT]:
        """`stream` for code without `await`: `with agent.stream_sync("...") as run: for event in run`.

        Args:
            prompt: Text; a list of texts, paths and content parts (see `attach`); a message; a `RunAgentInput`, which
                is sent as it is and becomes the conversation; or None to continue with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            The run, as a context manager; nothing is sent before the first event is requested.
        """
        from agui_client._core.verbs.sync_run import SyncAgentRun

        return SyncAgentRun(self._starting(prompt, options), self._connecting(options))

    @lists_keywords(ConnectOptions)
    async def connect_agent(self, **options: Unpack[ConnectOptions]) -> RunResult[StateT]:
        """Take up the thread where the agent has it: after a cut connection, a restart, or on another machine.

        The thread that the server sends again is merged with the local one, message by message; a run that is still
        going is followed to its end. Nothing is asked, and no tool is executed.

        Args:
            options: See `ConnectOptions`.

        Returns:
            The result of the thread's last run; without an outcome if there was nothing to send.

        Raises:
            AGUIError: As `run_agent`.
        """
        async with self.stream_connect(**options) as run:
            return await run.result()

    @lists_keywords(ConnectOptions)
    def stream_connect(self, **options: Unpack[ConnectOptions]) -> AgentRun[StateT]:
        """`connect_agent`, to be iterated: `async with agent.stream_connect() as run`.

        Args:
            options: See `ConnectOptions`.

        Returns:
            The run, as an async context manager.
        """
        from agui_client._core.verbs.async_run import AgentRun

        return AgentRun(self._starting(None, options, is_replay=True))

    def connect_agent_sync(self, **options: Unpack[ConnectOptions]) -> RunResult[StateT]:
        """`connect_agent` for code without `await`.

        Args:
            options: See `ConnectOptions`.

        Returns:
            The result of the thread's last run; without an outcome if there was nothing to send.

        Raises:
            AGUIError: As `run_agent`.
        """
        with self.stream_connect_sync(**options) as run:
            return run.result()

    def stream_connect_sync(self, **options: Unpack[ConnectOptions]) -> SyncAgentRun[StateT]:
        """`stream_connect` for code without `await`: `with agent.stream_connect_sync() as run: for event in run`.

        Args:
            options: See `ConnectOptions`.

        Returns:
            The run, as a context manager.
        """
        from agui_client._core.verbs.sync_run import SyncAgentRun

        return SyncAgentRun(self._starting(None, options, is_replay=True))

    def abort_run(self) -> None:
        """Stop the run that is in progress, from any task or thread: it returns what arrived, with `aborted` set."""
        # No exception without a run: it may have ended while the caller made up its mind.
        if (call := self._conversation.turns.current) is not None:
            call.interrupt()

    def steer(self, prompt: Prompt) -> None:
        """Say something to the run that is in progress, from any task or thread: `agent.steer("no museums")`.

        The message goes with the next run of the call, after the tools that the agent called; if none follows, the
        call continues with a run of its own. If it ends with a failure, an abort or an open question,
        `result.unsent_messages` has the message.

        Args:
            prompt: As for `run_agent`; text, usually.

        Raises:
            UsageError: No run is in progress, or the run has just ended: ask with `run_agent`.
        """
        if (call := self._conversation.turns.current) is None:
            raise UsageError("no run is in progress, so nothing can steer it; ask with run_agent() or stream()")
        call.steer(prompt)
