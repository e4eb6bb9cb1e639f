"""The spool of a receiver: its journal, and the feeds of it that a run reads."""

from transforms.sources.spool.deliveries import is_whole, name_of, read_deliveries
from transforms.sources.spool.selection import (
    Selection,
    Spool,
    select,
    spans_of,
    superseded,
)

__all__ = [
    "Selection",
    "Spool",
    "is_whole",
    "name_of",
    "read_deliveries",
    "select",
    "spans_of",
    "superseded",
]
