"""Slash commands: lines of a chat that are for the chat itself and not for the agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from ag_ui.core import AssistantMessage, ReasoningMessage, TextPart, ToolMessage, UserMessage
from pydantic import ValidationError

from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.surfaces import Seen, changed_text, enter, fill, fillable, press
from agui_client._core.conversation.snapshot import ANOTHER_VERSION, ConversationSnapshot, is_of_another_version
from agui_client._core.ground.files import replacing
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.prompts import attach
from agui_client._rendering.story import calls_in
from agui_client.errors import UsageError
from agui_client.terminal._lines import one_line

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._cli.chat import Chat
    from agui_client._rendering.story import Calls, Speakers


class SlashCommand(NamedTuple):
    """A slash command."""

    description: str
    """The line about it in `/help`."""
    do: Callable[[Chat, str], int | None]
    """Carries out the command, given the text after its name; returns the exit code of a run, or None."""


def run_slash_command(chat: Chat, line: str) -> int:
    """Carry out a line.

    Args:
        line: The line: a slash, a name, and an argument.

    Returns:
        The exit code of the command.

    Raises:
        UsageError: It cannot be carried out.
    """
    word, _, rest = line.partition(" ")
    if word not in SLASH_COMMANDS:
        raise UsageError(
            f"there is no {word}; /help lists what there is, and a prompt that begins with a slash takes two"
        )
    return SLASH_COMMANDS[word].do(chat, rest.strip()) or ExitCode.SUCCESS


def _help(chat: Chat, rest: str) -> None:
    chat.view.show_text("\n".join(f"{word:<9}{command.description}" for word, command in SLASH_COMMANDS.items()))
    chat.view.show_text("Ctrl-C stops the run that is in progress, and leaves where none is; Ctrl-D leaves, too")


def _state(chat: Chat, rest: str) -> None:
    chat.view.show_text(json.dumps(chat.agent.state, ensure_ascii=False, indent=2))


def _history(chat: Chat, rest: str) -> None:
    document = chat.agent.snapshot()
    calls = calls_in(document.messages, speakers=chat.view.story.speakers, records=document.tool_calls)
    lines = [line for message in document.messages for line in _lines(message, calls, chat.view.story.speakers)]
    chat.view.show_text("\n".join(lines) or "there are no messages yet")


def _surfaces(chat: Chat, rest: str) -> None:
    chat.view.show_text(changed_text(chat.agent.surfaces, Seen()) or "the agent has sent no surfaces")


def _set(chat: Chat, rest: str) -> None:
    enter(chat.agent, rest)


def _press(chat: Chat, rest: str) -> int:
    return chat.press(press(chat.agent, rest))


def _fill(chat: Chat, rest: str) -> int | None:
    action = chat.ask(partial(fill, fillable(chat.agent, rest)))
    return None if action is None else chat.press(action)


def _save(chat: Chat, rest: str) -> None:
    path = _path(rest, "/save")
    with _file_errors(f"cannot write {path}"):
        is_there = path.exists()
    if is_there:
        # Only a file that holds a conversation may be replaced.
        _read(path)
    with _file_errors(f"cannot write {path}"), replacing(path.resolve()) as draft:
        draft.write_text(chat.agent.snapshot().model_dump_json(), "utf-8")
    chat.view.note(f"saved {len(chat.agent.messages)} messages to {path}")


def _load(chat: Chat, rest: str) -> None:
    path = _path(rest, "/load")
    _check_free(chat)
    chat.restore(_read(path))
    chat.view.note(f"loaded {len(chat.agent.messages)} messages of thread {chat.agent.thread_id}")


def _attach(chat: Chat, rest: str) -> None:
    if not rest:
        raise UsageError("/attach takes the name of a file, or a URL")
    chat.attached.append(attach(rest))
    chat.view.note(f"attached to the next prompt: {len(chat.attached)}")


def _retry(chat: Chat, rest: str) -> int:
    if chat.is_settled:
        chat.agent.rewind(_last_prompt(chat).id)
    return chat.send_prompt(None)


def _edit(chat: Chat, rest: str) -> int:
    if not rest:
        raise UsageError("/edit takes the new text of the last prompt")
    prompt = _last_prompt(chat)
    media = [] if isinstance(prompt.content, str) else [each for each in prompt.content if each.type != "text"]
    chat.agent.rewind(before=prompt.id)
    # Under its id, by which servers that store the thread know it as an edit.
    edited = [TextPart(text=rest), *media] if media else rest
    return chat.send_prompt(prompt.model_copy(update={"content": edited}))


def _last_prompt(chat: Chat) -> UserMessage:
    """Return the last message of the user."""
    own = [each for each in chat.agent.messages if isinstance(each, UserMessage) and each.subagent_run_id is None]
    if not own:
        raise UsageError("there is no prompt yet")
    return own[-1]


def _new(chat: Chat, rest: str) -> None:
    _check_free(chat)
    chat.restore(ConversationSnapshot(thread_id=str(uuid4()), state=chat.first_state))
    chat.view.note(f"a new conversation, thread {chat.agent.thread_id}")


def _check_free(chat: Chat) -> None:
    if chat.is_kept:
        raise UsageError("this chat is about one thread of --threads: /quit, and begin another chat")


def _quit(chat: Chat, rest: str) -> None:
    chat.is_over = True


def _path(rest: str, word: str) -> Path:
    if not rest:
        raise UsageError(f"{word} takes the name of a file")
    with _file_errors(f"{rest} names no file"):
        return Path(rest).expanduser()


def _read(path: Path) -> ConversationSnapshot:
    with _file_errors(f"cannot read {path}"):
        # A device or pipe may have no end, and is not read.
        text = path.read_bytes() if path.is_file() or not path.exists() else b""
    try:
        return ConversationSnapshot.model_validate_json(text)
    except ValidationError as error:
        what = ANOTHER_VERSION if is_of_another_version(error) else "is not a saved conversation"
        raise UsageError(f"{path} {what}") from error


@contextmanager
def _file_errors(failure: str) -> Generator[None]:
    """Translate errors of files, of impossible names, and of `~` without a home folder."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{failure}: {error.strerror}") from error
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"{failure}: {error}") from error


