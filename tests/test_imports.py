"""Who may import what (the design's import rule), what the public namespace holds, and what importing it loads."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agui_client
from agui_client import AbstractAgent, FunctionAgent, HttpAgent, errors
from agui_client.batch import run_many
from agui_client.llm import LLMAgent
from agui_client.recording import ReplayAgent
from agui_client.store import Runs
from agui_client.teams import HandoffAgent, LoopAgent, ParallelAgent, SequentialAgent
from agui_client.testing import ScriptedAgent
from support.public_names import PUBLIC_MODULES, public_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_PROJECT = Path(__file__).parents[1]
_PACKAGE = _PROJECT / "agui_client"
_HEAVY = (
    "aiohttp",
    "anywidget",
    "ipywidgets",
    "jsonpatch",
    "mcp",
    "opentelemetry",
    "pandas",
    "prompt_toolkit",
    "pyarrow",
    "pydantic_ai",
    "reactivex",
    "rich",
    "sqlalchemy",
    "typer",
    "uvicorn",
    "yaml",
)
_LAYERS = (
    ("agui_client", "__main__"),
    ("_pytest_plugin",),
    ("_cli",),
    ("notebook",),
    ("terminal",),
    ("demo",),
    ("evaluation", "testing"),
    ("_checking",),
    ("inspector",),
    ("_otel", "adapters", "asgi", "aws", "batch", "doctor", "fast", "llm", "mcp", "recording", "teams"),
    ("store",),
    ("_rendering", "_serving"),
    ("mcp_apps", "reconnect", "state", "types"),
    ("_core.agent",),
    ("_core.verbs",),
    ("_core.run",),
    ("_core.conversation",),
    ("_core.tools",),
    ("_core.transport",),
    ("a2ui",),
    ("_core.protocol",),
    ("_core.ground", "errors"),
    ("_core", "_core.plugs", "_version"),
)
"""The layers, from high to low: each folder and each module of the package. A module imports of its own folder and of
the layers below it, whether at once, in a function, for type checkers, or by a string."""
_CIRCLES = (
    # A call has its runs, and each is made of its call; the result is made of both when the call ends.
    {"_core.run.call", "_core.run.lost_run", "_core.run.result_building", "_core.run.round"},
    # The keywords of agents are hooks, middleware and observers, which get the run that has the keywords.
    {"_core.run.hooks", "_core.run.middleware", "_core.run.observers", "_core.run.scope"},
    # Methods in whose place a function stands that takes `self`: of a conversation, `AgentRun.sse`, ...
    {"_core.conversation.conversation", "_core.conversation.reconciling"},
    {"_core.verbs.async_run", "_core.verbs.caller_interrupts", "_core.verbs.caller_run", "_core.verbs.sse"},
    {"_core.agent.agent", "_core.agent.agent_tool"},
    {"_cli.chat", "_cli.slash_commands"},
    # An examination has the list of its probes, and each probe examines.
    {"doctor._examination", "doctor._probes"},
    # A run that is kept is carried out by an attempt, which writes its events.
    {"store._runs.attempts", "store._runs.server_run"},
)
"""Modules of one folder that import each other, and why; what type checkers and functions import counts."""
_NAMING = {"ContextVar", "BackgroundLoop", "files", "logging.getLogger"}
"""Functions of the name of a logger, a thread or a folder."""
_DOTTED = re.compile(r"""["'](\w+(?:\.\w+)+)["']""")
"""What may be the name of a module, in a string."""
_TOGETHER = {"_core.ground", "errors"}
"""What imports of each other in one layer: tracebacks name errors by a module that is public."""
# Half of another library's interface: pydantic's error details are its core's, httpx's own transport is httpcore's,
# anyio's tasks are trio's where it runs on trio, and the MCP SDK takes a client of httpx2 and its models are in a
# package of their own. aiohttp takes addresses of yarl and headers of multidict.
_PART_OF = {
    "httpcore": {"httpx"},
    "httpx2": {"mcp"},
    "langchain_core": {"langchain-core"},
    "langgraph": {"langgraph"},
    "mcp_types": {"mcp"},
    "multidict": {"aiohttp"},
    "pydantic_core": {"pydantic"},
    "trio": {"anyio"},
    "yarl": {"aiohttp"},
}


@dataclass(frozen=True)
class _Import:
    """One imported name: by which module of the package, what, and when it is carried out."""

    module: str
    target: str
    line: int
    typing_only: bool
    """True inside `if TYPE_CHECKING:`, which only type checkers carry out."""
    in_function: bool
    """True inside a function, which is carried out at the first call."""

    @property
    def library(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def _module_name(path: Path) -> str:
    parts = path.relative_to(_PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    return {_module_name(path): path for path in sorted(_PACKAGE.rglob("*.py"))}


@cache
def _trees() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in _modules().items()}


def _is_or_is_in(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _guards_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _name_of(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _name_of(expression: ast.expr) -> str:
    return ast.unparse(expression) if isinstance(expression, ast.Name | ast.Attribute) else ""


class _ImportCollector(ast.NodeVisitor):
    """Collects what one module imports, submodules told apart from names by whether the package has such a module."""

    def __init__(self, module: str, *, is_package: bool, known: frozenset[str]) -> None:
        self.found: list[_Import] = []
        self._module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._known = known
        self._typing_only = False
        self._in_function = False

    def generic_visit(self, node: ast.AST) -> None:
        """Visit statements alone: no expression imports anything."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        outer = self._typing_only
        self._typing_only = outer or _guards_type_checking(node)
        for child in node.body:
            self.visit(child)
        self._typing_only = outer
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._in_function = self._in_function, True
        self.generic_visit(node)
        self._in_function = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as above

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._absolute(node)
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            self._add(submodule if submodule in self._known else base, node.lineno)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parent = self._package.split(".")[: len(self._package.split(".")) - node.level + 1]
        return ".".join([*parent, node.module] if node.module else parent)

    def _add(self, target: str, line: int) -> None:
        self.found.append(_Import(self._module, target, line, self._typing_only, self._in_function))


def _imports_of(module: str, tree: ast.Module, *, is_package: bool, known: frozenset[str]) -> list[_Import]:
    collector = _ImportCollector(module, is_package=is_package, known=known)
    collector.visit(tree)
    return collector.found


@cache
def _imports() -> tuple[_Import, ...]:
    known = frozenset(_modules())
    found: list[_Import] = []
    for module, path in _modules().items():
        found += _imports_of(module, _trees()[module], is_package=path.name == "__init__.py", known=known)
    return tuple(found)


def _strings_of(module: str, tree: ast.Module) -> Iterator[_Import]:
    """What a module names by a string, to import it later; names of loggers, of threads and for messages are others."""
    named = [node.args[0] for node in ast.walk(tree) if isinstance(node, ast.Call) and _name_of(node.func) in _NAMING]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value and node not in named:
            for target in {node.value, f"agui_client.{node.value}"} & _modules().keys():
                yield _Import(module, target, node.lineno, typing_only=False, in_function=True)


def _own(*importers: str) -> Iterator[_Import]:
    """What the modules in `importers` import from this package."""
    return (i for i in _imports() if _is_or_is_in(i.module, *importers) and _is_or_is_in(i.target, "agui_client"))


def _lines(broken: Iterable[_Import]) -> list[str]:
    return [str(one) for one in broken]


def test_imports_are_told_apart_by_target_time_and_place() -> None:
    source = """
from typing import TYPE_CHECKING
from agui_client import errors, AbstractAgent
from . import sibling
from ..result import RunResult
if TYPE_CHECKING:
    import httpx
else:
    import rich.console
async def late():
    from uvicorn import run
"""
    known = frozenset({"agui_client.errors", "agui_client.result", "agui_client._kit.sibling"})
    found = _imports_of("agui_client._kit.execute", ast.parse(source), is_package=False, known=known)
    assert [(i.target, i.line, i.typing_only, i.in_function) for i in found] == [
        ("typing", 2, False, False),
        ("agui_client.errors", 3, False, False),
        ("agui_client", 3, False, False),
        ("agui_client._kit.sibling", 4, False, False),
        ("agui_client.result", 5, False, False),
        ("httpx", 7, True, False),
        ("rich.console", 9, False, False),
        ("uvicorn", 11, False, True),
    ]


def test_the_package_is_where_these_tests_look() -> None:
    assert {"agui_client", "agui_client._core.agent.agent", "agui_client._core.transport"} <= set(_modules())


@cache
def _layer(module: str) -> tuple[int, str]:
    """The place of a module's layer, and the folder or module of the table that it is in: the longest that fits."""
    name = module.partition(".")[2] or module
    rows = [(place, each) for place, row in enumerate(_LAYERS) for each in row if _is_or_is_in(name, each)]
    return max(rows, key=lambda row: len(row[1]))


def _is_upward(one: _Import) -> bool:
    (place, folder), (target_place, target) = _layer(one.module), _layer(one.target)
    return target_place < place or (target_place == place and target != folder and not {folder, target} <= _TOGETHER)


def _upward(module: str, tree: ast.Module, imports: Iterable[_Import]) -> list[str]:
    """The imports of a module that do not go down, those by a string included."""
    own = (one for one in imports if _is_or_is_in(one.target, "agui_client"))
    return _lines(one for one in [*own, *_strings_of(module, tree)] if _is_upward(one))


def _misplaced(modules: Iterable[str], public: Iterable[str]) -> set[str]:
    """The modules that look public and are not, or are public and do not look so."""
    return {name for name in modules if "._" not in name} ^ {*public}


def test_modules_import_downwards() -> None:
    assert {_layer(module)[1] for module in _modules()} == {each for row in _LAYERS for each in row}
    assert _lines(one for one in _own("agui_client") if _is_upward(one)) == []
    # The trees of all modules have half a million nodes.
    for module, path in _modules().items():
        strings = {*_DOTTED.findall(path.read_text(encoding="utf-8"))}
        if any(name in _modules() or f"agui_client.{name}" in _modules() for name in strings):
            assert _upward(module, _trees()[module], ()) == []


def _circles(imports: Iterable[_Import]) -> set[frozenset[str]]:
    """The modules that import each other, if only by way of others, without the first name of each."""
    targets: dict[str, set[str]] = {}
    for one in imports:
        if one.target != one.module and "." in one.target:
            targets.setdefault(one.module.partition(".")[2], set()).add(one.target.partition(".")[2])
    reached: dict[str, set[str]] = {}
    for module in targets:
        found, ahead = set[str](), [module]
        while ahead:
            new = targets.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        reached[module] = found
    return {
        frozenset(each for each in reached[module] if module in reached.get(each, ()))
        for module in reached
        if module in reached[module]
    }


def test_modules_import_each_other_where_the_list_says_why_and_nowhere_else() -> None:
    assert _circles(_own("agui_client")) == {*map(frozenset, _CIRCLES)}


def test_a_circle_is_found_by_the_names_of_its_modules() -> None:
    pairs = [("a.one", "a.two"), ("a.two", "a.three"), ("a.three", "a.one"), ("a.four", "a.one"), ("a.three", "b.five")]
    imports = [_Import(f"agui_client.{a}", f"agui_client.{b}", 1, False, False) for a, b in pairs]
    assert _circles(imports) == {frozenset({"a.one", "a.two", "a.three"})}


def test_a_module_without_an_underscore_is_public_and_no_other() -> None:
    assert _misplaced(_modules(), PUBLIC_MODULES) == set()


@pytest.mark.parametrize(
    ("module", "source", "line", "target"),
    [
        ("_core.protocol.patch", "from agui_client._core.run.engine import Engine", 1, "_core.run.engine"),
        (
            "_core.tools.function",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agui_client._core.run.call import Call",
            3,
            "_core.run.call",
        ),
        ("_core.run.call", "def late():\n    import agui_client._core.agent.agent", 2, "_core.agent.agent"),
        ("_core.ground.display", "import_module('agui_client.notebook._content')", 1, "notebook._content"),
        ("_core.ground.display", "PLACES = {'notebook._content': 1}", 1, "notebook._content"),
        ("batch._rows", "from agui_client.mcp import mcp_server", 1, "mcp"),
        ("errors", "from agui_client._core.protocol.patch import Document", 1, "_core.protocol.patch"),
    ],
    ids=[
        "upward",
        "for type checkers",
        "in a function",
        "by a string",
        "by a short string",
        "of a feature",
        "of errors",
    ],
)
def test_an_import_that_goes_up_or_across_is_found_by_name(module: str, source: str, line: int, target: str) -> None:
    name, tree = f"agui_client.{module}", ast.parse(source)
    found = _imports_of(name, tree, is_package=False, known=frozenset(_modules()))
    assert _upward(name, tree, found) == [f"{name}:{line} imports agui_client.{target}"]


def test_what_the_ground_and_the_errors_import_of_each_other_is_the_only_exception() -> None:
    rows = [{*row} for row in _LAYERS]
    assert len(_TOGETHER) == 2
    assert _TOGETHER in rows
    line = "from agui_client._core.ground.display import Displayed"
    found = _imports_of("agui_client.errors", ast.parse(line), is_package=False, known=frozenset(_modules()))
    assert _upward("agui_client.errors", ast.parse(line), found) == []


@pytest.mark.parametrize(
    ("modules", "public", "named"),
    [
        (["agui_client.batch", "agui_client.batch.rows"], ["agui_client.batch"], "agui_client.batch.rows"),
        (["agui_client.batch", "agui_client.batch._rows"], ["agui_client.batch", "agui_client.batch._rows"], "._rows"),
        (["agui_client"], ["agui_client", "agui_client.gone"], "agui_client.gone"),
    ],
    ids=["public without an entry", "an entry that is private", "an entry without a module"],
)
def test_a_module_that_is_public_by_its_name_or_by_the_list_alone_is_named(
    modules: list[str], public: list[str], named: str
) -> None:
    (found,) = _misplaced(modules, public)
    assert found.endswith(named)


@pytest.mark.parametrize(
    ("importers", "libraries"),
    [
        (("agui_client.fast",), ("aiohttp", "multidict", "yarl")),
        (("agui_client.adapters", "agui_client.llm"), ("pydantic_ai",)),
        (("agui_client.adapters",), ("langchain_core", "langgraph")),
        (("agui_client.mcp",), ("httpx2", "mcp", "mcp_types")),
        (("agui_client._core.ground.prices",), ("genai_prices",)),
        (("agui_client._otel",), ("opentelemetry",)),
        (("agui_client.store._sql",), ("sqlalchemy",)),
        (
            (
                "agui_client._core.transport",
                "agui_client._core.transport.in_process",
                "agui_client.aws",
                "agui_client.doctor._exchanges",
                "agui_client.fast",
            ),
            ("httpcore", "httpx", "httpx_sse"),
        ),
        (("agui_client._core.protocol.json_difference",), ("jsonpatch",)),
        (("agui_client._core.verbs.observable",), ("reactivex",)),
        (("agui_client._cli", "agui_client.terminal"), ("click", "prompt_toolkit", "rich")),
        (("agui_client.asgi._uvicorn", "agui_client._cli", "agui_client.testing._server"), ("uvicorn",)),
    ],
)
def test_a_library_has_one_importer(importers: tuple[str, ...], libraries: tuple[str, ...]) -> None:
    run_time = (i for i in _imports() if not i.typing_only and _is_or_is_in(i.target, *libraries))
    broken = (i for i in run_time if not _is_or_is_in(i.module, *importers))
    assert _lines(broken) == []


def test_every_library_that_is_imported_is_declared_as_a_dependency() -> None:
    project = tomllib.loads((_PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = _distributions(project["dependencies"])
    extras = {name: core | _distributions(lines) for name, lines in project["optional-dependencies"].items()}
    undeclared = [
        one
        for one in _imports()
        if one.library not in sys.stdlib_module_names
        and one.library != "agui_client"
        and not _providers(one.library) & extras.get(_extra_of(one), core)
    ]
    assert _lines(undeclared) == []


_EXTRAS = {
    "_core.ground.prices": "cost",
    "_core.tools.answer_models": "answers",
    "adapters._langchain": "langchain",
    "adapters._langchain_messages": "langchain",
    "adapters._pydantic_ai_reply": "pydantic-ai",
    "adapters._pydantic_ai_model": "pydantic-ai",
    "adapters._pydantic_ai_tool": "pydantic-ai",
    "adapters._runnable": "langchain",
    "_cli": "cli",
    "_otel": "otel",
    "_pytest_plugin": "pytest",
    "_rendering.markdown": "notebook",
    "asgi._uvicorn": "cli",
    "fast": "fast",
    "llm": "llm",
    "mcp": "mcp",
    "store": "store",
    "terminal": "cli",
    "testing._server": "cli",
}
"""The extra that a folder or a module needs; any other has to work without."""


def _extra_of(one: _Import) -> str:
    return next((extra for place, extra in _EXTRAS.items() if _is_or_is_in(one.module, f"agui_client.{place}")), "")


def test_spans_are_loaded_only_when_a_run_finds_opentelemetry_loaded() -> None:
    importers = (i for i in _own("agui_client") if _is_or_is_in(i.target, "agui_client._otel"))
    assert {(i.module, i.in_function) for i in importers} == {("agui_client", True)}


def _lines_with(pattern: str) -> list[str]:
    """The lines of the package that match a pattern, with their modules."""
    return [
        f"{module}: {line.strip()}"
        for module, path in _modules().items()
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(pattern, line)
    ]


def test_messages_and_state_change_only_by_events_and_through_the_door_of_the_conversation() -> None:
    assert _lines_with(r"onversation\.(_?reducer|_local)\b") == []
    # Only the pipeline of a run gets the reducer.
    [line] = _lines_with(r"onversation\.begin_run\(")
    assert line.startswith("agui_client._core.run.round: reducer = ")
    assert {line.partition(":")[0] for line in _lines_with(r"\b_reducer\.(set_|add_|thread\.insert_)")} == {
        "agui_client._core.conversation.conversation"
    }


def _distributions(requirements: Iterable[str]) -> set[str]:
    """The normalised names of the distributions that requirement lines ask for."""
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", name[0]).lower() for name in names if name}


@cache
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()


def _providers(library: str) -> set[str]:
    """The distributions that an import name comes from, or those whose documented interface it is part of."""
    return _PART_OF.get(library) or _distributions(_owners().get(library, ()))


def _definitions(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The names a module defines at its top, with whether each has a docstring (a variable's stands below it)."""
    for node, below in pairwise([*tree.body, None]):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, ast.get_docstring(node) is not None
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name, isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            case _:
                pass


@pytest.mark.parametrize("namespace", [each for each in PUBLIC_MODULES if each != "agui_client.types"])
def test_the_public_namespace_is_sorted_and_resolves(namespace: str) -> None:
    module = importlib.import_module(namespace)
    public = public_names(namespace)
    own = [name for name in public if name not in errors.__all__ or namespace == "agui_client.errors"]
    assert own == sorted(set(own))
    assert [name for name in public if not hasattr(module, name)] == []


@pytest.mark.parametrize("namespace", PUBLIC_MODULES)
def test_a_public_module_defines_nothing_internal_without_an_underscore(namespace: str) -> None:
    # Names that a module imports are not public, unless it imports them as themselves: so type checkers see it.
    defined = {name for name, _ in _definitions(_trees()[namespace]) if not name.startswith("_")}
    assert defined - {*public_names(namespace)} == set()


def _code(text: str) -> str:
    """Return a text as it is, or the cells of a notebook as the lines that they have."""
    return re.sub(r'\\n",\s*"', "\n", text)


def test_readme_docs_and_examples_import_public_names_alone() -> None:
    places = [_PROJECT / "README.md", *(_PROJECT / "docs").glob("*.md"), *(_PROJECT / "examples").glob("*.*")]
    texts = {place.name: place.read_text("utf-8") for place in places if place.suffix in {".md", ".py", ".ipynb"}}
    imported = [
        (place, module, name.split()[0])
        for place, text in texts.items()
        for module, names in re.findall(r"\bfrom (agui_client[\w.]*) import (\([^)]*\)|[\w, ]+)", _code(text))
        for name in names.strip("()").split(",")
        if name.strip()
    ]
    allowed = {module: {*public_names(module)} for module in PUBLIC_MODULES}
    assert len(imported) > 200
    assert [
        each for each in imported if each[2] not in allowed.get(each[1], ()) and ".".join(each[1:]) not in allowed
    ] == []


@cache
def _documented() -> Mapping[str, bool]:
    documented: dict[str, bool] = {}
    for tree in _trees().values():
        for name, has_docstring in _definitions(tree):
            documented[name] = documented.get(name, False) or has_docstring
    return documented


@pytest.mark.parametrize("namespace", PUBLIC_MODULES)
def test_every_public_name_of_ours_has_a_docstring(namespace: str) -> None:
    documented = _documented()
    public = public_names(namespace)
    assert [name for name in public if not documented.get(name, True)] == []


@pytest.mark.parametrize("namespace", ["agui_client", "agui_client.types"])
def test_help_shows_the_docstring_of_every_field_of_a_public_record(namespace: str) -> None:
    module = importlib.import_module(namespace)
    public = [getattr(module, name) for name in getattr(module, "__all__", vars(module))]
    records = [each for each in public if isinstance(each, type) and is_dataclass(each)]
    silent = [
        f"{record.__name__}.{field.name}"
        for record in records
        for field in fields(record)
        if not inspect.getdoc(getattr(record, field.name))
    ]
    assert (len(records) > 7, silent) == (True, [])


@pytest.mark.parametrize(
    "target",
    [
        *(AbstractAgent, HttpAgent, FunctionAgent, LLMAgent, ReplayAgent, ScriptedAgent),
        *(SequentialAgent, ParallelAgent, HandoffAgent, LoopAgent),
        *(getattr(HttpAgent, verb) for verb in ("run_agent", "stream", "run_agent_sync", "stream_sync", "observe")),
        *(HttpAgent.connect_agent, HttpAgent.stream_connect, run_many, Runs.start),
    ],
    ids=lambda target: str(target.__qualname__),
)
def test_help_lists_and_explains_every_keyword(target: Callable[..., Any]) -> None:
    text = pydoc.plain(pydoc.render_doc(target))
    keywords = [name for name in inspect.signature(target).parameters if name not in ("self", "turns")]
    assert "options" not in keywords
    assert [name for name in keywords if not re.search(rf"^[ |]+{name}: [A-Z\"]", text, re.MULTILINE)] == []


def test_no_argument_is_described_by_its_name_alone() -> None:
    texts = [
        ast.get_docstring(node) or ""
        for tree in _trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [found[0] for text in texts for found in re.finditer(r"\b(\w+): (?:The|An?|Its) \1\.\n", f"{text}\n")] == []


def test_every_module_has_a_docstring() -> None:
    assert [name for name, tree in _trees().items() if tree.body and ast.get_docstring(tree) is None] == []


def test_neither_the_namespaces_nor_a_run_load_a_library_that_only_a_feature_needs() -> None:
    # httpx itself loads rich where its own command line could run, so its imports are taken off.
    program = f"""
import asyncio, sys
import ag_ui.core, anyio, httpx, httpx_sse
before = set(sys.modules)
import agui_client, agui_client.batch, agui_client.doctor, agui_client.testing
import agui_client.notebook, agui_client.store
print(sorted((set(sys.modules) - before) & set({_HEAVY!r})))
from agui_client.testing import ScriptedAgent, text, turn
result = asyncio.run(ScriptedAgent(turn(text("hi"))).run_agent("hello"))
print(result.text, [name for name in sys.modules if name.startswith("opentelemetry")])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["[]", "hi []"], "")


@pytest.mark.parametrize(
    "program",
    ["import agui_client", "import agui_client._cli as cli; sys.argv = ['agui', '--help']; assert not cli.main()"],
)
def test_the_package_and_the_help_of_its_command_are_there_before_the_libraries_of_a_run(program: str) -> None:
    loaded = f"import sys; {program}; print({{'ag_ui', 'anyio', 'httpx', 'pydantic', 'rich'}} & set(sys.modules))"
    command = [sys.executable, "-c", loaded]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["set()"], "")


def test_a_name_that_the_package_does_not_have_is_missing_from_it_as_from_any_module() -> None:
    package = importlib.import_module("agui_client")
    with pytest.raises(AttributeError, match="no attribute 'Middlewares'"):
        package.Middlewares  # noqa: B018 - looking is what fails


def test_the_pytest_plugin_imports_next_to_nothing_until_a_test_asks_for_it() -> None:
    program = """
import sys
import pytest
before = set(sys.modules)
import agui_client._pytest_plugin
print(sorted(set(sys.modules) - before - {"_socket", "socket", "selectors", "zlib"}))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=60, check=False)
    own = ["", "._core", "._core.plugs", "._pytest_plugin", "._version"]
    assert (done.stdout, done.stderr) == (f"{[f'agui_client{each}' for each in own]}\n", "")


def test_the_package_has_the_version_of_its_distribution() -> None:
    assert agui_client.__version__ == version("agui-client")
