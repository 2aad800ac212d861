"""Programs of docs/python-pages.md: pages show what an agent streams, and each session has its conversation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from agui_client.testing import ScriptedAgent, Step, agui_app, serve, text, turn

_PAGE = (Path(__file__).parents[2] / "docs" / "python-pages.md").read_text("utf-8")
_STREAMLIT, _GRADIO = re.findall(r"^```py\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
_SECONDS = 20


async def _answer(input: RunAgentInput) -> AsyncIterator[Step]:
    """Say how often the person has asked, in pieces of ten characters."""
    asked = sum(each.role == "user" for each in input.messages)
    yield turn(text(f"You asked {asked} times.", chunk=10, message_id=f"answer-{asked}"))


@pytest.mark.filterwarnings("ignore")
def test_the_page_of_streamlit_streams_and_each_session_has_its_conversation() -> None:
    testing: Any = pytest.importorskip("streamlit.testing.v1", reason="needs Streamlit: pip install streamlit")
    with serve(agui_app(ScriptedAgent(_answer))) as server:
        program = _STREAMLIT.replace("http://localhost:8000/", server.url)
        one, other = (testing.AppTest.from_string(program, default_timeout=_SECONDS).run() for _ in range(2))
        for prompt in ("Hi", "And?"):
            one.chat_input[0].set_value(prompt).run()
        other.chat_input[0].set_value("Hello").run()
        assert not one.exception
        assert [[part.value for part in each.markdown] for each in one.chat_message] == [
            ["Hi"],
            ["You asked 1 times."],
            ["And?"],
            ["You asked 2 times."],
        ]
        assert [each.markdown[0].value for each in other.chat_message] == ["Hello", "You asked 1 times."]


@pytest.mark.filterwarnings("ignore")
def test_the_page_of_gradio_streams_and_each_session_has_its_conversation() -> None:
    pytest.importorskip("gradio", reason="needs Gradio: pip install gradio")
    client: Any = pytest.importorskip("gradio_client", reason="needs Gradio: pip install gradio")
    with serve(agui_app(ScriptedAgent(_answer))) as server:
        module = ModuleType("chat")
        program = compile(_GRADIO.replace("http://localhost:8000/", server.url), "chat.py", "exec", dont_inherit=True)
        exec(program, module.__dict__)
        page: Any = module.__dict__["page"]
        _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
        try:
            one, other = (client.Client(url, verbose=False) for _ in range(2))
            asked = one.submit("Hi", api_name="/answer")
            assert asked.result(_SECONDS) == "You asked 1 times."
            assert asked.outputs()[:2] == ["You asked ", "You asked 1 times."]
            assert one.predict("And?", api_name="/answer") == "You asked 2 times."
            assert other.predict("Hello", api_name="/answer") == "You asked 1 times."
        finally:
            page.close()


def test_the_programs_are_of_some_ten_lines() -> None:
    for program in (_STREAMLIT, _GRADIO):
        statements = [line for line in program.splitlines() if line and not line.startswith(("import ", "from "))]
        assert len(statements) <= 10
