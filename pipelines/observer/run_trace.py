"""The spans of a run, where nothing records them."""

from collections.abc import Iterator
from contextlib import contextmanager

Attributes = dict[str, str | int]
"""The attributes of a span; they begin with `feedferry.`, which is added."""


class RunTrace:
    """The spans of a run, which has `attributes`. This class records none."""

    def __init__(self) -> None:
        self.attributes: Attributes = {}

    @contextmanager
    def span(self, _name: str) -> Iterator[Attributes]:
        """Record the block as a span with the attributes that it adds."""
        yield {}
