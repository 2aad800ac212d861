"""JSON pointers (RFC 6901)."""

from __future__ import annotations


def pointer(path: str, member: object) -> str:
    """Return the JSON pointer of a member of the value at `path`."""
    return f"{path}/{str(member).replace('~', '~0').replace('/', '~1')}"


def parts_of(path: str) -> list[str]:
    """Return the names of members and the positions that a JSON pointer leads through."""
    parts = path.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts] if "~" in path else parts
