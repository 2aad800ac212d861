"""Surfaces: user interfaces that agents send as data, as A2UI v0.9 writes them.

`run.surfaces`, `result.surfaces` and `agent.surfaces` are the surfaces of a conversation. A person enters values
(`Surface.set`) and presses buttons (`Surface.press`); the next run tells the agent. Nothing of a surface is run, and
nothing is requested.

The modules, from low to high: `_words`, `_data`, `_formats` and `_actions`; `_expressions`, `_functions` and
`_catalog`; `_evaluation`, `_drawing`, `_inputs` and `_surface`; `_operations` and `_carriers`; `_surfaces`; `_live`,
`_middleware` and `_sending` (the agent's side).

To change

- a word of A2UI on the wire, or a limit of what is drawn: `_words` here
- what a person reads and types of surfaces at a terminal: `_cli/surfaces.py`; on the chat page:
  `asgi/_page_surfaces.py`, `asgi/page/surfaces.js`; in the inspector: `inspector/_surface_rows.py`
- a component or a property of the basic catalog: `_catalog`, of which agents read, too; `_PAINT` in
  `_rendering/surface_html.py` paints it
- a function that agents may call: `_functions`, none of which may cost more than its arguments are long
"""

from agui_client.a2ui._actions import Action, action_in
from agui_client.a2ui._drawing import Drawn
from agui_client.a2ui._middleware import A2UI
from agui_client.a2ui._sending import change_surface, show_surface, surface_result
from agui_client.a2ui._surface import Status, Surface
from agui_client.a2ui._surfaces import Progress, Surfaces

__all__ = [
    "A2UI",
    "Action",
    "Drawn",
    "Progress",
    "Status",
    "Surface",
    "Surfaces",
    "action_in",
    "change_surface",
    "show_surface",
    "surface_result",
]
