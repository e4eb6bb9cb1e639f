"""The kit of a source: how it is filled with documents, and how it is read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from feedferry.transforms.sources import Source


class SourceKit(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What tests need to know about a source."""

    source: Source[Any]

    fill: Callable[[Path, Mapping[str, str]], str]
    """Bring the source below a folder to hold these documents, and no others.

    It is called with the texts of the documents by their names, letters and digits, and returns the
    input that is read.
    """

    url_of: Callable[[str], str]
    """The URL of the document with a name."""

    settings: Mapping[str, object] = {}
    """Settings of a conversion, as of `feedferry.convert`."""

    def __repr__(self) -> str:
        return f"the kit of {self.name}"

    @property
    def name(self) -> str:
        return self.source.name
