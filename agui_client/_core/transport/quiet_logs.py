"""Log records of HTTP libraries about our requests, without queries of addresses and without headers (SEC-9)."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from agui_client._core.ground.secrets import address_of

_IS_OURS: ContextVar[bool] = ContextVar("agui_client.request", default=False)
_HEADERS = re.compile(r" return_value=|(?<=headers\.failed) exception=")
"""The words behind which httpcore writes the headers of a response, or the one that is malformed."""
_ARGS_OF_HTTPX = 5
"""The arguments of httpx's record of a response: method, address, version, status and reason phrase."""
_PARTS = ("http11", "http2", "proxy", "socks")


@contextmanager
def quiet_logs() -> Generator[None]:
    """Leave secrets out of what HTTP libraries log in the block; records of other requests stay as they are."""
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


def _without_secrets(record: logging.LogRecord) -> bool:
    """Change one record; drop those about the compression of headers."""
    if _IS_OURS.get():
        args = record.args if isinstance(record.args, tuple) else ()
        record.args = tuple(address_of(each) if type(each).__name__ == "URL" else each for each in args)
        if len(record.args) == _ARGS_OF_HTTPX and record.name.startswith("httpx"):
            record.args = (*record.args[:-1], "")  # the reason phrase, in which a server may quote a header
        record.msg = _HEADERS.split(str(record.msg), maxsplit=1)[0]
    return not (_IS_OURS.get() and record.name.startswith("hpack"))


_OF_HTTPCORE = [f"httpcore{version}.{part}" for version in ("", "2") for part in _PARTS]
for _name in ("hpack.hpack", "hpack.table", "httpx", "httpx2", *_OF_HTTPCORE):
    logging.getLogger(_name).addFilter(_without_secrets)
