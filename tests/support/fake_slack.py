"""A stand-in for Slack: its Web API as an app, and signed requests to the bot, as Slack documents both."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

TOKEN, SECRET, TEAM, BOT = "xoxb-fake", "signed-with-this", "T1", "UBOT"
"""The bot's token, what requests to it are signed with, the workspace, and the user that the bot is."""
_LETTERS = {"text": 4000, "section": 3000}
"""The longest texts: of chat.update (`msg_too_long`), and of a section (`invalid_blocks`)."""


@dataclass
class FakeSlack:
    """What the bot wrote; each message is a dictionary as Slack sends it with a click."""

    messages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Messages as they are now, by their time stamps."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    """Calls of the Web API in their order: the method, and what came with it."""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that were uploaded, by their names."""
    fetched: list[str] = field(default_factory=list[str])
    """The Authorization headers of requests for files."""
    refusals: int = 0
    """How many of the next calls of chat.update are one too many in their minute."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def app(self) -> Starlette:
        """The Web API, and the files."""
        return Starlette(
            routes=[
                Route("/api/{method}", self._answer, methods=["POST"]),
                Route("/files/{name}", self._file),
            ]
        )

    def in_thread(self, root: str) -> list[dict[str, Any]]:
        """Return the messages below the one with a time stamp, in their order."""
        with self.lock:
            return [each for each in self.messages.values() if each["thread_ts"] == root]

    def texts(self, root: str) -> list[str]:
        """Return the texts of a thread, in their order."""
        return [each["text"] for each in self.in_thread(root)]

    def questions(self, root: str) -> list[dict[str, Any]]:
        """Return the messages of a thread with buttons."""
        return [each for each in self.in_thread(root) if any(block["type"] == "actions" for block in each["blocks"])]

    def refused(self) -> list[str]:
        """Return what single people were shown."""
        return [sent["text"] for method, sent in self.calls if method == "chat.postEphemeral"]

    async def _answer(self, request: Request) -> Response:
        method = request.path_params["method"]
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        is_json = request.headers.get("content-type", "").startswith("application/json")
        sent = await request.json() if is_json else dict(await request.form())
        with self.lock:
            self.calls.append((method, sent))
            return self._reply(method, sent)

    def _reply(self, method: str, sent: dict[str, Any]) -> Response:
        if method == "auth.test":
            return JSONResponse({"ok": True, "team_id": TEAM, "user_id": BOT, "bot_id": "BBOT"})
        if method == "chat.update" and self.refusals:
            self.refusals -= 1
            return JSONResponse({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "0"})
        if (problem := self._problem(method, sent)) is not None:
            return JSONResponse({"ok": False, "error": problem})
        ts = sent.get("ts") or f"1700000000.{len(self.calls):06}"
        if method != "chat.postEphemeral":
            old = self.messages.get(ts, {"ts": ts, "thread_ts": sent.get("thread_ts"), "blocks": []})
            self.messages[ts] = old | {key: value for key, value in sent.items() if key in ("text", "blocks")}
        return JSONResponse({"ok": True, "ts": ts, "channel": sent["channel"]})

    def _problem(self, method: str, sent: dict[str, Any]) -> str | None:
        """Return the error of a call that Slack refuses."""
        sections = [each["text"]["text"] for each in sent.get("blocks") or () if each["type"] == "section"]
        checks = {
            "unknown_method": method not in ("chat.postMessage", "chat.update", "chat.postEphemeral"),
            "no_text": not sent.get("text"),
            "message_not_found": method == "chat.update" and sent.get("ts") not in self.messages,
            "msg_too_long": len(sent.get("text", "")) > _LETTERS["text"],
            "invalid_blocks": any(len(each) > _LETTERS["section"] for each in sections),
        }
        return next((name for name, is_so in checks.items() if is_so), None)

    async def _file(self, request: Request) -> Response:
        authorization = request.headers.get("authorization", "")
        self.fetched.append(authorization)
        if authorization != f"Bearer {TOKEN}":
            return HTMLResponse("<!DOCTYPE html><html>Sign in to Slack</html>")  # with status 200, as Slack does
        return Response(self.files[request.path_params["name"]], media_type="application/octet-stream")


@dataclass
class People:
    """People of a workspace, who write to a bot and press its buttons.

    Args:
        bot: The address of the bot.
    """

    bot: str

    def write(self, text: str, ts: str, *, root: str | None = None, again: bool = False, **more: Any) -> None:
        """Mention the bot in a message of a channel, or of the thread below another message."""
        event = {"type": "app_mention", "user": "UANN", "text": f"<@{BOT}> {text}", "ts": ts, "channel": "C1", **more}
        self.send(event if root is None else {**event, "thread_ts": root}, again=again)

    def send(self, event: dict[str, Any], *, again: bool = False) -> None:
        """Send an event; `again` is how Slack repeats one whose answer it did not get."""
        body: dict[str, Any] = {
            "type": "event_callback",
            "team_id": TEAM,
            "event": event,
            "event_id": f"Ev{event['ts']}",
        }
        body["authorizations"] = [{"team_id": TEAM, "user_id": BOT, "is_bot": True}]
        headers = {"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"} if again else {}
        self._post(json.dumps(body), {**headers, "content-type": "application/json"}).raise_for_status()

    def press(self, label: str, question: dict[str, Any], user: str = "UANN") -> None:
        """Press a button below a question."""
        elements = question["blocks"][-1]["elements"]
        [button] = [each for each in elements if each["text"]["text"] == label]
        body = {
            "type": "block_actions",
            "team": {"id": TEAM},
            "user": {"id": user, "team_id": TEAM},
            "channel": {"id": "C1"},
            "message": question,
            "actions": [{**button, "block_id": "b", "action_ts": "1700000001.000000"}],
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        self._post(urlencode({"payload": json.dumps(body)}), headers).raise_for_status()

    def forge(self, text: str) -> int:
        """Send an event that somebody else signed; return the status."""
        body = {"type": "event_callback", "event": {"type": "app_mention", "text": text, "ts": "9.9", "channel": "C1"}}
        return self._post(json.dumps(body), {"content-type": "application/json"}, secret="guessed").status_code

    def _post(self, body: str, headers: dict[str, str], secret: str = SECRET) -> httpx.Response:
        now = str(int(time.time()))
        signature = hmac.new(secret.encode(), f"v0:{now}:{body}".encode(), hashlib.sha256).hexdigest()
        signed = {"x-slack-request-timestamp": now, "x-slack-signature": f"v0={signature}"}
        return httpx.post(self.bot, content=body, headers={**headers, **signed}, timeout=20, trust_env=False)
