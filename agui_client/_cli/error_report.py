"""Errors for people at a command line: what happened, then what to do about it, then the ids to look for in logs."""

from __future__ import annotations

from http import HTTPStatus

from agui_client.errors import (
    AGUIError,
    ConnectError,
    ConnectTimeoutError,
    HTTPStatusError,
    IdleTimeoutError,
    IncompleteRunError,
    StreamTimeoutError,
    TransportError,
    UnexpectedContentTypeError,
)

_BROKE = "the connection to the agent broke in the middle of its response"
_ADVICE_BY_STATUS = {
    HTTPStatus.UNAUTHORIZED: "give credentials: -H 'Authorization: Bearer ...', or AGUI_HEADERS",
    HTTPStatus.FORBIDDEN: "give other credentials: -H 'Authorization: Bearer ...', or AGUI_HEADERS",
    HTTPStatus.NOT_FOUND: "check the path of the address: a server responds there, but no agent",
    HTTPStatus.METHOD_NOT_ALLOWED: "check the path of the address: a server responds there, but no agent",
    HTTPStatus.CONFLICT: "if a run is in progress in the thread, wait for its end, or begin another thread",
    HTTPStatus.TOO_MANY_REQUESTS: "the server is busy; try again later",
    HTTPStatus.SERVICE_UNAVAILABLE: "the server is busy or not ready; try again later",
}


def report(error: AGUIError, again: str = "what arrived is kept; ask again to begin a new run") -> list[str]:
    """Describe an error.

    Args:
        again: The advice where a run broke off.

    Returns:
        What happened in a sentence, then what to do, where there is advice, then the ids, where the server knows them.
    """
    if isinstance(error, IncompleteRunError):
        broke = isinstance(error.__cause__, TransportError)
        why = _BROKE if broke else "the agent ended its response before the run was over"
        return [why, again, f"{_ids(error)}: {error}"]
    if (advice := _advice(error)) is None:
        return [str(error)]
    ids = [_ids(error)] if isinstance(error, TransportError) and error.may_have_started else []
    # Without what the error itself advises, which is for programs.
    return [error.problem, advice, *ids]


def _ids(error: AGUIError) -> str:
    return f"thread {error.thread_id}, run {error.run_id}"


def _advice(error: AGUIError) -> str | None:
    match error:
        case ConnectTimeoutError():
            return "check the address and the network, or wait longer with --timeout"
        case ConnectError(may_have_started=False):
            return "start the agent, or check the address; `agui demo --serve` starts one to try"
        case ConnectError():
            return "the server's log says why; it may have begun the run"
        case IdleTimeoutError():
            return "wait longer with --timeout, or let the server send comments to keep the stream alive"
        case StreamTimeoutError():
            return "wait longer with --timeout"
        case UnexpectedContentTypeError():
            return "check the path of the address: a server responds there, but no agent"
        case HTTPStatusError(status_code=code) if code in _ADVICE_BY_STATUS:
            return _ADVICE_BY_STATUS[HTTPStatus(code)]
        case HTTPStatusError(status_code=code) if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return "the server failed; its log says why"
        case _:
            return None
