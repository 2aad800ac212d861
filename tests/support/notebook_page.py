"""The page of a notebook as the kernel sees it: ipywidgets 8 in a browser, with its rules for what is sent when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Send = Callable[[str, dict[str, Any]], str]


class NotebookPage:
    """Widgets on a page: the page has their state, and sends changes of a widget one at a time.

    The next change waits until the kernel has reported the last as handled, with `status: idle`. Clicks never wait.

    Args:
        send: Sends data to the comm of a widget, and returns the id of the message.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._models: dict[str, dict[str, Any]] = {}
        self._in_flight: dict[str, str] = {}
        """The ids of widgets by the ids of messages that the kernel has not reported as handled."""
        self._held: dict[str, dict[str, Any]] = {}

    def receive(self, message_type: str, content: Mapping[str, Any], parent_id: str = "") -> None:
        """Take in a message of the kernel's."""
        match message_type, content:
            case "comm_open", {"comm_id": comm_id, "data": {"state": state}}:
                self._models[comm_id] = dict(state)
                if state["_model_name"] == "DirectionalLinkModel":
                    (source, shown), (target, copied) = state["source"], state["target"]
                    self._change(_id(target), {copied: self._models[_id(source)][shown]})
            case "comm_msg", {"comm_id": comm_id, "data": {"method": "update", "state": state}}:
                self._models[comm_id] |= state
            case "comm_close", {"comm_id": comm_id}:
                del self._models[comm_id]
            case "status", {"execution_state": "idle"} if parent_id in self._in_flight:
                comm_id = self._in_flight.pop(parent_id)
                if held := self._held.pop(comm_id, None):
                    self._update(comm_id, held)
            case _:
                pass

    def can_use(self, label: str) -> bool:
        """Whether the last button or field with this label is there, and is not disabled."""
        found = self._labelled(label)
        return bool(found) and not self._models[found[-1]]["disabled"]

    def reads(self, text: str) -> bool:
        """Whether a field shows a text."""
        return any(text in model["value"] for model in self._models.values() if "value" in model)

    def fill(self, field: str, text: str) -> None:
        """Choose a text in a field, or delete what stands there and type the text, character by character.

        Args:
            field: The id of the field, or its label, which means the last one with this label.
            text: The text.
        """
        comm_id = field if field in self._models else self._labelled(field)[-1]
        model = self._models[comm_id]
        if model["disabled"]:
            raise AssertionError(f"nobody can type in {field}")
        if "index" in model:
            self._change(comm_id, {"index": model["_options_labels"].index(text)})
            return
        while model["value"]:
            self._change(comm_id, {"value": model["value"][:-1]})
        for character in text:
            self._change(comm_id, {"value": model["value"] + character})

    def click(self, label: str) -> None:
        """Click on the last button with this label."""
        self._send(self._labelled(label)[-1], {"method": "custom", "content": {"event": "click"}})

    def _labelled(self, label: str) -> list[str]:
        """Return the ids of buttons and fields with a label, the last one made last."""
        descriptions = {comm_id: model.get("description", "") for comm_id, model in self._models.items()}
        return [comm_id for comm_id, found in descriptions.items() if found == label or f">{label}<" in found]

    def _change(self, comm_id: str, change: dict[str, Any]) -> None:
        model = self._models[comm_id]
        if change.items() <= model.items():
            return
        model |= change
        if comm_id in self._in_flight.values():
            self._held[comm_id] = self._held.get(comm_id, {}) | change
        else:
            self._update(comm_id, change)

    def _update(self, comm_id: str, change: dict[str, Any]) -> None:
        message_id = self._send(comm_id, {"method": "update", "state": change, "buffer_paths": []})
        self._in_flight[message_id] = comm_id


def _id(reference: str) -> str:
    return reference.removeprefix("IPY_MODEL_")
