"""The words of A2UI on the wire, and the limits of what is drawn: A2UI moves fast, so they stand in one place."""

from __future__ import annotations

from agui_client._core.protocol.reduce import OWN_ACTIVITIES

ACTIVITY_TYPE = "a2ui-surface"
"""The type of the activities that carry surfaces."""
TYPED_ACTIVITY_TYPE = f"{OWN_ACTIVITIES}a2ui-typed"
"""The type of the activities in which this client keeps what a person entered; activities are never sent."""
OPERATIONS = "a2ui_operations"
RENDER_TOOL = "render_a2ui"
EVENT_TOOL = "log_a2ui_event"
EXHAUSTED = "a2ui_recovery_exhausted"
ACTION_PROPERTY = "a2uiAction"
"""The member of `forwardedProps` that carries what a person did."""
MOST_ATTEMPTS = 3
"""The number of attempts of the official middleware, where a content does not say it."""

BASIC_CATALOG = "https://a2ui.org/specification/v0_9/basic_catalog.json"
"""The basic catalog's id as the field sends it."""
BASIC_CATALOGS = frozenset({BASIC_CATALOG, "https://a2ui.org/specification/v0_9/catalogs/basic/catalog.json", "basic"})
"""The ids of the basic catalog: as the field sends it, as the specification writes it, and as models abbreviate it."""

VERSION = "v0.9"
VERSIONS = frozenset({"v0.9", "v0.9.1", "0.9", "0.9.1"})
"""The versions that are read."""
OLD_WORDS = frozenset({"beginRendering", "surfaceUpdate", "dataModelUpdate"})
"""The operations of v0.8."""
KINDS = ("createSurface", "updateComponents", "updateDataModel", "deleteSurface")
"""The operations of v0.9."""

SCHEMA_CONTEXT = (
    "A2UI Component Schema \u2014 available components for generating UI surfaces. Use these component names and "
    "properties when creating A2UI operations."
)
"""The description of the context with the component schema; servers compare it byte for byte."""
GUIDE_CONTEXT = f"A2UI render tool usage guide \u2014 how to call {RENDER_TOOL} with valid arguments."

MOST_OPERATIONS = 1_000
"""The number of operations that are read of one message."""
MOST_COMPONENTS = 2_000
"""The number of components of one surface."""
MOST_DRAWN = 5_000
"""The number of components that are drawn of one surface, those of templates counted each time."""
MOST_DEPTH = 50
"""The depth to which components are drawn within each other."""
MOST_STEPS = 100_000
"""The number of values and calls that are worked out for one drawing."""
MOST_TEMPLATE = 10_000
"""The length of a template of `formatString`, in characters."""
MOST_TEXT = 200_000
"""The length of all texts that functions make for one drawing, in characters."""
MOST_NESTED = 100
"""The depth of calls in calls, and of values in values."""
MOST_GAP = 100
"""The number of places by which an index may be beyond the end of an array."""
MOST_PROBLEMS = 100
"""The number of problems that are noted of one surface."""
