"""Apps of a conversation: the calls whose tools have a page, the page itself, and requests to the server behind it.

To change

- how a request of a page reaches the server that the page is of: `App.request` here; `mcp/_apps.py` responds
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import ActivityMessage, Message

from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import ToolError
from agui_client.mcp_apps._words import ACTIVITY_TYPE, PAGE_TYPE, PROXIED_REQUEST, READ

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent


@dataclass(frozen=True, slots=True)
class AppPage(Record):
    """A page of an MCP server. It is a program of strangers: show it in a frame that can reach nothing."""

    html: str
    """The page."""
    wanted_domains: tuple[str, ...] = ()
    """The addresses that the page would like to load from or send to; none of them is let through here."""


@dataclass(frozen=True, slots=True)
class App(Record):
    """A call whose tool has a page, as an activity of the conversation tells it."""

    activity_id: str
    """The id of the activity."""
    resource_uri: str
    """The address of the page at its server, such as `ui://weather/map`."""
    result: Mapping[str, Any]
    """The whole result of the call as the server sent it, which the page gets: the agent may have got less."""
    arguments: Mapping[str, Any]
    """The arguments of the call."""
    server_hash: str
    """The name by which the sender of the activity knows the server."""
    server_id: str | None = None
    """Another such name; None if there is none."""

    @property
    def text(self) -> str:
        """The text of the result, for where no page is shown."""
        content = self.result.get("content")
        parts: list[Any] = content if is_array(content) else []
        return "\n".join(part["text"] for part in parts if is_object(part) and isinstance(part.get("text"), str))

    async def page(self, agent: AbstractAgent) -> AppPage:
        """Read the page.

        Args:
            agent: The agent whose conversation the app is in.

        Raises:
            ToolError: There is no page, or the request was refused.
        """
        result = await self.request(agent, READ, {"uri": self.resource_uri})
        contents = result.get("contents")
        parts: list[Any] = contents if is_array(contents) else []
        for part in parts:
            if is_object(part) and _is_page(part) and (html := _text(part)) is not None:
                return AppPage(html, _wanted_domains(part))
        raise ToolError(f"the server has no page at {self.resource_uri}")

    async def request(self, agent: AbstractAgent, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the server of the app something, through the agent that sent the activity.

        The request is a run of a clone of the agent, on a thread of its own, so that it may be made while the agent is
        at work, and leaves no trace in its conversation.

        Args:
            agent: The agent whose conversation the app is in.
            method: The MCP method, such as "tools/call".
            params: Its parameters.

        Returns:
            The result, as the server sent it.

        Raises:
            ToolError: The request was refused, or got no response.
            AGUIError: The run failed.
        """
        # Some servers respond with the id of the run as that of the thread (LIFE-12).
        one_id = str(uuid4())
        twin = agent.clone(thread_id=one_id)
        twin.restore(ConversationSnapshot(thread_id=one_id))
        asked: dict[str, Any] = {"serverHash": self.server_hash, "method": method, "params": dict(params)}
        if self.server_id is not None:
            asked["serverId"] = self.server_id
        response = await twin.run_agent(run_id=one_id, tools=[], forwarded_props={PROXIED_REQUEST: asked})
        if not is_object(response.result):
            raise ToolError(f"no response to {method}: the agent, or a server in front of it, has to know MCP Apps")
        if (error := response.result.get("error")) is not None:
            raise ToolError(error if isinstance(error, str) else f"{method} was refused")
        return response.result


def apps_in(messages: Iterable[Message]) -> list[App]:
    """Return the apps of a conversation, in order: `apps_in(result.messages)`."""
    found = (
        app_of(each.id, each.activity_type, each.content) for each in messages if isinstance(each, ActivityMessage)
    )
    return [app for app in found if app is not None]


def app_of(activity_id: str, activity_type: str, content: object) -> App | None:
    """Return the app that an activity is; None if it is none, or cannot be read as one."""
    if activity_type != ACTIVITY_TYPE or not is_object(content):
        return None
    uri, server_hash, server_id = (content.get(name) for name in ("resourceUri", "serverHash", "serverId"))
    if not isinstance(uri, str) or not isinstance(server_hash, str):
        return None
    result, given = content.get("result"), content.get("toolInput")
    return App(
        activity_id,
        uri,
        result if is_object(result) else {},
        given if is_object(given) else {},
        server_hash,
        server_id if isinstance(server_id, str) else None,
    )


def _is_page(part: Mapping[str, Any]) -> bool:
    media_type = part.get("mimeType")
    return isinstance(media_type, str) and media_type.replace(" ", "").lower() == PAGE_TYPE


def _text(part: Mapping[str, Any]) -> str | None:
    text, blob = part.get("text"), part.get("blob")
    if isinstance(text, str):
        return text
    try:
        return b64decode(blob).decode("utf-8", "replace") if isinstance(blob, str) else None
    except ValueError:
        return None


def _wanted_domains(part: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses that a page declares, of all kinds (`_meta.ui.csp`)."""
    meta = part.get("_meta")
    ui = meta.get("ui") if is_object(meta) else None
    csp = ui.get("csp") if is_object(ui) else None
    lists = csp.values() if is_object(csp) else ()
    return tuple(dict.fromkeys(each for some in lists if is_array(some) for each in some if isinstance(each, str)))
