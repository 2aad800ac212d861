"""Messages that an application sends: prompts, attachments, content of tool results, and messages stored as JSON.

To change

- a kind of prompt: `prompt_messages` here; a whole input is a `WholeInput` in `_core/run/turn_input.py`
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from mimetypes import guess_type
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias, cast, get_args
from urllib.parse import unquote_to_bytes, urlsplit
from uuid import uuid4

from ag_ui import core
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from agui_client.errors import UsageError

MessageLike: TypeAlias = core.Message | Mapping[str, Any]
"""A message, or one as the JSON object it is on the wire; without an `id` it gets one."""
MediaPart: TypeAlias = core.ImagePart | core.AudioPart | core.VideoPart | core.DocumentPart
"""A content part that carries media."""
Part: TypeAlias = core.TextPart | MediaPart
"""A piece of a message's content."""
Prompt: TypeAlias = str | MessageLike | Sequence[str | PathLike[str] | Part] | core.RunAgentInput | None
"""The prompt of a run: text, a list of texts, paths and content parts, a message of any role, a whole `RunAgentInput`,
which becomes the conversation, or None to continue with the conversation as it is."""

_PROMPTS = "text, a message, a RunAgentInput, or a list of texts, paths and content parts"
_MESSAGES: tuple[type[core.Message], ...] = get_args(get_args(core.Message)[0])
_MESSAGE: TypeAdapter[core.Message] = TypeAdapter(core.Message, config=ConfigDict(defer_build=True))
_PARTS: tuple[type[Part], ...] = get_args(Part)
_MEDIA: Mapping[str, type[MediaPart]] = {"image": core.ImagePart, "audio": core.AudioPart, "video": core.VideoPart}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_TYPES = {
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip",
    "pdf": "application/pdf",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "mp4": "video/mp4",
    "mkv": "video/x-matroska",
    "webm": "video/webm",
    "mov": "video/quicktime",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "heic": "image/heic",
    "svg": "image/svg+xml",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "log": "text/plain",
    "ts": "text/plain",  # of TypeScript; what machines know is a stream of video
    "py": "text/x-python",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "xml": "application/xml",
}
"""The media types of files by the ends of their names."""
_FIRST_BYTES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF": "application/pdf",
}


def as_messages(messages: Iterable[MessageLike]) -> list[core.Message]:
    """Read messages as the protocol's models; retired content parts become those that replaced them (VER-12).

    Args:
        messages: Models, or JSON objects with camelCase keys.

    Returns:
        The models, in order.

    Raises:
        UsageError: An object is not a message.
    """
    return [_as_message(message) for message in messages]


def _as_message(message: object) -> core.Message:
    if isinstance(message, _MESSAGES):
        return message
    if not isinstance(message, Mapping):
        raise UsageError(
            f"a message is one of ag_ui.core's, or its JSON object, not a {type(message).__name__}; "
            "for a user's words, UserMessage(id=..., content=...)"
        )
    from agui_client._core.protocol.compat import upgraded_messages
    from agui_client._core.protocol.warnings import WarningLog

    upgraded = upgraded_messages({"messages": [{"id": str(uuid4()), **cast("Any", message)}]}, WarningLog())
    try:
        return _MESSAGE.validate_python(upgraded["messages"][0], strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        refused = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'role'}: {each['msg']}" for each in error.errors())
        raise UsageError(f"this is not a message of the protocol: {refused}") from None


def prompt_messages(prompt: Prompt) -> list[core.Message]:
    """Make the messages that a prompt adds: one, or none for None.

    Raises:
        UsageError: It is not a prompt.
    """
    if prompt is None:
        return []
    if isinstance(prompt, (Mapping, *_MESSAGES)):
        return [_as_message(prompt)]
    if prompt and isinstance(prompt, list | tuple):
        return [core.UserMessage(id=str(uuid4()), content=[_prompt_part(item) for item in prompt])]
    if isinstance(prompt, str):
        return [core.UserMessage(id=str(uuid4()), content=prompt)]
    raise UsageError(f"a prompt is {_PROMPTS}, not {type(prompt).__name__}")


def _prompt_part(item: object) -> Part:
    match item:
        case str():
            return core.TextPart(text=item)
        case PathLike():
            return attach(cast("PathLike[str]", item))
        case _ if isinstance(item, _PARTS):
            return item
        case _:
            raise UsageError(f"a prompt is {_PROMPTS}, not a list with {type(item).__name__} in it; see attach()")


def content_of(value: object) -> str | list[Part]:
    """Make the content of a tool message from a tool's result (TOOL-6).

    Args:
        value: Text, which stays as it is; a content part or a list of them; anything else goes as JSON: models under
            their aliases, and numbers that JSON does not have as the texts "NaN", "Infinity" and "-Infinity". Numbers,
            arrays and series of numpy and pandas go as numbers and lists, tables as lists of rows, and what is missing
            in those of pandas as `null`.

    Returns:
        Text, or content parts.

    Raises:
        ValueError: It has no JSON form, its text holds half a character, or a part is broken.
    """
    if (parts := _as_parts([value] if isinstance(value, _PARTS) else value)) is not None:
        return [_sound(part) for part in parts]
    if isinstance(value, str):
        return str.encode(value).decode()
    # First without text: models write such numbers as null, whatever is asked of `to_json`.
    plain = to_jsonable_python(value, by_alias=True, fallback=_plain)
    return to_json(plain, inf_nan_mode="strings").decode()


