"""Files that are replaced as a whole, and files that only their owner can read."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

FILE_ERRORS = (OSError, EOFError, zlib.error)
"""The exceptions of files that may be packed."""


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Generator[Path]:
    """Have a file written under another name in its folder, and put it in its place at the end, unless that fails.

    Args:
        path: The file; what is there stays until the end.
        mode: The permissions; None for a file that only its owner can read.
    """
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        if mode is not None:
            draft.chmod(mode)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def place_beside(draft: Path, path: Path) -> Path:
    """Move a file to a path at which there is none, and return it: the path, or else one with a number in its name.

    Args:
        draft: The file, in the same folder.
        path: The path to begin with, as in "ferry.jsonl", and then "ferry-2.jsonl".
    """
    for number in count(1):
        target = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            # A link, as a rename would replace a file that another program has put there meanwhile.
            target.hardlink_to(draft)
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            if target.exists():
                continue
            draft.rename(target)
            return target
        draft.unlink()
        return target
    raise AssertionError  # numbers do not end


def usual_mode(folder: Path) -> int:
    """Return the permissions that a new file gets in a folder; reading the umask would change it for other threads."""
    probe = folder / f".{uuid4().hex}"
    handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return os.fstat(handle).st_mode
    finally:
        os.close(handle)
        probe.unlink()


def make_private(path: Path) -> None:
    """Make an empty file that is readable for its owner alone; one that is there, or cannot be made, stays as it is."""
    with suppress(OSError):
        # Such a file is not made through a link.
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def replace_private(path: Path, content: bytes) -> None:
    """Write a file as `write_private` does, in one step: until it is whole, what is there stays."""
    with replacing(path) as draft:
        draft.write_bytes(content)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that is readable for its owner alone, as recordings are."""
    with open(path, "wb", opener=private) as file:
        file.write(content)


def private(path: str, flags: int) -> int:
    """Open a file for `open(opener=)`; a new one is readable for its owner alone."""
    return os.open(path, flags, 0o600)


def opened(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open a file to be read; one whose name ends in .gz is unpacked."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def file_reason(error: Exception) -> object:
    """Return what the system says about a file that cannot be read, without the file's name."""
    return error.strerror if isinstance(error, OSError) and error.strerror else error
