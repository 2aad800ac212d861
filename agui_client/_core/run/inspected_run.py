"""The inspector's view of a call, as `result.inspect()` returns it; `notebook/_recording_elements.py` draws it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.files import write_private
from agui_client._core.plugs import PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agui_client._core.run.result import RunResult


@dataclass(frozen=True, slots=True, repr=False)
class InspectedRun(Record, Displayed):
    """Everything that happened in a call: displayed at the end of a cell, written by `print`, saved as a page."""

    result: RunResult[Any]
    """The result of the call."""
    other: RunResult[Any] | None
    """The result of the call that it is compared with; None if it is shown alone."""
    prices: Mapping[str, tuple[float, float]]
    """The prices of a million tokens by the names of models; empty if there is no money."""

    def __repr__(self) -> str:
        # As text, because a Python prompt shows the representation.
        text: str = self._repr_mimebundle_()["text/plain"]
        return text

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as an HTML page, which needs no network, readable for its owner alone.

        A call alone is written as the page of `agui inspect`, on which one can go to any moment; two calls as that of
        `agui inspect A B`.

        Args:
            path: The file.

        Returns:
            The file.

        Raises:
            UsageError: The events of a call were not kept.
        """
        write_private(Path(path), PAGES[0](self))
        return Path(path)
