"""A surface below a cell, on which a person enters values and presses a button: `action = await pressed(surface)`."""

from __future__ import annotations

from agui_client._rendering.surface_html import SURFACE_STYLE, carried_out, surface_html
from agui_client.a2ui import Action, Surface
from agui_client.errors import CannotWaitError, UsageError
from agui_client.notebook._cell_widget import CellWidget, has_widgets, in_marimo
from agui_client.notebook._elements import ROOT_CLASSES, bundle
from agui_client.notebook._presses import Presses
from agui_client.notebook._surface_elements import painted


async def pressed(surface: Surface) -> Action:
    """Show a surface below the cell until a person presses one of its buttons.

    What is entered is entered into the surface at once; checks complain about fields that were touched. When a button
    was pressed, the surface stays as it is, and a saved notebook keeps it.

    Args:
        surface: A surface of a run, a result or an agent.

    Returns:
        The action: `await agent.run_agent(**action.run_options())`.

    Raises:
        UsageError: The package anywidget is missing.
        CannotWaitError: This is marimo, where no click could arrive.
    """
    if in_marimo():
        raise CannotWaitError(
            "marimo passes no click on while a cell runs: write what is entered, as surface.set('name', 'Ann'), and "
            "action = surface.press('book')"
        )
    if not has_widgets():
        raise UsageError("a surface is pressed with the package anywidget: pip install 'agui-client[notebook]'")
    presses = Presses()
    shown = {"classes": ROOT_CLASSES, "rules": SURFACE_STYLE, "html": surface_html(surface, is_live=True)}
    static = bundle(painted([surface]))
    widget = CellWidget("surface", shown, static, presses.receive)
    try:
        while True:
            complaints: list[str] = []
            try:
                if (action := carried_out(surface, await presses.next(widget))) is not None:
                    return action
            except UsageError as error:
                complaints.append(str(error))
            html = surface_html(surface, is_live=True, complaints=complaints)
            widget.update(html=html)
            widget.send({"html": html})
    finally:
        presses.close()
        widget.replace(bundle(painted([surface])))
