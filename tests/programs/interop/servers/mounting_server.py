"""One agent of agui_client behind a framework and a server: `python mounting_server.py STACK LEFT`.

The file LEFT is written when a run is cancelled.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

from ag_ui.core import RunAgentInput

from agui_client import tool
from agui_client.asgi import AppLimits, agent_app, served_run, served_run_sync
from agui_client.testing import ScriptedAgent, pause, text, tool_call, turn

STACK, LEFT = sys.argv[1], Path(sys.argv[2])
KEEP_ALIVE = 0.2


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Agent(ScriptedAgent):
    """Says two words with a second between them, pays, or never ends."""

    async def run(self, input: RunAgentInput) -> Any:
        try:
            async for event in super().run(input):
                yield event
        except BaseException:
            note_leaving()
            raise


def note_leaving() -> None:
    LEFT.write_text("left")


async def script(input: RunAgentInput) -> Any:
    last = input.messages[-1]
    if last.role == "tool":
        yield turn(text(f"Done: {last.content}."))
    elif "pay" in str(last.content):
        yield turn(tool_call("pay", {"amount": 3}))
    elif "wait" in str(last.content):
        yield turn(text("Well,"), pause(float("inf")))
    else:
        yield turn(text("Hello "), pause(1), text("you"))


agent = Agent(script, tools=[pay])
mounted = agent_app(agent, limits=AppLimits(keep_alive=KEEP_ALIVE))


def fastapi() -> Any:
    from fastapi import FastAPI

    app = FastAPI()
    app.mount("/agent", mounted)
    return app


def starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/agent", mounted)])


def litestar() -> Any:
    from litestar import Litestar
    from litestar.handlers import asgi

    @asgi("/agent", is_mount=True, copy_scope=True)
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await mounted(scope, receive, send)

    return Litestar([handler])


def quart() -> Any:
    from hypercorn.middleware import DispatcherMiddleware
    from quart import Quart

    return DispatcherMiddleware({"/agent": mounted, "": Quart("app")})


def quart_sse() -> Any:
    from quart import Quart, make_response, request

    app = Quart("app")

    @app.post("/agent/")
    async def answer() -> Any:
        run = served_run(agent, RunAgentInput.model_validate_json(await request.get_data()))
        response: Any = await make_response(run.sse(keep_alive=KEEP_ALIVE), {"Content-Type": "text/event-stream"})
        response.timeout = None
        return response

    return app


def django() -> Any:
    from django.conf import settings
    from django.http import StreamingHttpResponse
    from django.urls import path

    async def answer(request: Any) -> Any:
        run = served_run(agent, RunAgentInput.model_validate_json(request.body))
        return StreamingHttpResponse(run.sse(keep_alive=KEEP_ALIVE), content_type="text/event-stream")

    def answer_sync(request: Any) -> Any:
        run = served_run_sync(agent, RunAgentInput.model_validate_json(request.body))
        return StreamingHttpResponse(run.sse(keep_alive=KEEP_ALIVE), content_type="text/event-stream")

    view = answer_sync if STACK.endswith("wsgi") else answer
    settings.configure(ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], MIDDLEWARE=[], SECRET_KEY="none")
    globals()["urlpatterns"] = [path("agent/", view)]
    import django

    django.setup()
    if STACK.endswith("wsgi"):
        from django.core.wsgi import get_wsgi_application

        return get_wsgi_application()
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def flask() -> Any:
    from flask import Flask, Response, request

    app = Flask("app")

    @app.post("/agent/")
    def answer() -> Response:
        run = served_run_sync(agent, RunAgentInput.model_validate_json(request.data))
        return Response(run.sse(keep_alive=KEEP_ALIVE), mimetype="text/event-stream")

    return app


def alone() -> Any:
    return mounted


def main() -> None:
    """Print the port, and serve."""
    framework, server = STACK.split("-")
    app = globals()[framework]()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if server == "uvicorn":
        import uvicorn

        print(f"PORT {port}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
        return
    listener.close()
    print(f"PORT {port}", flush=True)
    if server == "hypercorn":
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        asyncio.run(serve(app, config))
    else:
        from werkzeug.serving import run_simple

        run_simple("127.0.0.1", port, app, threaded=True)


if __name__ == "__main__":
    main()