def _lines(message: Message, calls: Calls, speakers: Speakers) -> Iterator[str]:
    """Write a message as lines, each with its author."""
    author = "you" if message.role == "user" else speakers.author(message)
    if isinstance(message, ToolMessage):
        yield f"{message.tool_call_id} -> {one_line(content_text(message.content))}"
    elif isinstance(message, AssistantMessage):
        if message.content:
            yield f"{one_line(author)}: {message.content}"
        for call in (calls[message.id, each.id] for each in message.tool_calls or ()):
            decided = f", {call.decided}" if call.decided else ""
            yield one_line(f"{call.tool_call_id} = {call.name}({call.arguments}){decided}")
    elif isinstance(message, ReasoningMessage):
        yield f"thought: {one_line(message.content)}"
    else:
        yield f"{one_line(author)}: {content_text(message.content)}"


SLASH_COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("list these commands", _help),
    "/state": SlashCommand("print the state as JSON", _state),
    "/history": SlashCommand("print the conversation so far", _history),
    "/save": SlashCommand("FILE  save the conversation", _save),
    "/load": SlashCommand("FILE  continue a saved conversation", _load),
    "/attach": SlashCommand("FILE_OR_URL  send a file, such as an image, with the next prompt", _attach),
    "/surfaces": SlashCommand("print the forms and pages that the agent sent", _surfaces),
    "/set": SlashCommand("FIELD VALUE  fill in a field of them", _set),
    "/fill": SlashCommand("[SURFACE]  ask for the fields of the latest of them, and which button to press", _fill),
    "/press": SlashCommand("BUTTON  press a button of them, which tells the agent", _press),
    "/retry": SlashCommand("continue a run that failed or was stopped, or send the last prompt again", _retry),
    "/edit": SlashCommand("TEXT  send another text in place of the last prompt", _edit),
    "/new": SlashCommand("begin a new conversation", _new),
    "/quit": SlashCommand("leave", _quit),
}
"""The slash commands by name."""
