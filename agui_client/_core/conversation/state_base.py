"""The base of a state: a hash of the state that both sides had when a run ended, by which a server merges later edits.

A client sends it in `forwardedProps` beside the state that it made of the base, to servers whose responses say that
they take it. The server finds the base among the states that it has stored, and merges what both sides changed since.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agui_client._core.protocol.schema import is_object

STATE_BASE = "aguiStateBase"
"""The member of `forwardedProps` that has the hash."""
STATE_BASE_HEADER = "x-agui-state-base"
"""The header of responses of servers that take the hash."""


def state_hash(state: Any) -> str:
    """Return the hash of a state: SHA-256 of its JSON, with sorted names, without spaces, in UTF-8."""
    text = json.dumps(state, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"sha256-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def with_base(forwarded_props: Any, base: str) -> Any:
    """Return forwarded properties with the hash of a base, if there is a place for it.

    Args:
        forwarded_props: The properties, any JSON value.
        base: The hash.
    """
    props: Any = {} if forwarded_props is None else forwarded_props
    return {**props, STATE_BASE: base} if is_object(props) and STATE_BASE not in props else forwarded_props


def split_base(forwarded_props: Any) -> tuple[str | None, Any]:
    """Return the hash of a base that is in forwarded properties, None if there is none, and the other properties."""
    if not is_object(forwarded_props) or STATE_BASE not in forwarded_props:
        return None, forwarded_props
    base = forwarded_props[STATE_BASE]
    others = {name: value for name, value in forwarded_props.items() if name != STATE_BASE}
    return (base if isinstance(base, str) else None), others or None