def _plain(value: Any) -> Any:
    """Return what a number, an array or a table of numpy or pandas is in plain Python; neither is imported for it.

    Raises:
        ValueError: It is something else.
    """
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "iloc"):
        # NaN in a series or a table is a value that is missing.
        value = value.astype(object).where(value.notna(), None)
    if library == "pandas" and hasattr(value, "itertuples"):
        return value.to_dict("records")
    for method in ("tolist", "item") if library in ("numpy", "pandas") else ():
        if hasattr(value, method):
            return getattr(value, method)()
    raise ValueError(f"a value of the type {type(value).__name__} has no JSON form")


def _sound(part: Part) -> Part:
    """Copy a content part that can be sent: any other would make the whole conversation unsendable.

    Raises:
        ValueError: It cannot be sent.
    """
    from agui_client._core.protocol.plain_json import members_as_json
    from agui_client._core.protocol.problems import Refusal, summary

    refusals: list[Refusal] = []
    plain = members_as_json(part, refusals)
    if refusals:
        raise ValueError(f"a content part {summary(refusals)}")
    return type(part).model_validate(plain, by_alias=True, by_name=False, strict=True)


def _as_parts(value: object) -> list[Part] | None:
    """Return the value if it is a list of at least one content part and of nothing else."""
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    parts = [item for item in items if isinstance(item, _PARTS)]
    return parts if parts and len(parts) == len(items) else None


def attach(source: str | PathLike[str] | bytes | IO[Any], mime_type: str | None = None) -> MediaPart:
    """Make a content part of a file, for a prompt or for a tool's result.

    Args:
        source: The path of a file, or an open one, which is read now; the URL of one, which the agent fetches; a
            `data:` URL; or bytes.
        mime_type: Its media type, such as "image/png"; guessed from the name or the first bytes if left out. Any but
            image, audio and video becomes a document.

    Returns:
        An image, audio, video or document part.

    Raises:
        UsageError: The media type cannot be guessed, or the file cannot be read.
    """
    if isinstance(source, bytes):
        return _of_bytes(source, mime_type, "these bytes")
    if isinstance(source, str) and source.startswith("data:"):
        return _of_data_url(source, mime_type)
    if not isinstance(source, str | PathLike):
        return _of_open_file(source, mime_type)
    if isinstance(source, str) and "://" in source:
        name = urlsplit(source).path
        mime_type = mime_type or _guessed_type(name) or _no_type(f"the file {name!r} of this URL")
        return _media(core.UrlSource(value=source, mime_type=mime_type), mime_type)
    try:
        content = Path(source).expanduser().read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        what = f"{fspath(source)!r} cannot be attached: {why}"
        raise UsageError(f"{what}; give the path of a file, a URL, or bytes") from None
    return _of_bytes(content, mime_type or _guessed_type(fspath(source)), repr(fspath(source)))


def _of_bytes(content: bytes, mime_type: str | None, what: str) -> MediaPart:
    found = (known for start, known in _FIRST_BYTES.items() if content.startswith(start))
    mime_type = mime_type or next(found, None) or _no_type(what)
    return _media(core.DataSource(value=b64encode(content).decode(), mime_type=mime_type), mime_type)


def _of_open_file(file: IO[Any], mime_type: str | None) -> MediaPart:
    if not hasattr(file, "read"):
        raise UsageError(f"{file!r} cannot be attached; give the path of a file, an open one, a URL, or bytes")
    name: object = getattr(file, "name", None)
    data: str | bytes = file.read()
    guessed = _guessed_type(name) if isinstance(name, str) else None
    return attach(data.encode() if isinstance(data, str) else data, mime_type or guessed)


def _of_data_url(url: str, mime_type: str | None) -> MediaPart:
    """Make a part of a URL with the content in it (RFC 2397)."""
    head, comma, data = url.removeprefix("data:").partition(",")
    kind, is_base64 = (head.removesuffix(";base64"), True) if head.endswith(";base64") else (head, False)
    try:
        content = b64decode(unquote_to_bytes(data), validate=True) if is_base64 else unquote_to_bytes(data)
    except ValueError as error:
        raise UsageError(f"the data: URL cannot be attached: {error}") from None
    if not comma:
        raise UsageError("the data: URL cannot be attached: it has no comma before its content")
    return attach(content, mime_type or kind.partition(";")[0] or "text/plain")


def _media(source: core.DataSource | core.UrlSource, mime_type: str) -> MediaPart:
    return _MEDIA.get(mime_type.partition("/")[0].lower(), core.DocumentPart)(source=source)


def _guessed_type(name: str) -> str | None:
    # What the machine knows differs from image to image: a slim container knows no docx.
    if (known := _TYPES.get(name.rpartition(".")[2].lower())) is not None:
        return known
    kind, packing = guess_type(name, strict=False)
    return f"application/{packing}" if packing else kind


def _no_type(what: str) -> NoReturn:
    raise UsageError(f'the media type of {what} cannot be guessed; give mime_type=, such as "image/png"')
