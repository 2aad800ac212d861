"""Protocol versions: how they compare, and what to say when a producer's is not ours (VER-1, VER-2, VER-3)."""

from __future__ import annotations

import re

from ag_ui.core import PROTOCOL_VERSION

from agui_client._pipeline.refusal import shortened
from agui_client.errors import UsageError


def version_key(version: str) -> tuple[int, ...]:
    """A dotted version as numbers that compare: 1.10 is newer than 1.9, and 1.0.0 is 1.0 (VER-1).

    Raises:
        UsageError: It is no such version.
    """
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", version) is None:
        raise UsageError(f"{shortened(version)} is not a version; write numbers and dots, such as 0.0.57 or 1.0")
    numbers = [int(number) for number in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def version_warning(declared: str | None) -> str | None:
    """What to say about the version a producer declares on RUN_STARTED (VER-1, VER-2, VER-3).

    Args:
        declared: Its `protocolVersion`; None if it declares none.

    Returns:
        The warning for a version that is newer than ours or cannot be interpreted; None for any other.
    """
    if declared is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", declared) is None:
        return (
            f"the producer declares protocol version {shortened(declared)}, which this client cannot interpret: "
            f"it speaks {PROTOCOL_VERSION}, and proceeds as with a newer producer"
        )
    if version_key(declared) > version_key(PROTOCOL_VERSION):
        return (
            f"the producer speaks protocol version {declared}, this client {PROTOCOL_VERSION}: "
            "what is new in it will be stripped; upgrade the client to see it"
        )
    return None
