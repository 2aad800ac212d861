"""The secrets that the requests of a run sent, which a server may quote (SEC-9).

Sentences about a response, such as errors and warnings, are shown without any of them. What an agent says is content,
and stays as it is; what is written or logged of it is without the credentials, the secrets that are so long, and so
seldom words, that nothing else reads the same.

To change

- the parts of a request that count: `secrets_sent`; those that are credentials: `credentials_sent`
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from agui_client._core.ground.secrets import MARKS_OF_ADDRESSES, SHAPE_HINTS, is_secret_header, is_secret_name

_COMMON_HEADER = re.compile(
    "accept|accept-encoding|cache-control|connection|content-(length|type)|host|user-agent", re.IGNORECASE
)
"""Headers of requests that are not secrets."""
_SHORTEST = 4
"""The characters of the shortest text that is taken for a secret that was sent: a shorter one is in many words."""
_SHORTEST_UNNAMED = 8
"""The same for headers whose names say nothing of a secret: in "X-Role: agent" is a word of every other sentence."""
_CREDENTIAL = re.compile(r"(?=.*[a-zA-Z])(?=.*[0-9]).{6,}|.{16,}")
"""A secret that is not a word: anything else that reads the same is a quotation of it."""
_QUERY = re.compile("access|code$|^sig$", re.IGNORECASE)
"""Members of queries that are credentials beside those whose names are secret in headers, too."""


class SentSecrets(set[str]):
    """The secrets that were sent to the servers of a run; `add_request` adds those of a request.

    Args:
        secrets: Those to begin with, such as those of an agent that was carried to another process.
    """

    __slots__ = ("_latest", "credentials", "ids")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(secrets)
        self.credentials: frozenset[str] = frozenset()
        """Those that are taken out of content, too, as they are and as JSON and addresses write them."""
        self.ids: tuple[str, ...] = ()
        """Ids of the client, which are not credentials, even if a cookie has them."""
        self._latest: object = None

    def add_request(self, url: str, headers: Iterable[tuple[str, str]]) -> None:
        """Add the secrets of a request.

        Args:
            url: The address.
        """
        sent = [each for each in headers if not _COMMON_HEADER.fullmatch(each[0])]
        # The requests of one turn are nearly always alike, and an address without these marks has no secret.
        if self._latest == (url, sent) or not (sent or MARKS_OF_ADDRESSES.search(url)):
            return
        self._latest = url, sent
        self.update(secrets_sent(url, sent))
        found = credentials_sent(url, sent).difference(self.ids)
        if not found:
            return
        forms = self.credentials | {form for each in found for form in _forms(each)}
        # What quotes one that has another in it quotes that. Another thread may read them at any time.
        self.credentials = frozenset(
            each for each in forms if not any(other in each for other in forms if other != each)
        )


def secrets_sent(url: str, headers: Iterable[tuple[str, str]]) -> set[str]:
    """Return the parts of a request that the server must not be quoted with: of its address, and of its headers."""
    parts = urlsplit(url)
    words: list[str] = []
    for name, value in headers:
        if not _COMMON_HEADER.fullmatch(name):
            least = _SHORTEST if is_secret_header(name) else _SHORTEST_UNNAMED
            words += (word for word in _words_of_header(value) if len(word) >= least)
    words += [
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        *(each for _, each in parse_qsl(parts.query)),
    ]
    # As they are sent, too: they may be escaped there.
    words += [parts.username or "", parts.password or "", *(each.partition("=")[2] for each in parts.query.split("&"))]
    return {word for word in words if len(word) >= _SHORTEST and word.lower() not in SHAPE_HINTS}


def credentials_sent(url: str, headers: Iterable[tuple[str, str]]) -> set[str]:
    """Return the secrets of a request that are looked for in content.

    They are the words of headers whose names say that they are secret, the members of such names in the address, and
    the password in it; or the user, where there is no password.
    """
    parts = urlsplit(url)
    words: list[str] = []
    for name, value in headers:
        if is_secret_name(name):
            _, _, behind = value.partition(" ") if name.lower().endswith("authorization") else ("", "", "")
            words += _words_of_header(behind or value)  # A scheme is a word.
    words += [value for name, value in parse_qsl(parts.query) if is_secret_header(name) or _QUERY.search(name)]
    words.append(unquote(parts.password or parts.username or ""))
    return {word for word in words if _CREDENTIAL.fullmatch(word)}


def begin_of_quote(text: str, sent: Iterable[str]) -> int | None:
    """Return the position from which a text quotes a credential, or from which further text may show that it does."""
    begin: int | None = None
    for credential in sent:
        head = credential[:2]  # Nearly no piece has both.
        at = text.find(head)
        while at >= 0 and not credential.startswith(text[at : at + len(credential)]):
            at = text.find(head, at + 1)
        if at < 0 and text[-1:] == head[0]:
            at = len(text) - 1
        if at >= 0 and (begin is None or at < begin):
            begin = at
    return begin


def _forms(credential: str) -> Iterator[str]:
    yield credential
    yield quote(credential, safe="")
    for text in (json.dumps(credential), json.dumps(credential, ensure_ascii=False)):
        yield text[1:-1]
        yield text[1:-1].replace("/", "\\/")


def _words_of_header(value: str) -> list[str]:
    words = re.split(r"[\s;,]+", value)
    words += [word.partition("=")[2].strip('"') for word in words]
    words += [unquote(word) for word in words if "%" in word]
    if value[:6].lower() == "basic ":
        # A server that knows the user quotes what it has read.
        words += _user_and_password(value[6:])
    return words


def _user_and_password(encoded: str) -> list[str]:
    with suppress(ValueError):
        return base64.b64decode(encoded).decode().split(":", 1)
    return []
