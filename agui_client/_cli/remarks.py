"""What is said in a chat to the chat itself: lines that begin with a slash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ag_ui.core import AssistantMessage, ReasoningMessage, ToolMessage
from pydantic import ValidationError

from agui_client._cli.exits import ExitCode, complain
from agui_client._cli.output import one_line, told
from agui_client.conversation import ConversationSnapshot

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._cli.chat import Chat


class RemarkError(Exception):
    """What was said makes no sense; the message says why."""


def remark(chat: Chat, line: str) -> int:
    """Do what a line says.

    Args:
        chat: The chat.
        line: A slash, a word, and what it is about.

    Returns:
        What the exit code would be.
    """
    word, _, rest = line.partition(" ")
    if word not in REMARKS:
        complain(f"there is no {word}; /help lists what there is, and a prompt that begins with a slash takes two")
        return ExitCode.USAGE
    try:
        return _DOING[word](chat, rest.strip())
    except RemarkError as error:
        complain(str(error))
        return ExitCode.USAGE


def _help(chat: Chat, rest: str) -> int:
    chat.view.tell("\n".join(f"{word:<9}{what}" for word, what in REMARKS.items()))
    chat.view.tell("Ctrl-C stops the run that is going on, and leaves where none is; Ctrl-D leaves, too")
    return ExitCode.SUCCESS


def _state(chat: Chat, rest: str) -> int:
    chat.view.tell(json.dumps(chat.agent.state, ensure_ascii=False, indent=2))
    return ExitCode.SUCCESS


def _history(chat: Chat, rest: str) -> int:
    lines = [line for message in chat.agent.messages for line in _lines(message)]
    chat.view.tell("\n".join(lines) or "nothing was said yet")
    return ExitCode.SUCCESS


def _save(chat: Chat, rest: str) -> int:
    path = _path(rest, "/save")
    if path.exists():
        # What is there may be anything but a conversation.
        _read(path)
    try:
        path.write_text(chat.agent.snapshot().model_dump_json(), "utf-8")
    except OSError as error:
        raise RemarkError(f"cannot write {path}: {error.strerror}") from error
    chat.view.note(f"saved {len(chat.agent.messages)} messages to {path}")
    return ExitCode.SUCCESS


def _load(chat: Chat, rest: str) -> int:
    path = _path(rest, "/load")
    chat.restore(_read(path))
    chat.view.note(f"loaded {len(chat.agent.messages)} messages of thread {chat.agent.thread_id}")
    return ExitCode.SUCCESS


def _retry(chat: Chat, rest: str) -> int:
    if chat.is_settled:
        raise RemarkError("there is nothing to try again: the last run succeeded, or there was none")
    return chat.say(None)


def _new(chat: Chat, rest: str) -> int:
    chat.restore(ConversationSnapshot(thread_id=str(uuid4()), state=chat.first_state))
    chat.view.note(f"a new conversation, thread {chat.agent.thread_id}")
    return ExitCode.SUCCESS


def _quit(chat: Chat, rest: str) -> int:
    chat.is_over = True
    return ExitCode.SUCCESS


def _path(rest: str, word: str) -> Path:
    if not rest:
        raise RemarkError(f"{word} takes the name of a file")
    return Path(rest).expanduser()


def _read(path: Path) -> ConversationSnapshot:
    try:
        return ConversationSnapshot.model_validate_json(path.read_text("utf-8"))
    except OSError as error:
        raise RemarkError(f"cannot read {path}: {error.strerror}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise RemarkError(f"{path} is no conversation that was saved here") from error


def _lines(message: Message) -> Iterator[str]:
    """A message, as lines that tell who said what."""
    if isinstance(message, ToolMessage):
        yield f"{message.tool_call_id} -> {one_line(told(message.content))}"
    elif isinstance(message, AssistantMessage):
        if message.content:
            yield f"agent: {message.content}"
        for call in message.tool_calls or ():
            yield one_line(f"{call.id} = {call.function.name}({call.function.arguments})")
    elif isinstance(message, ReasoningMessage):
        yield f"thought: {one_line(message.content)}"
    else:
        who = "you" if message.role == "user" else message.role
        yield f"{who}: {told(message.content)}"


REMARKS: Mapping[str, str] = {
    "/help": "what can be said besides prompts",
    "/state": "the state, as JSON",
    "/history": "what was said so far",
    "/save": "FILE  keep the conversation",
    "/load": "FILE  go on with one that was kept",
    "/retry": "try again what was stopped or failed, without saying it twice",
    "/new": "begin a new conversation",
    "/quit": "leave",
}
"""The words, with what they do."""

_DOING: Mapping[str, Callable[[Chat, str], int]] = {
    "/help": _help,
    "/state": _state,
    "/history": _history,
    "/save": _save,
    "/load": _load,
    "/retry": _retry,
    "/new": _new,
    "/quit": _quit,
}
