"""An agent in Slack: each thread is a conversation in a database, answers grow while they arrive, buttons approve.

docs/slack.md says what it needs, and what happens when something fails or two people press a button.
"""

import asyncio
import html
import os
import re
from collections.abc import Callable
from typing import Any

import httpx
from ag_ui.core import ContentPart, TextPart, UserMessage
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, SectionBlock

from agui_client import AGUIError, Approve, Deny, HttpAgent, People, UsageError, attach, tool
from agui_client.store import Store


@tool(approval="always", description="Buy ferry tickets. They cannot be returned.")
def buy_tickets(route: str, count: int) -> str:
    print(f"--- bought {count} for {route}", flush=True)
    return f"{count} tickets for {route}"


app: Any = AsyncApp(token=os.environ["SLACK_BOT_TOKEN"], signing_secret=os.environ["SLACK_SIGNING_SECRET"])
slack = app.client
slack.base_url = os.environ.get("SLACK_API_URL", slack.base_url)
slack.retry_handlers.append(AsyncRateLimitErrorRetryHandler(max_retry_count=3))
store = Store(os.environ.get("DATABASE_URL", "sqlite:///slack.db"))
agent = HttpAgent(os.environ["AGENT_URL"], tools=[buy_tickets], people=People(fallback="leave"))
EDIT_SECONDS = 1.2  # Slack takes some 50 calls of chat.update a minute, for all conversations together
pace = asyncio.Lock()  # locked for EDIT_SECONDS after an edit


async def on_message(event: dict[str, Any], context: AsyncBoltContext) -> None:
    is_direct = event.get("channel_type") == "im" and event.get("subtype", "file_share") == "file_share"
    if event["type"] == "app_mention" or is_direct:
        place = {"channel": event["channel"], "thread_ts": event.get("thread_ts", event["ts"])}
        async with store.threads.open("/".join(place.values()), agent, owner=context.team_id or "", wait=600) as own:
            if event["ts"] not in {message.id for message in own.messages}:  # Slack may send it twice
                text = html.unescape(event["text"].replace(f"<@{context.bot_user_id}>", "")).strip()
                parts = [TextPart(text=text or "(no text)"), *[await fetched(each) for each in event.get("files", ())]]
                own.abandon_interrupts()  # who writes instead of pressing a button has changed the subject
                await answer(own, place, UserMessage(id=event["ts"], content=parts))


async def on_click(ack: AsyncAck, body: dict[str, Any], context: AsyncBoltContext) -> None:
    await ack()
    message, user, button = body["message"], body["user"]["id"], body["actions"][0]
    place = {"channel": body["channel"]["id"], "thread_ts": message["thread_ts"]}
    async with store.threads.open("/".join(place.values()), agent, owner=context.team_id or "", wait=600) as own:
        if button["value"] not in questions(own):  # of the database, whichever process has asked
            await slack.chat_postEphemeral(**place, user=user, text="This question is not open any more.")
            return
        decision = Approve() if button["action_id"] == "Approve" else Deny()
        together = {each.id: decision for each in own.pending_interrupts}
        calls = {} if button["value"] in together else {"tool_results": {button["value"]: decision}}
        await answer(own, place, **(calls or {"resume": together}))
        if button["value"] not in questions(own):  # the agent has the answer, and so the buttons go
            await edit(place, message["ts"], lambda: f"{message['text']}\n{button['action_id']}: <@{user}>")


def questions(own: HttpAgent) -> dict[str, str]:
    calls = {each.id: each.function for each in own.pending_tool_calls if each not in own.unknown_tool_calls}
    texts = {key: f"May the agent call {each.name} with {each.arguments}?" for key, each in calls.items()}
    together = "\n".join(each.message or each.reason for each in own.pending_interrupts)  # answered together
    return texts | {each.id: together for each in own.pending_interrupts[:1]}


async def answer(own: HttpAgent, place: dict[str, Any], *prompt: UserMessage, **options: Any) -> None:
    parts, ts, shown = [""], (await slack.chat_postMessage(**place, text="…"))["ts"], questions(own)
    drawn = asyncio.create_task(asyncio.sleep(0))
    try:
        async with own.stream(*prompt, **options) as run:
            async for piece in run.text_stream:
                parts.append(piece)
                if piece.strip() and drawn.done():
                    drawn = asyncio.create_task(edit(place, ts, lambda: cut("".join(parts))[0]))  # when it is its turn
    except AGUIError as error:
        parts.append(f"\n:warning: {error.problem}")
    await drawn
    first, *others = cut("".join(parts).strip() or "(no text)")
    await edit(place, ts, lambda: first)
    for other in others:
        await slack.chat_postMessage(**place, text=other)
    for key, words in {key: cut(each) for key, each in questions(own).items() if key not in shown}.items():
        buttons = [ButtonElement(text=name, action_id=name, value=key) for name in ("Approve", "Deny")]
        blocks = [*(SectionBlock(text=each) for each in words), ActionsBlock(elements=buttons)]
        await slack.chat_postMessage(**place, text=words[0], blocks=blocks)


async def edit(place: dict[str, Any], ts: str, text: Callable[[], str]) -> None:
    await pace.acquire()
    asyncio.get_running_loop().call_later(EDIT_SECONDS, pace.release)
    await slack.chat_update(channel=place["channel"], ts=ts, text=text(), blocks=[])


def cut(text: str) -> list[str]:  # for sections of messages, escaped: an agent's `<!channel>` calls nobody
    return re.findall(r"(?s).{1,3000}(?<!&)(?<!&\w)(?<!&\w\w)(?<!&\w\w\w)", html.escape(text, quote=False))


async def fetched(file: dict[str, Any]) -> ContentPart:
    is_ours = not file.get("is_external") and file.get("size", 0) <= 3_000_000  # Slack alone gets the token
    try:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {slack.token}"}) as http:
            response = await http.get(file["url_private"] if is_ours else "")
        return attach(response.raise_for_status().content)
    except (httpx.HTTPError, UsageError):
        return TextPart(text=f"(The file {file.get('name')} could not be read.)")


app.event(re.compile("^(app_mention|message)$"))(on_message)
app.action(re.compile("^(Approve|Deny)$"))(on_click)
if __name__ == "__main__":
    with store:
        app.start(int(os.environ.get("PORT", "3000")), host="127.0.0.1")
