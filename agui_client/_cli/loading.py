"""Load the objects of an application that `MODULE:NAME` and `FILE.py:NAME` name on the command line."""

from __future__ import annotations

import importlib
import inspect
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.exit_codes import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def _load_views(context: click.Context, parameter: click.Parameter, places: tuple[str, ...]) -> None:
    for place in places:
        _module(place, f"--views {place}")


views_option = click.option(
    "--views",
    multiple=True,
    metavar="MODULE",
    callback=_load_views,
    expose_value=False,
    help="A module with views, made with @renders; also FILE.py; may be repeated.",
)
"""The option that imports modules with views."""


def load_object(place: str, option: str = "") -> object:
    """Load an object.

    Args:
        place: The module or file and the name in it, such as "shop.agents:planner" or "tools.py:all".
        option: The option that the place was given to, for errors.

    Raises:
        click.UsageError: The object does not exist or cannot be loaded.
    """
    shown = f"{option} {place}".strip()
    where, colon, name = place.rpartition(":")
    if not (where and colon and name):
        raise click.UsageError(f"{shown}: write MODULE:NAME or FILE.py:NAME")
    found: Any = _module(where, shown)
    for step in name.split("."):
        if not hasattr(found, step):
            raise click.UsageError(f"{shown}: there is no {name} in {where}")
        found = getattr(found, step)
    return found


def required_parameters(function: Callable[..., object]) -> list[inspect.Parameter] | None:
    """Return the parameters that a function has to be given; None for functions that do not say so."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions written in C have no signature
        return None
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return [each for each in named if each.default is each.empty]


def folder_of(place: str) -> Path:
    """Return the folder of a file, or the one in which modules are looked for first."""
    where = place.rpartition(":")[0]
    return Path(where).resolve().parent if where.endswith(".py") else Path.cwd()


def _module(where: str, shown: str) -> ModuleType:
    """Import a module or file; its folder is put on `sys.path`, as Python does for a script."""
    is_file = where.endswith(".py")
    path = Path(where)
    if is_file and not path.is_file():
        raise click.UsageError(f"{shown}: there is no file {where}")
    folder = str(folder_of(f"{where}:"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _run_file(path) if is_file else importlib.import_module(where)
    except (Exception, SystemExit) as error:
        raise click.UsageError(f"{shown}: {reason_of(error)}") from error


def _run_file(path: Path) -> ModuleType:
    # The whole path is the name, so that it clashes with no other module.
    name = str(path.resolve())
    if (loaded := sys.modules.get(name)) is not None:
        return loaded
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Type hints and dataclasses look their module up in sys.modules.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
