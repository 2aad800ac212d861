"""Markdown of agents as HTML, and in documents: no images, no HTML of theirs, and nothing left out (SEC-8)."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from agui_client._rendering.escaping import exact, sentence

_LONGEST_TEXT = 50_000
_LONGEST_CODE = 20_000
_LANGUAGES = re.compile(
    "bash|c|cpp|css|diff|go|html|ini|java|javascript|js|json|kotlin|php|python|py|r|ruby|rust|rs|sh|sql|swift|toml|ts"
    "|typescript|xml|yaml|yml"
)
"""The languages whose code is coloured: those of which no text of an agent keeps the lexer busy for long."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~$])")
_BACKTICKS = re.compile("`+")
_CODE = re.compile(r"(`[^`\n]+`)")
_CODE_BLOCK = re.compile(r"(^```[^`\n]*\n(?:(?! {0,3}```).*\n)*```[ \t]*$)", re.MULTILINE)
"""The plainest form of a block of code, on whose end all readers of Markdown agree."""
_ADDRESS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_OTHER_LINK = re.compile(r"\](?=\((?!\s*(?:https?://|mailto:)))|\](?=:)", re.IGNORECASE)
"""The end of the text of a link to anything else, or of the name of a link that is defined elsewhere."""
_TEX_MARKS = {"$$": "$$", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_TEX = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_ALIGNMENT = re.compile(r' style="text-align:(left|center|right)"')
"""The style of a cell of a table; in a text of an agent, the quotation marks would be escaped."""
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


@lru_cache(maxsize=128)  # of a live run, the latest message changes, and all are drawn
def prose(text: str, *, has_math: bool = False) -> str:
    """Write Markdown as HTML; without the library for it, or of a very long or deep text, the text as it is.

    Args:
        text: The Markdown.
        has_math: Whether the notebook draws the TeX in it.
    """
    parser = _markdown_parser(has_math) if len(text) <= _LONGEST_TEXT else None
    if parser is None:
        return _as_written(text)
    try:
        tokens = parser.parse(text.expandtabs(4))
        # What nests deeper than the parser reads would be left out, and a person would not see it.
        if all(token.level < parser.options.maxNesting - 1 for token in tokens):
            _check_boxes(tokens)
            # Escaped afterwards: Markdown may make a hidden character out of something else.
            return sentence(parser.renderer.render(tokens, parser.options, {}))
    except RecursionError:
        pass
    return _as_written(text)


def without_styles(html: str) -> str:
    """Return HTML of `prose` for a page whose policy allows no styles in elements: with classes in their place."""
    return _ALIGNMENT.sub(r' class="agui-\1"', html)


def words_of(text: str) -> str:
    """Return Markdown as one line without its markup; without the library for it, as it was written.

    Args:
        text: The Markdown, or its beginning.
    """
    parser = _markdown_parser(has_math=False)
    if parser is not None and len(text) <= _LONGEST_TEXT:
        with suppress(RecursionError):
            return " ".join(" ".join(map(_words, parser.parse(text))).split())
    return " ".join(text.split())


def _words(token: Any) -> str:
    """Return the text in a token of Markdown; what nests too deeply to be read is left out of a line anyway."""
    if token.type != "inline":
        return str(token.content)
    return "".join(" " if each.type.endswith("break") else each.content for each in token.children or ())


def cut(text: str) -> str:
    """Return a text; of a very long one its beginning and its end, which grows while it arrives."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters) …\n{text[-half:]}"


def passage(text: str, *, has_math: bool = False) -> str:
    """Write Markdown of an agent as a part of a document: without HTML and images, and with nothing that stays open.

    A block of code without an end would reach to the next fence of the document, whose code would then be markup. A
    quotation ends what is open in it.

    Args:
        text: The Markdown.
        has_math: Whether the reader of the document draws the TeX in it.
    """
    parts = _CODE_BLOCK.split(sentence(_with_plain_lines(text)))
    is_closed = not any(fence in part for part in parts[::2] for fence in ("```", "~~~"))
    if not is_closed:
        parts = ["".join(parts)]
    made = "".join(part if place % 2 else _inert(part, has_math) for place, part in enumerate(parts))
    return made if is_closed else "\n".join(f"> {line}" for line in made.split("\n"))


def literal(text: str) -> str:
    """Write one line as Markdown that shows it as it is."""
    return _MARKUP.sub(r"\\\1", exact(" ".join(cut(text).split()))).replace("\\<", "&lt;").replace("\\>", "&gt;")


def code_block(text: str) -> str:
    """Write text as a block of code, with a fence that the text does not contain."""
    text = exact(_with_plain_lines(text))
    fence = "`" * max(3, *(len(each) + 1 for each in _BACKTICKS.findall(text)), 0)
    return f"{fence}\n{text}\n{fence}"


def _with_plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").expandtabs(4)


def _inert(text: str, has_math: bool) -> str:
    """Write Markdown so that nothing of it is HTML, an image or, unless it is wanted, TeX; code is none anyway."""
    text = html.escape(text, quote=False).replace("![", "\\!\\[")
    text = _OTHER_LINK.sub(r"\\]", text)
    if has_math:
        return _TEX.sub(lambda tex: f"${tex[1].strip()}$" if tex[1] else f"$${tex[2]}$$", text)
    parts = _CODE.split(text)
    return "".join(part if place % 2 else part.replace("$", "\\$") for place, part in enumerate(parts))


def _as_written(text: str) -> str:
    return f"<p>{html.escape(sentence(cut(text).expandtabs(4)))}</p>"


@cache
def _markdown_parser(has_math: bool) -> Any:
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        return None
    # An image would be fetched when it is shown, and its address may carry what the agent knows.
    parser: Any = MarkdownIt("commonmark", {"html": False, "breaks": True, "highlight": _highlighted})
    parser.validateLink = _is_shown_address
    parser.enable(["table", "strikethrough"])
    parser.disable(["image", "entity", "html_inline", "html_block", "reference"])
    if has_math:
        parser.inline.ruler.before("escape", "tex", _read_tex)
        parser.add_render_rule("tex", _write_tex)
    return parser


def _is_shown_address(address: str) -> bool:
    """Return whether a link may lead to an address: a relative one would be one of the notebook's server."""
    return _ADDRESS.match(address) is not None


def _check_boxes(tokens: Sequence[Any]) -> None:
    """Draw the boxes of task lists."""
    for place, token in enumerate(tokens):
        is_item = token.type == "inline" and place > 1 and tokens[place - 2].type == "list_item_open"
        if is_item and (box := _BOXES.get(token.content[:4])) and token.children[0].type == "text":
            token.children[0].content = box + token.children[0].content[4:]
            tokens[place - 2].attrSet("class", "agui-task")


def _highlighted(code: str, language: str, attributes: str) -> str:
    """Write code with colours; empty for code that is shown as it is."""
    if not _LANGUAGES.fullmatch(language.lower()) or len(code) > _LONGEST_CODE:
        return ""
    try:
        pygments, lexers = import_module("pygments"), import_module("pygments.lexers")
        formatters = import_module("pygments.formatters")
    except ModuleNotFoundError:
        return ""
    lexer = lexers.get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    return str(pygments.highlight(code, lexer, formatters.HtmlFormatter(nowrap=True, classprefix="agui-c-")))


def _read_tex(state: Any, silent: bool) -> bool:
    r"""Read TeX between dollar signs, or in `\(…\)` and `\[…\]`, which Markdown would take for brackets."""
    start = state.pos
    mark = next((each for each in _TEX_MARKS if state.src.startswith(each, start)), None)
    if mark is None:
        return False
    end = state.src.find(_TEX_MARKS[mark], start + len(mark))
    inside = state.src[start + len(mark) : end]
    # As pandoc tells prices from TeX: "$5 and $10" has a space before the second sign.
    if end < 0 or not inside.strip() or (mark == "$" and inside != inside.strip()):
        return False
    if not silent:
        state.push("tex", "span", 0).content = state.src[start : end + len(mark)]
    state.pos = end + len(mark)
    return True


def _write_tex(renderer: Any, tokens: Sequence[Any], place: int, options: Any, env: Any) -> str:
    return f'<span class="tex2jax_process mathjax_process">{html.escape(tokens[place].content)}</span>'
