"""The test kit: scripted agents, and servers whose replies a test controls, down to the byte.

    agent = ScriptedAgent(
        turn(text("Let me look."), tool_call("get_weather", {"city": "Oslo"})),
        turn(text("18 degrees.")),
    )
    with serve(agent) as server:
        ...  # HttpAgent(server.url)

`ScriptedAgent` also runs in process, without a server. `serve_bytes` sends bytes that no agent would, and `faults`
makes replies as networks, proxies and servers spoil them. `assert_conforms` finds the faults of a stream that an agent
sent. `ThreadStoreContract` has the tests of a store of threads.
`serve` needs uvicorn (`pip install 'agui-client[cli]'`); the rest of the kit needs nothing further.
"""

from agui_client.testing import faults
from agui_client.testing._byte_server import Answer, ByteServer, Raw, Reply, Request, serve_bytes
from agui_client.testing._conformance import assert_conforms
from agui_client.testing._parts import (
    interrupt,
    patch,
    pause,
    reasoning,
    state,
    step,
    text,
    tool_call,
    tool_result,
    turn,
)
from agui_client.testing._scripted_agent import ScriptedAgent, Turn
from agui_client.testing._scripted_app import ScriptedApp, agui_app
from agui_client.testing._server import Server, serve
from agui_client.testing._steps import Gate, Step, events_of, sse
from agui_client.testing._store_contract import ThreadStoreContract

__all__ = [
    "Answer",
    "ByteServer",
    "Gate",
    "Raw",
    "Reply",
    "Request",
    "ScriptedAgent",
    "ScriptedApp",
    "Server",
    "Step",
    "ThreadStoreContract",
    "Turn",
    "agui_app",
    "assert_conforms",
    "events_of",
    "faults",
    "interrupt",
    "patch",
    "pause",
    "reasoning",
    "serve",
    "serve_bytes",
    "sse",
    "state",
    "step",
    "text",
    "tool_call",
    "tool_result",
    "turn",
]
