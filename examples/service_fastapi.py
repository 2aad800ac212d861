"""A service whose runs outlive pages and workers: two workers, one database, and approval by a link, as in a mail.

`python examples/service_fastapi.py` serves it at http://127.0.0.1:8000/, with a page that may be reloaded at any time.
DATABASE_URL names a PostgreSQL database; without it, SQLite keeps threads and runs in service.db. SECRET, of at least
16 bytes, signs links and questions; without it, those of one start count for that start alone. The links are printed.
"""

import hmac
import json
import os
import secrets
from contextlib import suppress

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse

from agui_client import Approve, UsageError
from agui_client.asgi import agent_app
from agui_client.store import Store, WaitingRun
from agui_client.testing import demo_agent

if __name__ == "__main__":
    os.environ.setdefault("SECRET", secrets.token_urlsafe())  # the workers inherit it
SECRET = os.environ["SECRET"]
store = Store(os.environ.get("DATABASE_URL", "sqlite:///service.db"))


def key_of(thread: str, run: str) -> str:
    return hmac.digest(SECRET.encode(), json.dumps([thread, run]).encode(), "sha256").hex()


@store.runs.on_waiting
def send_link(waiting: WaitingRun) -> None:
    query = f"{waiting.query}&key={key_of(waiting.thread_id, waiting.run_id)}"
    print(waiting.interrupts[0].message, f"http://127.0.0.1:8000/approve?{query}", flush=True)


served = agent_app(demo_agent(), store=store, owner_of=lambda caller: "", secret=SECRET)
# The lifespan opens the store, and leaves the runs to the other worker when this one is stopped.
app = FastAPI(lifespan=served.lifespan)
app.mount("/agent", served)
app.get("/")(lambda: FileResponse(__file__.replace(".py", ".html")))


@app.api_route("/approve", methods=["GET", "POST"], response_class=HTMLResponse)
async def approve(request: Request, thread: str, run: str, key: str) -> str:
    if not hmac.compare_digest(key.encode(), key_of(thread, run).encode()):
        raise HTTPException(403)
    if request.method == "GET":  # mail programs open links to check them, so that only the button approves
        return "<form method=post><button>Approve</button></form>"
    for each in await store.runs.list():
        if (each.thread_id, each.run_id) == (thread, run) and each.interrupts:
            with suppress(UsageError):  # the button was pressed before
                await store.runs.answer(run, {asked.id: Approve() for asked in each.interrupts}, thread_id=thread)
    return "Approved."


if __name__ == "__main__":
    uvicorn.run("service_fastapi:app", workers=2, timeout_worker_healthcheck=30)
