"""An agent of pydantic-ai behind its own AG-UI adapter, with `render_a2ui` as a tool of its own or an offered one."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")

from agui_client import HttpAgent
from agui_client.a2ui import A2UI
from agui_client.testing import serve
from support.ferry_booking import Bookings

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@pytest.mark.parametrize("has_tool", [True, False])
async def test_a_ferry_is_booked_on_a_surface_of_an_agent_that_knows_nothing_of_surfaces(has_tool: bool) -> None:
    bookings = Bookings(has_tool=has_tool)
    with serve(bookings.app) as server:
        agent = HttpAgent(server.url).use(A2UI(render_tool=not has_tool))
        shown = await agent.run_agent("A ferry, please")
        surface = agent.surfaces["ferry"]
        surface.set("name", "Ann")
        surface.set("ferry", "dusk")
        booked = await agent.run_agent(**surface.press("book").run_options())
        assert surface["said"].values["text"] == "Booked dusk for Ann."
        assert booked.changed_surfaces[0].data == surface.data == {"name": "Ann", "ferry": ["dusk"]}
        assert (shown.warnings, booked.warnings, agent.pending_tool_calls) == ([], [], [])
        # What tells the agent of the press is no part of the conversation.
        calls = [call.function.name for each in agent.messages for call in getattr(each, "tool_calls", None) or ()]
        assert calls == ["render_a2ui", "book_ferry", "render_a2ui"]
    assert bookings.made == [("Ann", "dusk")]
