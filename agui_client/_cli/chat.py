"""`agui chat`: a conversation at the terminal, with tools, approval and answers to interrupts."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar, cast

from ag_ui.core import RunFinishedCancelledOutcome, UserMessage

from agui_client._cli.demo import SCRIPTED, demo_server
from agui_client._cli.exit_codes import ExitCode, code_of, drive
from agui_client._cli.input_lines import GivenLines, TypedLines
from agui_client._cli.lines_beside import LinesBeside
from agui_client._cli.pending_work import PendingWork
from agui_client._cli.slash_commands import SLASH_COMMANDS, run_slash_command
from agui_client._cli.surfaces import changed_text, seen
from agui_client._cli.threads import open_store
from agui_client._core.protocol.message_text import content_text
from agui_client._core.run.observers import RunObserver
from agui_client._rendering.form_dialog import LeftError
from agui_client._rendering.story import RunStory, usage_text, waiting_texts
from agui_client.a2ui import A2UI
from agui_client.errors import AGUIError, UsageError
from agui_client.terminal._handlers import TerminalAnswerer, TerminalApprover
from agui_client.terminal._lines import WarningLines
from agui_client.terminal._live_run import LiveView
from agui_client.terminal._plain_view import PlainView
from agui_client.terminal._questions import Terminal, WithdrawnError
from agui_client.terminal._watching import drawing_board, watch

if TYPE_CHECKING:
    from agui_client._cli.agent_settings import AgentSettings
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.protocol.prompts import MediaPart, Prompt
    from agui_client._core.run.result import RunResult
    from agui_client._core.run.scope import RunScope
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.toolset import ToolSource
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.a2ui import Action
    from agui_client.terminal._questions import Keyboard

    View = LiveView | PlainView
    Lines = TypedLines | GivenLines

T = TypeVar("T")


def chat_with_demo(settings: Callable[[str], AgentSettings], tools: ToolSource) -> int:
    """Serve the demo agent, and talk with it.

    Args:
        settings: Makes the settings for the address of the agent.
        tools: The tools that the agent may call.

    Returns:
        The exit code.
    """
    with demo_server(0) as server:
        return chat_with(settings(server.url), tools, introduction=SCRIPTED)


def chat_with(settings: AgentSettings, tools: ToolSource, *, introduction: str = "") -> int:
    """Talk with an agent until the input ends or the user leaves.

    Args:
        settings: The agent and the conversation.
        tools: The tools that the agent may call.
        introduction: A sentence about the agent.

    Returns:
        The exit code.
    """
    console = drawing_board()
    view: View = PlainView(answers=sys.stdout, notes=sys.stderr) if console is None else LiveView(console)
    WarningLines(view.note).install(shows_texts=True)
    lines: Lines = TypedLines(SLASH_COMMANDS) if sys.stdin.isatty() else GivenLines()
    beside = LinesBeside() if lines.is_typed else None

    @contextmanager
    def paused() -> Generator[None]:
        """Leave the screen and the keys to a question."""
        with view.paused(), nullcontext() if beside is None else beside.paused():
            yield

    approve = TerminalApprover(around=paused)
    answer = TerminalAnswerer(around=paused, messages=lambda: agent.messages, name_of=view.story.speakers.name)
    # Agents that show a form without the official middleware in front of them are told of presses, too.
    agent = settings.make_agent(tools=tools, approve=approve, answer=answer).use(A2UI(catalog={}))
    if lines.is_typed:
        view.note(f"talking with {settings.shown_url}; /help lists the slash commands")
        if introduction:
            view.note(introduction)
    with ExitStack() as stack:
        if settings.threads is not None:
            store = stack.enter_context(open_store(settings.threads, is_new=True))
            block = store.threads.open(settings.thread_id, agent, owner=settings.owner)
            agent = stack.enter_context(block)
            what = "continues" if block.info else "is new"
            view.note(f"thread {block.thread_id} {what}; --thread-id {block.thread_id} continues it another time")
        runner = stack.enter_context(asyncio.Runner())
        chat = Chat(agent, view, PendingWork(agent, approve, answer, Terminal(None, paused)), runner)
        chat.is_kept = settings.threads is not None
        chat.lines_beside = beside
        return chat.talk(lines)


class Chat(RunObserver):
    """A conversation.

    Args:
        view: The view that shows runs and notes.
        pending_work: Asks about open interrupts and calls before each run.
        runner: The event loop of the runs; between runs no loop is running, and Ctrl-C reaches the prompt.
    """

    def __init__(self, agent: AbstractAgent, view: View, pending_work: PendingWork, runner: asyncio.Runner) -> None:
        self.agent = agent
        """The agent."""
        self.view = view
        """The view that shows runs and notes."""
        self.first_state = agent.state
        """The state that a new conversation begins with."""
        self.is_over = False
        """Whether the user has left."""
        self.is_settled = not (agent.pending_interrupts or agent.pending_tool_calls)
        """Whether there is nothing to try again."""
        self.is_kept = False
        """Whether the conversation is a thread of --threads, so that no other one can take its place."""
        self.attached: list[MediaPart] = []
        """The files that go with the next prompt."""
        self.lines_beside: LinesBeside | None = None
        """Reads the lines that a user types while a run is in progress; None where no user types."""
        self._action: Action | None = None
        self._early: deque[str] = deque()
        self._unsent_prompt: Prompt = None
        self._pending_work = pending_work
        self._runner = runner
        agent.add_observer(self)

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Show the progress of a tool."""
        self.view.execution(execution)

    def talk(self, lines: Lines) -> int:
        """Carry out one line after the other; lines that no user types end with the first that fails.

        Args:
            lines: The source of the lines.

        Returns:
            The exit code.
        """
        if lines.is_typed and not self.is_settled:
            self._say_what_waits()
        while not self.is_over and (line := self._early.popleft() if self._early else lines.next()) is not None:
            code = self._handle_line(line.strip())
            if code and (not lines.is_typed or code == ExitCode.BROKEN_PIPE):
                return code
            if lines.is_typed and not (self.is_settled or self.is_over):
                self._say_what_waits()
        return ExitCode.SUCCESS

    def _say_what_waits(self) -> None:
        agent = self.agent
        for each in waiting_texts(agent.pending_interrupts, agent.pending_tool_calls, self.view.story.speakers):
            self.view.note(each)
        self.view.note("/retry continues from here")

    def send_prompt(self, prompt: str | UserMessage | None) -> int:
        """Run the agent once.

        Args:
            prompt: The prompt; None runs the agent with the conversation as it is.

        Returns:
            The exit code of the run.
        """
        if isinstance(prompt, str):
            self._unsent_prompt = [prompt, *self.attached] if self.attached else prompt
            self.attached.clear()
        elif prompt is not None:
            self._unsent_prompt = prompt
        self.is_settled = False
        return drive(self._run)

    def press(self, action: Action) -> int:
        """Run the agent once, and tell it what was pressed on a surface of it.

        Returns:
            The exit code of the run.
        """
        self._action, self._unsent_prompt = action, None
        return drive(self._run)

    def ask(self, dialogue: Callable[[Keyboard, Callable[[str], object]], T]) -> T | None:
        """Ask the user, between two runs.

        Args:
            dialogue: Asks the questions; it gets the keyboard, and a function that shows a line.

        Returns:
            What came of it; None if the user left it.

        Raises:
            UsageError: Nobody types.
        """
        terminal = self._pending_work.terminal
        if not terminal.can_ask():
            raise UsageError("there is no terminal to ask on: /set FIELD VALUE and /press BUTTON do without one")
        try:
            return self._runner.run(terminal.ask(lambda keyboard: dialogue(keyboard, terminal.say)))
        except (LeftError, WithdrawnError):
            return None

    def restore(self, document: ConversationSnapshot) -> None:
        """Continue with another conversation.

        Args:
            document: The conversation, as it was saved.
        """
        self.agent.restore(document)
        self._unsent_prompt = None
        self.is_settled = not (self.agent.pending_interrupts or document.pending_tool_call_ids)

    def _handle_line(self, line: str) -> int:
        if not line:
            return ExitCode.SUCCESS
        if line.startswith("/") and not line.startswith("//"):
            return drive(lambda: run_slash_command(self, line))
        return self.send_prompt(line.removeprefix("/") if line.startswith("//") else line)

    def _run(self) -> int:
        options = self._runner.run(self._pending_work.settle())
        if options is None:
            self.view.note("nothing was sent: the agent waits for an answer first")
            return ExitCode.UNFINISHED
        action, self._action = self._action, None
        if action is not None:
            options["forwarded_props"] = action.run_options()["forwarded_props"]
        earlier, surfaces = len(self.agent.messages), seen(self.agent.surfaces)
        try:
            result = self._runner.run(self._watched(self.agent.stream(self._unsent_prompt, **options)))
        except AGUIError as error:
            if error.partial is not None:
                self._keep_unsent(cast("RunResult", error.partial))
            raise
        finally:
            # The prompt of a run that never started is not in the conversation, and is sent again by /retry.
            if len(self.agent.messages) > earlier:
                self._unsent_prompt = None
        if shown := changed_text(self.agent.surfaces, surfaces):
            self.view.show_text(shown)
        self._conclude(result)
        return code_of(result)

    async def _watched(self, run: AgentRun) -> RunResult:
        if self.lines_beside is None:
            return await watch(run, self.view)
        with self.lines_beside.read(self._steer):
            return await watch(run, self.view)

    def _steer(self, line: str) -> None:
        """Give the run what the user typed meanwhile; commands, and what comes too late, are carried out after it."""
        try:
            if line.startswith("/"):
                raise UsageError("a command is not for the agent")
            self.agent.steer(line)
        except UsageError:
            self._early.append(line)
        else:
            self.view.note(f"the agent gets this when it has come to a stop: {line}")

    def _keep_unsent(self, result: RunResult) -> None:
        """Send the lines that no run was sent as prompts of their own."""
        self._early.extend(content_text(message.content or "") for message in result.unsent_messages)

    def _conclude(self, result: RunResult) -> None:
        """Write what a run left open, and its usage."""
        self._unsent_prompt, self.is_settled = None, not result.interrupts
        self._keep_unsent(result)
        for line in RunStory.from_result(result).lines:
            self.view.note(line)
        for call in result.pending_tool_calls:
            self.view.note(f"no tool here executes the call of {call.function.name} ({call.id})")
        if isinstance(result.outcome, RunFinishedCancelledOutcome):
            self.view.note("the agent cancelled the run")
        if result.usage:
            self.view.note(usage_text(result.usage))
