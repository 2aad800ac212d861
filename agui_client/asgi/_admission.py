"""Admission: who is let in, judged by the headers of a request before its body is read, and for whom it is.

What a caller may say in its body is judged elsewhere: `_serving/caller_input.py` looks at inputs.

To change

- who is let in, the owner of a caller, what a run keeps of a caller: `Admission` here
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client._core.ground.concurrency import whole
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._request_body import check_length
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client.store._keeping import Keeping

_CONNECT = "/connect"
"""The end of the paths at which a thread is sent again."""
_SINGLE = (b"authorization", b"content-type", b"host", b"origin")
"""Headers that a request has once."""

Authorizer: TypeAlias = Callable[[str, str, Mapping[str, str]], object]
"""A function, sync or async, of the method, the path and the headers of a request; only what it returns a true value
for is served."""


class Admission:
    """Lets requests in.

    Args:
        authorize: The function that lets requests in; None for all.
        owner_of: The function that returns the owner of a caller; None for the caller itself.
        max_body_bytes: The size of the largest request body that is accepted, in bytes.

    Raises:
        UsageError: An argument is not a function.
    """

    def __init__(
        self, authorize: Authorizer | None, owner_of: Callable[[Any], str] | None, max_body_bytes: int
    ) -> None:
        if authorize is not None and not callable(authorize):
            raise UsageError(f"authorize= takes a function of method, path and headers, not {authorize!r}")
        if owner_of is not None and not callable(owner_of):
            raise UsageError(f"owner_of= is a function of what authorize= returned, not {owner_of!r}")
        self._authorize, self._owner_of, self._max_body_bytes = authorize, owner_of, max_body_bytes
        self._commands: list[str] = []
        self._has_store, self._are_runs_stored = False, False
        self._keep_caller: Callable[[Any], object] | None = None

    def add_commands(self, commands: Iterable[str]) -> None:
        """Admit requests whose responses are JSON.

        Args:
            commands: The ends of their paths.
        """
        self._commands += commands

    def serve_store(self, keeping: Keeping, *, are_runs_stored: bool) -> None:
        """Have a store behind the app.

        Args:
            keeping: Says what a run keeps of its caller.
            are_runs_stored: Whether the runs outlive their process.

        Raises:
            UsageError: Nobody says who owns the threads and runs.
        """
        if self._authorize is None and self._owner_of is None:
            what = "an app with a store needs authorize=, whose text is the owner of the caller's threads and runs"
            raise UsageError(f'{what}, or owner_of=; owner_of=lambda caller: "" has one owner for all callers')
        self._has_store, self._keep_caller = True, keeping.caller
        self._are_runs_stored = are_runs_stored

    async def admit(self, scope: Mapping[str, Any]) -> tuple[ServedRequest, str]:
        """Judge a request by its headers, before its body is read.

        Returns:
            The request, and the end of its path if that is one of those whose responses are JSON; else "".

        Raises:
            RequestRefusedError: It is refused.
        """
        path, headers, caller = await self.authorized(scope)
        if scope["method"] != "POST":
            reason = f"{scope['method']} is not allowed; POST a RunAgentInput"
            raise RequestRefusedError(405, reason, {"allow": "POST"})
        # A browser sends bytes without a type for a page of any site, unasked; other callers need not name one.
        usual = "" if "origin" in headers else "application/json"
        kind = headers.get("content-type", usual).partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRefusedError(415, "the content type must be application/json")
        check_length(headers, self._max_body_bytes)
        bare = path.rstrip("/")
        end = next((each for each in (_CONNECT, *self._commands) if bare.endswith(each)), "")
        below = (bare.removesuffix(end) or "/") if end else path
        owner = self.owner_of(caller)
        caller = self._kept_of(caller, owner)
        is_connect = end == _CONNECT
        request = ServedRequest(below, headers, scope, is_connect=is_connect, caller=caller, owner=owner)
        return request, end if end in self._commands else ""

    async def authorized(self, scope: Mapping[str, Any]) -> tuple[str, dict[str, str], object]:
        """Ask `authorize=` about a request.

        Returns:
            The path below the mount, the headers, and the value that `authorize=` returned; None without it.

        Raises:
            RequestRefusedError: The request is refused.
        """
        headers = joined_headers(scope)
        names = Counter(name.lower() for name, _ in scope["headers"])
        if repeated := next((name.decode() for name in _SINGLE if names[name] > 1), ""):
            # Which of them counts is another one for a proxy in between, and for `authorize=`.
            raise RequestRefusedError(400, f"the request has several headers {repeated}")
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        caller: object = None
        if self._authorize is not None:
            caller = self._authorize(scope["method"], path, headers)
            if inspect.isawaitable(caller):
                caller = await whole(caller)
            if not caller:
                raise RequestRefusedError(401, "the request is not authorized", {"www-authenticate": "Bearer"})
        return path, headers, caller

    def owner_of(self, caller: object) -> str:
        """Return the owner of a caller's threads and runs, for whom interrupts are signed, too.

        Raises:
            TypeError: It is not text.
        """
        owner = caller if self._owner_of is None else self._owner_of(caller)
        if isinstance(owner, str):
            return owner
        if not self._has_store and self._owner_of is None:
            return ""
        what = f"the owner of threads and runs is a text, not a {type(owner).__name__}"
        raise TypeError(f"{what}; agent_app(owner_of=...) takes a function that makes one of what authorize= returned")

    def _kept_of(self, caller: object, owner: str) -> object:
        """Return what the run of a caller knows of it, the same in each process.

        Raises:
            TypeError: It has no JSON form.
        """
        if self._keep_caller is None:
            return owner if self._are_runs_stored else caller
        kept = self._keep_caller(caller)
        try:
            return json.loads(json.dumps(kept))
        except (TypeError, ValueError) as error:
            what = f"Keeping(caller=) returned a {type(kept).__name__}, which cannot be stored with a run"
            raise TypeError(f"{what}; return a text or other JSON") from error


def joined_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request, with names in lower case; those of one name are one list (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        between = "; " if name == "cookie" else ","
        headers[name] = f"{headers[name]}{between}{value}" if name in headers else value
    return headers
