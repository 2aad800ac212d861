"""Files in a prompt: parts of them by path, URL and bytes, and lists that mix them with text."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    AudioPart,
    DataSource,
    DocumentPart,
    ImagePart,
    TextPart,
    UrlSource,
    UserMessage,
    VideoPart,
)

from agui_client import UsageError, attach
from agui_client.testing import ScriptedAgent, text, turn
from support.verbs import Verb, every_kind_of_verb

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("name", "kind", "mime_type"),
    [
        ("a photo.PNG", ImagePart, "image/png"),
        ("talk.mp3", AudioPart, "audio/mpeg"),
        ("walk.mp4", VideoPart, "video/mp4"),
        ("plan.pdf", DocumentPart, "application/pdf"),
        ("notes.txt", DocumentPart, "text/plain"),
        ("data.csv.gz", DocumentPart, "application/gzip"),
    ],
)
def test_a_file_or_the_url_of_one_is_the_part_that_its_name_says(
    tmp_path: Path, name: str, kind: type[Any], mime_type: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"content")
    data = DataSource(value=b64encode(b"content").decode(), mime_type=mime_type)
    assert attach(path) == attach(str(path)) == kind(source=data)
    url = f"https://files.test/{name}?token=secret#page=1"
    assert attach(url) == kind(source=UrlSource(value=url, mime_type=mime_type))


@pytest.mark.parametrize(
    ("start", "kind", "mime_type"),
    [
        (PNG, ImagePart, "image/png"),
        (b"\xff\xd8\xff\xe0", ImagePart, "image/jpeg"),
        (b"GIF89a", ImagePart, "image/gif"),
        (b"%PDF-1.7", DocumentPart, "application/pdf"),
    ],
)
def test_bytes_are_known_by_their_beginning(start: bytes, kind: type[Any], mime_type: str) -> None:
    assert attach(start) == kind(source=DataSource(value=b64encode(start).decode(), mime_type=mime_type))


def test_a_media_type_that_is_given_counts(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(PNG)
    assert isinstance(attach(path, "audio/wav"), AudioPart)
    assert isinstance(attach("https://files.test/1", mime_type="image/webp"), ImagePart)
    assert isinstance(attach(b"?", "video/webm"), VideoPart)


def test_what_cannot_be_guessed_or_read_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "recording").write_bytes(b"?")
    for source in (tmp_path / "recording", b"?", "https://files.test/1?token=secret"):
        with pytest.raises(UsageError, match="cannot be guessed; give mime_type=, such as") as error:
            attach(source)
        assert "secret" not in str(error.value)
    for absent in ("absent.png", "absent", "What is this?", Path("absent.unknown")):
        with pytest.raises(UsageError) as error:
            attach(absent)
        assert str(error.value) == (
            f"{str(absent)!r} cannot be attached: No such file or directory; give the path of a file, a URL, or bytes"
        )
    with pytest.raises(UsageError, match="cannot be attached: Is a directory"):
        attach(tmp_path)


def test_a_file_whose_name_says_nothing_is_known_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "photo"
    path.write_bytes(PNG)
    assert attach(path) == attach(PNG)


@every_kind_of_verb
def test_a_prompt_mixes_text_paths_and_parts(verb: Verb, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    agent = ScriptedAgent(turn(text("Nice.")))
    prompt: Any = ["What is this?", path, attach("https://files.test/plan.pdf"), TextPart(text="Be brief.")]
    assert verb(agent, prompt).error is None
    sent = agent.inputs[0].messages[0]
    assert isinstance(sent, UserMessage)
    assert sent.content == [TextPart(text="What is this?"), attach(PNG), prompt[2], prompt[3]]


@pytest.mark.parametrize("item", [5, None, b"bytes", {"type": "text"}], ids=repr)
def test_anything_else_in_a_prompt_is_refused(item: Any) -> None:
    with pytest.raises(UsageError, match=f"not a list with {type(item).__name__} in it; see attach"):
        ScriptedAgent(turn()).run_agent_sync(["Look:", item])


def _knows_nothing(name: str, strict: bool = True) -> tuple[None, None]:
    return None, None


@pytest.mark.parametrize(
    ("end", "mime_type"),
    [
        ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("XLSX", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        ("wav", "audio/wav"),
        ("m4a", "audio/mp4"),
        ("flac", "audio/flac"),
        ("mkv", "video/x-matroska"),
        ("epub", "application/epub+zip"),
        ("md", "text/markdown"),
        ("yaml", "application/yaml"),
        ("jsonl", "application/jsonl"),
        ("log", "text/plain"),
        ("ts", "text/plain"),
    ],
)
def test_media_types_do_not_depend_on_the_machine(
    end: str, mime_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.b.{end}"
    path.write_bytes(b"content")
    monkeypatch.setattr("agui_client._core.protocol.prompts.guess_type", _knows_nothing)
    assert attach(path).source.mime_type == mime_type
    assert attach(f"https://files.test/{path.name}").source.mime_type == mime_type
