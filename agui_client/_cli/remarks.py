"""What is said in a chat to the chat itself: lines that begin with a slash."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
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


class Remark(NamedTuple):
    """Something that can be said."""

    what: str
    """What comes of it."""
    do: Callable[[Chat, str], int]
    """Takes what stands after the word; returns what the exit code would be."""


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
        return REMARKS[word].do(chat, rest.strip())
    except RemarkError as error:
        complain(str(error))
        return ExitCode.USAGE


def _help(chat: Chat, rest: str) -> int:
    chat.view.tell("\n".join(f"{word:<9}{remark.what}" for word, remark in REMARKS.items()))
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
    with _told(f"cannot write {path}"):
        if path.exists():
            # What is there may be anything but a conversation.
            _read(path)
        _replace(path.resolve(), chat.agent.snapshot().model_dump_json())
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
    with _told(f"{rest} names no file"):
        return Path(rest).expanduser()


def _read(path: Path) -> ConversationSnapshot:
    with _told(f"cannot read {path}"):
        # A device or pipe may have no end.
        text = path.read_bytes() if path.is_file() or not path.exists() else b""
    try:
        return ConversationSnapshot.model_validate_json(text)
    except ValidationError as error:
        raise RemarkError(f"{path} is no conversation that was saved here") from error


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner reads; what was there stays if that fails."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".agui-", delete=False) as draft:
        try:
            draft.write(text)
            draft.close()
            Path(draft.name).replace(path)
        except BaseException:
            Path(draft.name).unlink()
            raise


@contextmanager
def _told(what: str) -> Generator[None]:
    """Say in a sentence why a file cannot be used: also a name may be impossible, or a home nobody's."""
    try:
        yield
    except OSError as error:
        raise RemarkError(f"{what}: {error.strerror}") from error
    except (ValueError, RuntimeError) as error:
        raise RemarkError(f"{what}: {error}") from error


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


REMARKS: Mapping[str, Remark] = {
    "/help": Remark("what can be said besides prompts", _help),
    "/state": Remark("the state, as JSON", _state),
    "/history": Remark("what was said so far", _history),
    "/save": Remark("FILE  keep the conversation", _save),
    "/load": Remark("FILE  go on with one that was kept", _load),
    "/retry": Remark("try again what was stopped or failed, without saying it twice", _retry),
    "/new": Remark("begin a new conversation", _new),
    "/quit": Remark("leave", _quit),
}
"""What can be said, by its first word."""
