"""Serving agents over HTTP and SSE, and calling apps in this process; needs no framework and no extra.

    app.mount("/agent", agent_app(agent))                # FastAPI, Starlette, or alone
    StreamingResponse(run.sse(), headers=sse_headers())  # any run, in any framework
    HttpAgent("http://app/", app=app)                    # an app in this process
    app.mount("/openai", openai_app(agent))              # for OpenAI's clients, at /openai/v1

A served agent runs the whole pipeline, tools and middleware included.
"""

from agui_client._core.transport.in_process import ASGITransport
from agui_client._core.verbs.sse import sse_headers
from agui_client._serving.answering import served_run, served_run_sync
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._app import AgentApp, agent_app
from agui_client.asgi._limits import AppLimits
from agui_client.asgi._openai import OpenAIApp, openai_app

__all__ = [
    "ASGITransport",
    "AgentApp",
    "AppLimits",
    "OpenAIApp",
    "RequestRefusedError",
    "ServedRequest",
    "agent_app",
    "openai_app",
    "served_run",
    "served_run_sync",
    "sse_headers",
]
