"""Random texts with and without secrets, wrapped in everything that JSON comes in."""

from __future__ import annotations

import json
from random import Random

from agui_client._core.ground.secrets import levels

_SECRET = "ЖЩЮ"
"""The characters of secrets, which are in nothing else."""
_NUMBER = "42424242424242"
"""A number that is in no id and no time by chance."""
_NAMES = (
    *("authorization", "Proxy-Authorization", "COOKIE", "Set-Cookie", "api_key", "x-api-key", "apiKey", "password"),
    *("encryptedValue", "encrypted_content", "db_password", "access_token", "client-secret", "id_token"),
    *("token", "Secret", "db_pass", "PWD", "passphrase", "bearer", "bearerToken"),
)
_HARMLESS_NAMES = ("a", "b", "name", "key", "path", "tokens", "page_token", "nextToken", "bypass", "passport")
_WORDS = ("Oslo", "hé 🎉", "key", "the cookie jar", "value", 'say "hi"', "http://x.org/a?b=c", "C:\\new", "a@x.org")


def shows_secret(text: str) -> bool:
    """Whether a character of a secret is in a text, or in JSON in it."""
    return any(_NUMBER in level or any(char in level for char in _SECRET) for level in levels(text))


def random_text(random: Random, *, has_secret: bool) -> str:
    """JSON, or what an unlucky producer makes of it."""
    return _Texts(random).text(0, has_secret=has_secret)


def random_pieces(random: Random, text: str) -> list[str]:
    """A text in pieces, some of which are empty."""
    places = sorted(random.randrange(len(text) + 1) for _ in range(random.choice([1, 2, 5, 20, len(text)]) % 200))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


class _Texts:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._escaped = random.choice([0, 0, 0.1, 0.9])
        # Of a text that is cut, nobody can know what would have come: there, a secret comes behind its name.
        self._is_cut = random.random() < 0.5

    def text(self, depth: int, *, has_secret: bool) -> str:
        make, random = self._with_secret if has_secret else self._clean, self._random
        text = make(depth)
        match random.choice(["JSON", "JSON", "lines", "prefix", "frames", "behind", "cut"]):
            case "lines":
                return f"{text}\n{self._clean(depth)}"
            case "prefix":
                return f"Result: {text} done"
            case "frames":
                return f"data: {text}\n\ndata: {self._clean(depth)}\n\n"
            case "behind":
                return text + random.choice(["}", "]", '"', ","])
            case "cut" if self._is_cut:
                return text[: random.randrange(len(text) + 1)]
            case _:
                return text

    def _quoted(self, text: str) -> str:
        return '"' + "".join(map(self._char, text)) + '"'

    def _char(self, char: str) -> str:
        if char in '"\\' or char < " " or (char < "\uffff" and self._random.random() < self._escaped):
            return f"\\u{ord(char):04x}" if self._random.random() < 0.5 else json.dumps(char)[1:-1]
        return "\\/" if char == "/" and self._random.random() < 0.3 else char

    def _object(self, *members: tuple[str, str], shuffled: bool = True) -> str:
        if shuffled:
            members = tuple(self._random.sample(members, len(members)))
        space = self._random.choice(["", "", " ", "\n  "])
        return "{" + f"{space},".join(f"{space}{self._quoted(name)}{space}:{space}{it}" for name, it in members) + "}"

    def _secret(self, depth: int = 0) -> str:
        random = self._random
        marker = "".join(random.choices(_SECRET, k=random.randrange(1, 9)))
        text = self._quoted(marker + random.choice(["", '"', "\\", "\n", " x", "'"]) + marker)
        if depth > 2:
            return text
        return random.choice(
            [
                *[text] * 5,
                f"[{self._secret(depth + 1)},1]",
                self._object(("in", self._secret(depth + 1))),
                f"-{_NUMBER}{_NUMBER}.{_NUMBER}e5",
            ]
        )

    def _clean(self, depth: int) -> str:
        random = self._random
        simple = [self._quoted(random.choice(_WORDS)), random.choice(["1", "-0", "1.50e3", "true", "null", "9" * 5000])]
        match random.randrange(6):
            case 0 if depth < 4:
                return f"[{','.join(self._clean(depth + 1) for _ in range(random.randrange(4)))}]"
            case 1 if depth < 4:
                return self._quoted(self.text(depth + 1, has_secret=False))
            case 2 if depth < 4:
                names = random.choices([*_HARMLESS_NAMES, "value", "properties"], k=random.randrange(4))
                return self._object(*((name, self._clean(depth + 1)) for name in names))
            case _:
                return random.choice(simple)

    def _with_secret(self, depth: int) -> str:
        random, name, secret = self._random, self._random.choice(_NAMES), self._secret()
        match random.randrange(10 if depth < 4 else 2):
            case 0 | 1 | 2:
                return self._object(("a", self._clean(depth + 1)), (name, secret), (random.choice(_NAMES), secret))
            case 3:
                place = random.choice(["/headers/authorization", "/a/x~1api_key", "/password/0"])
                patch = ("op", '"add"'), ("path", self._quoted(place)), ("value", secret)
                return f"[{self._object(*patch, shuffled=not self._is_cut)}]"
            case 4:
                return f'[[{self._quoted(name)},{secret}],["host","x"]]'
            case 5:
                return self._object(("name", self._quoted(name)), ("value", secret), shuffled=not self._is_cut)
            case 6 if not self._is_cut:
                return self._quoted(f"http://u:{_SECRET}@h.org/?a=b&api_key={_SECRET}&c=d")
            case 7:
                return f"[{self._clean(depth + 1)},{self._with_secret(depth + 1)}]"
            case 8:
                return self._quoted(self.text(depth + 1, has_secret=True))
            case _:
                return self._object(("a", self._clean(depth + 1)), ("b", self._with_secret(depth + 1)))
