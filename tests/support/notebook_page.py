"""The page of a notebook as the kernel sees it: what a question shows, and the messages that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Send = Callable[[str, dict[str, Any]], object]


def leaves_of(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a question or of a group, those inside of groups, too, with their whole names."""
    return [leaf for each in shown["fields"] for leaf in _leaves(each, "")]


def _leaves(field: Mapping[str, Any], around: str) -> list[dict[str, Any]]:
    whole = {**field, "name": around + field["name"]}
    if field["control"] != "group":
        return [whole]
    return [leaf for each in field["fields"] for leaf in _leaves(each, whole["name"])]


class NotebookPage:
    """A page with the questions of a notebook; what is typed stays on the page until a button is pressed.

    Args:
        send: Sends data to the comm of a widget.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._shown: dict[str, dict[str, Any]] = {}
        self._typed: dict[str, dict[str, str]] = {}
        self._presses = 0

    def receive(self, message_type: str, content: Mapping[str, Any]) -> None:
        """Take in a message of the kernel's."""
        match message_type, content:
            case "comm_open", {"comm_id": comm_id, "data": {"state": {"shown": {"fields": _} as shown}}}:
                self._shown[comm_id] = shown
                self._typed[comm_id] = {each["name"]: each["value"] for each in leaves_of(shown)}
            case "comm_msg", {"comm_id": comm_id, "data": {"method": "update", "state": {"shown": shown}}}:
                self._shown[comm_id] = shown
            case "comm_msg", {"comm_id": comm_id, "data": {"method": "custom", "content": {"arrived": press_id}}}:
                if press_id == f"{id(self)}-{self._presses}":
                    self._send(comm_id, {"method": "custom", "content": {"latest": press_id}})
            case "comm_close", {"comm_id": comm_id}:
                self._shown.pop(comm_id, None)
            case _:
                pass

    @property
    def question(self) -> dict[str, Any]:
        """What the latest question shows; empty if there is none any more."""
        return [*self._shown.values()][-1] if self._shown else {}

    def can_press(self, choice: str) -> bool:
        """Return whether the latest question has a button."""
        return choice in [each["name"] for each in self.question.get("choices", ())]

    def fill(self, label: str, text: str) -> None:
        """Type in the field with a label, or choose in it."""
        field = next(each for each in leaves_of(self.question) if each["label"] == label)
        is_one_of = field["control"] in ("select", "radio", "box")
        assert not is_one_of or text in ("", *field["choices"])
        [*self._typed.values()][-1][field["name"]] = text

    def appear(self) -> None:
        """Report that the latest question is drawn, as its script does."""
        self._send([*self._shown][-1], {"method": "custom", "content": {"shown": True}})

    def press(self, choice: str) -> None:
        """Press a button of the latest question."""
        assert self.can_press(choice)
        comm_id = [*self._shown][-1]
        self._presses += 1
        press = {"pressed": choice, "values": {**self._typed[comm_id]}, "press_id": f"{id(self)}-{self._presses}"}
        self._send(comm_id, {"method": "custom", "content": press})
