"""Surfaces: user interfaces that agents send as data, as A2UI v0.9 writes them.

`run.surfaces`, `result.surfaces` and `agent.surfaces` are the surfaces of a conversation. A person enters values
(`Surface.set`) and presses buttons (`Surface.press`); the next run tells the agent. Nothing of a surface is run, and
nothing is requested. The modules, from low to high: `_words`, `_data` and `_formats`; `_expressions`, `_functions` and
`_catalog`; `_evaluation`, `_drawing`, `_inputs` and `_surface`; `_operations` and `_carriers`; `_surfaces`.
"""

from agui_client.a2ui._actions import Action, action_in
from agui_client.a2ui._drawing import Drawn
from agui_client.a2ui._surface import Status, Surface
from agui_client.a2ui._surfaces import Progress, Surfaces

__all__ = ["Action", "Drawn", "Progress", "Status", "Surface", "Surfaces", "action_in"]
