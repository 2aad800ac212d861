"""Exported threads: Markdown for people, JSON and JSON lines for continuing elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from ag_ui.core import TokenUsage
from pydantic import BaseModel, Field, ValidationError

from agui_client._core.conversation.snapshot import ANOTHER_VERSION, ConversationSnapshot, is_of_another_version
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.patch import parse_json
from agui_client._rendering.markdown import code_block, literal, passage
from agui_client._rendering.story import Speakers, calls_in
from agui_client.errors import UsageError
from agui_client.store._threads.thread_store import ThreadInfo

Format = Literal["md", "json", "jsonl"]
"""The formats of an exported thread."""


class ThreadDocument(BaseModel):
    """An exported thread."""

    agui_thread: Literal[1] = 1
    """The version of the format."""
    title: str = ""
    """The title."""
    usage: list[TokenUsage] = Field(default_factory=list["TokenUsage"])
    """The tokens of all runs."""
    conversation: ConversationSnapshot
    """The conversation, without secrets that are not part of it."""


def exported(info: ThreadInfo, conversation: ConversationSnapshot, form: Format) -> str:
    """Return a thread as text.

    Args:
        info: The description.
        form: The format.

    Raises:
        UsageError: There is no such format.
    """
    if form == "md":
        return "\n\n".join(_markdown(info, conversation)) + "\n"
    document = ThreadDocument(title=info.title, usage=list(info.usage), conversation=conversation)
    if form == "json":
        return document.model_dump_json(indent=2, by_alias=True) + "\n"
    if form == "jsonl":
        plain = document.model_dump(mode="json", by_alias=True)
        messages = plain["conversation"].pop("messages")
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [plain, *messages])
    raise UsageError(f"a thread is exported as 'md', 'json' or 'jsonl', not {form!r}")


def imported(text: str) -> ThreadDocument:
    """Read an exported thread, JSON or JSON lines.

    Raises:
        UsageError: It is none.
    """
    try:
        try:
            return ThreadDocument.model_validate_json(text)
        except ValidationError as error:
            _check_version(error)
            plain, *messages = [parse_json(line) for line in text.split("\n") if line.strip()]
            if "messages" in plain["conversation"]:
                raise  # JSON in one line, which is not JSON lines without any message
            plain["conversation"]["messages"] = messages
            return ThreadDocument.model_validate(plain)
    except (AttributeError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, ValidationError):
            _check_version(error)
        raise UsageError("this is not an exported thread: import_() takes json or jsonl of export()") from error


def _check_version(error: ValidationError) -> None:
    if is_of_another_version(error):
        raise UsageError(f"the exported thread {ANOTHER_VERSION}; it was not imported") from error


def _markdown(info: ThreadInfo, conversation: ConversationSnapshot) -> Iterator[str]:
    calls, speakers = calls_in(conversation.messages, records=conversation.tool_calls), Speakers()
    yield f"# {literal(info.title or info.thread_id)}"
    for message in conversation.messages:
        if message.role == "tool":
            result = code_block(content_text(message.content, "\n\n"))
            yield f"**Result of {literal(message.tool_call_id)}**\n\n{result}"
        elif text := _text(message.content):
            author = speakers.name(getattr(message, "subagent_run_id", None)) or message.role.capitalize()
            yield f"**{literal(author)}**\n\n{text}"
        if message.role == "assistant":
            for each in message.tool_calls or ():
                call = calls[message.id, each.id]
                facts = f"({literal(call.tool_call_id)}), {literal(call.facts)}"
                yield f"**Call of {literal(call.name)}** {facts}\n\n{code_block(call.arguments)}"


def _text(content: Any) -> str:
    if isinstance(content, dict):
        return code_block(json.dumps(content, ensure_ascii=False, indent=2))
    return passage(content_text(content, "\n\n"))
