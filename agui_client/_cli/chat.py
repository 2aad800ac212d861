"""`agui chat`: a conversation at the terminal, with tools, people and a memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ag_ui.core import RunFinishedCancelledOutcome

from agui_client._cli.demo import demo_server
from agui_client._cli.exits import ExitCode, code_of, drive
from agui_client._cli.leftovers import Leftovers
from agui_client._cli.lines import GivenLines, TypedLines
from agui_client._cli.live_run import LiveRun
from agui_client._cli.output import WarningLines, usage_line
from agui_client._cli.people import TerminalAnswerer, TerminalApprover
from agui_client._cli.plain_view import PlainRun
from agui_client._cli.remarks import REMARKS, remark
from agui_client._cli.watching import drawing_board, watch
from agui_client._surfaces.hooks import HookContext, Subscriber

if TYPE_CHECKING:
    from agui_client._cli.peers import Peer
    from agui_client._tools.offer import ToolSource
    from agui_client.agent import AbstractAgent
    from agui_client.conversation import ConversationSnapshot
    from agui_client.result import RunResult, ToolExecution

    View = LiveRun | PlainRun
    Lines = TypedLines | GivenLines


def chat_with_demo(peer: Callable[[str], Peer], tools: ToolSource) -> int:
    """Serve the demo agent, and talk with it.

    Args:
        peer: Says how, given where it is.
        tools: What it may call.

    Returns:
        The exit code.
    """
    with demo_server(0) as server:
        return chat_with(peer(server.url), tools)


def chat_with(peer: Peer, tools: ToolSource) -> int:
    """Talk with an agent until somebody has said everything.

    Args:
        peer: Where it is, and how it is reached.
        tools: What it may call.

    Returns:
        The exit code.
    """
    console = drawing_board()
    view: View = PlainRun(answers=sys.stdout, notes=sys.stderr) if console is None else LiveRun(console)
    WarningLines(view.note).install()
    lines: Lines = TypedLines(REMARKS) if sys.stdin.isatty() else GivenLines()
    approve = TerminalApprover(around=view.paused)
    answer = TerminalAnswerer(around=view.paused, messages=lambda: agent.messages)
    agent = peer.agent(tools=tools, approve=approve, answer=answer)
    if lines.is_typed:
        view.note(f"talking with {peer.place}; /help lists what else can be said")
    with asyncio.Runner() as runner:
        return Chat(agent, view, Leftovers(agent, approve, answer), runner).talk(lines)


class Chat(Subscriber):
    """A conversation.

    Args:
        agent: With whom.
        view: Where it is shown.
        leftovers: What is settled before each run.
        runner: Where runs happen; outside of them there is no event loop, and Ctrl-C is the terminal's.
    """

    def __init__(self, agent: AbstractAgent, view: View, leftovers: Leftovers, runner: asyncio.Runner) -> None:
        self.agent = agent
        """With whom."""
        self.view = view
        """Where it is shown."""
        self.first_state = agent.state
        """What a new conversation begins with."""
        self.is_over = False
        """Whether everything was said."""
        self.is_settled = True
        """Whether there is nothing to try again."""
        self._unsaid: str | None = None
        self._leftovers = leftovers
        self._runner = runner
        agent.subscribe(self)

    def on_tool_execution(self, execution: ToolExecution, context: HookContext) -> None:
        """Show how far a tool has come."""
        self.view.execution(execution)

    def talk(self, lines: Lines) -> int:
        """Take line after line; where nobody types them, until one fails.

        Args:
            lines: Where they come from.

        Returns:
            The exit code.
        """
        while not self.is_over and (line := lines.next()) is not None:
            code = self._take(line.strip())
            if code and (not lines.is_typed or code == ExitCode.BROKEN_PIPE):
                return code
            if lines.is_typed and not (self.is_settled or self.is_over):
                self.view.note("/retry goes on from here")
        return ExitCode.SUCCESS

    def say(self, prompt: str | None) -> int:
        """Run the agent once.

        Args:
            prompt: What is said; None tries again what did not succeed.

        Returns:
            What the exit code would be.
        """
        self._unsaid, self.is_settled = prompt or self._unsaid, False
        return drive(self._run)

    def restore(self, document: ConversationSnapshot) -> None:
        """Go on with another conversation.

        Args:
            document: As it was kept.
        """
        self.agent.restore(document)
        self._unsaid, self.is_settled = None, not (document.pending_interrupts or document.pending_tool_call_ids)

    def _take(self, line: str) -> int:
        if not line:
            return ExitCode.SUCCESS
        if line.startswith("/") and not line.startswith("//"):
            return drive(lambda: remark(self, line))
        return self.say(line.removeprefix("/") if line.startswith("//") else line)

    def _run(self) -> int:
        options = self._runner.run(self._leftovers.settle())
        if options is None:
            self.view.note("nothing was sent: the agent waits for an answer first")
            return ExitCode.UNFINISHED
        held = len(self.agent.messages)
        try:
            result = self._runner.run(watch(self.agent.stream(self._unsaid, **options), self.view))
        finally:
            # A prompt that could not be sent is not in the conversation.
            if len(self.agent.messages) > held:
                self._unsaid = None
        self._conclude(result)
        return code_of(result)

    def _conclude(self, result: RunResult) -> None:
        """Say what is left to say after a run."""
        self._unsaid, self.is_settled = None, not result.interrupts
        for call in result.pending_tool_calls:
            self.view.note(f"nobody here can answer the call of {call.function.name} ({call.id})")
        if isinstance(result.outcome, RunFinishedCancelledOutcome):
            self.view.note("the agent cancelled the run")
        if result.usage:
            self.view.note(usage_line(result.usage))
