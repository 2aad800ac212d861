"""Handlers that ask the user at the terminal to approve tool calls and to answer interrupts (SEC-3, INT-7).

Without a terminal a call is denied, and an interrupt is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import NOBODY_TO_ASK, Approve, Deny
from agui_client._core.tools.interrupts import Answer, Cancel, Resolve, cover, is_expired
from agui_client._core.tools.people import AtScreen
from agui_client._rendering.escaping import sentence
from agui_client._rendering.form_dialog import FormDialog, LeftError
from agui_client._rendering.forms import AnswerForm, decision_form
from agui_client._rendering.story import Speakers
from agui_client.errors import InterruptsNotCoveredError
from agui_client.terminal._approval_dialog import ApprovalDialog, PendingCall, beginning, json_lines
from agui_client.terminal._complaints import complain
from agui_client.terminal._questions import Terminal, WithdrawnError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, Message, ToolCall
    from rich.console import Console, RenderableType

    from agui_client._core.tools.approval import ApprovalRequest
    from agui_client._rendering.forms import DecisionForm
    from agui_client.terminal._questions import Around, Keyboard


class TerminalApprover(AtScreen):
    """Asks the user at the terminal to approve tool calls: `HttpAgent(url, tools=..., approve=TerminalApprover())`.

    Shows the tool and the arguments; y approves, a approves later calls of the tool in this thread, too, n denies and
    asks for a reason, e edits the arguments, in `$EDITOR` if it is set. An empty line, Esc and Ctrl-D deny, and so does
    the lack of a terminal. Several calls are asked about one after the other. Ctrl-C stops the run, as anywhere else.

    Args:
        console: The console that shows questions; the terminal if left out.
        around: Makes a context manager that is entered while a question is on the screen, such as one that stops a
            `rich.live.Live`; `show` and the commands of `agui` pause without it.
    """

    def __init__(self, *, console: Console | None = None, around: Around | None = None) -> None:
        self._terminal = Terminal(console, around)

    async def __call__(self, request: ApprovalRequest) -> Approve | Deny:
        """Ask about one call.

        Args:
            request: The call.

        Returns:
            The decision.
        """
        if not self._terminal.can_ask():
            complain(f"the call of {request.name} is denied, because there is no terminal to ask on")
            return NOBODY_TO_ASK
        try:
            return await self._terminal.ask(lambda keyboard: self._decide(request, keyboard))
        except (LeftError, WithdrawnError):
            return Deny()

    def _decide(self, request: ApprovalRequest, keyboard: Keyboard) -> Approve | Deny:
        console = self._terminal.console
        call = f"{request.agent or 'The agent'} wants to call {request.name}"
        console.print(_heading(request.message or call))
        if request.message:
            console.print(_aside(call))
        if request.tool.description:
            console.print(_aside(request.tool.description))
        return ApprovalDialog(PendingCall(request.arguments, request.tool.parameters), console, keyboard).decide()


class TerminalAnswerer(AtScreen):
    """Asks the user at the terminal to answer interrupts: `HttpAgent(url, answer=TerminalAnswerer())`.

    An interrupt that asks for a decision is shown like a tool's approval; one with a `responseSchema` becomes a form,
    line by line; any other takes text, or JSON that begins with a brace or bracket. Esc and Ctrl-D leave the question:
    the user may then let the agent continue without an answer. Without a terminal the interrupt is left to the caller.

    Args:
        console: The console that shows questions; the terminal if left out.
        around: As for `TerminalApprover`.
        messages: Returns the messages, to look up the tool call of an interrupt, such as `lambda: agent.messages`.
        name_of: Returns the name of a subagent that asks, by its id.
    """

    def __init__(
        self,
        *,
        console: Console | None = None,
        around: Around | None = None,
        messages: Callable[[], Sequence[Message]] = list,
        name_of: Callable[[str | None], str] | None = None,
    ) -> None:
        self._terminal = Terminal(console, around)
        self._messages = messages
        self._name_of = name_of or Speakers().name

    async def __call__(self, interrupt: Interrupt) -> Answer | None:
        """Ask one question.

        Returns:
            The answer; None leaves it to the caller.
        """
        if not self._terminal.can_ask():
            asked = sentence(interrupt.message or interrupt.reason)
            complain(f"{asked!r} is left without an answer, because there is no terminal to ask on")
            return None
        try:
            return await self._terminal.ask(lambda keyboard: self._answer(interrupt, keyboard))
        except WithdrawnError:
            return None

    def _answer(self, interrupt: Interrupt, keyboard: Keyboard) -> Answer | None:
        console, call = self._terminal.console, _call(self._messages(), interrupt.tool_call_id)
        console.print(_question(interrupt, call, console, self._name_of(interrupt.subagent_run_id)))
        if is_expired(interrupt):
            return self._cancel("It has expired, and cannot be answered.", keyboard)
        while True:
            try:
                answer = self._given(interrupt, call, keyboard)
                cover([interrupt], {interrupt.id: answer})
            except LeftError:
                if (cancelled := self._cancel("", keyboard)) is not None:
                    return cancelled
            except InterruptsNotCoveredError as error:
                console.print(_aside(str(error)))
            else:
                return answer

    def _given(self, interrupt: Interrupt, call: ToolCall | None, keyboard: Keyboard) -> Answer:
        console, form = self._terminal.console, decision_form(interrupt)
        if form is not None:
            return ApprovalDialog(_decidable(form, call), console, keyboard).decide()
        if interrupt.response_schema is not None:
            return Resolve(self._filled(AnswerForm(interrupt.response_schema), keyboard))
        return Resolve(_free(keyboard.read("Answer: ")))

    def _filled(self, form: AnswerForm, keyboard: Keyboard) -> Any:
        say = self._terminal.say
        say("Ctrl-D leaves the question.")
        return FormDialog(form, lambda prompt, begins: keyboard.read(prompt, default=begins), say).fill()

    def _cancel(self, why: str, keyboard: Keyboard) -> Cancel | None:
        """Ask whether the agent should continue without an answer; return None if not."""
        typed = ""
        with suppress(LeftError):
            typed = keyboard.read(f"{why} Let the agent continue without an answer? [y/N] ".lstrip())
        return Cancel() if typed.strip().lower() in {"y", "yes"} else None


def _free(typed: str) -> Any:
    """Read an answer without a schema: text, or JSON.

    Raises:
        LeftError: The line is empty.
    """
    if not typed.strip():
        raise LeftError
    if typed.lstrip()[0] in "{[":
        try:
            return parse_json(typed)
        except ValueError:
            return typed
    return typed


def _decidable(form: DecisionForm, call: ToolCall | None) -> PendingCall:
    can_edit = form.can_edit and call is not None
    return PendingCall(_arguments(call), can_edit=can_edit, can_explain=form.can_explain, can_last=form.can_last)


def _arguments(call: ToolCall | None) -> Mapping[str, Any] | None:
    if call is None:
        return None
    try:
        arguments = parse_json(call.function.arguments or "{}")
    except ValueError:
        return None
    return arguments if is_object(arguments) else None


def _call(messages: Sequence[Message], tool_call_id: str | None) -> ToolCall | None:
    return next((call for _, call in tool_calls_in(messages) if call.id == tool_call_id), None)


# --- the text of a question


_USUAL_REASONS = frozenset({"approval", "confirmation", "input", "input_required", "question", "tool_call"})
"""Reasons that say no more than the question does."""


def _question(interrupt: Interrupt, call: ToolCall | None, console: Console, asker: str) -> RenderableType:
    asked = interrupt.message or "The agent needs an answer"
    lines: list[RenderableType] = [beginning(_heading(f"{asker}: {asked}" if asker else asked), console)]
    if interrupt.reason not in _USUAL_REASONS:
        lines.append(_aside(f"reason: {interrupt.reason}"))
    if call is not None:
        lines.append(_aside(f"about its call of {call.function.name}"))
        if _arguments(call) is None:
            lines.append(_aside(f"with arguments that are not a JSON object: {call.function.arguments}"))
    elif interrupt.tool_call_id is not None:
        lines.append(_aside(f"about its tool call {interrupt.tool_call_id}"))
    if interrupt.expires_at is not None:
        lines.append(_aside(f"expires: {interrupt.expires_at}"))
    details = _details(interrupt)
    if details is not None:
        lines.append(Padding(beginning(json_lines(details), console), (0, 2)))
    return Group(*lines)


def _details(interrupt: Interrupt) -> Any:
    """Return the details of an interrupt: its metadata, or the value that a LangGraph graph passed to `interrupt()`."""
    metadata: Any = interrupt.metadata or None
    inside = metadata.get("langgraph") if is_object(metadata) else None
    raw = inside.get("raw") if is_object(inside) else None
    if raw is None:
        return metadata
    return None if raw == interrupt.message else raw


def _heading(text: str) -> Text:
    return Text.assemble(("? ", "bold yellow"), (sentence(text), "bold"))


def _aside(text: str) -> RenderableType:
    return Padding(Text(sentence(text), style="dim"), (0, 2))
