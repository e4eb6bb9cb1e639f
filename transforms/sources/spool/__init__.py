"""The spool of a receiver: its journal, and the feeds of it that a run reads."""

from feedferry.transforms.sources.spool.deliveries import (
    is_whole,
    name_of,
    open_deliveries,
    queue_of,
    read_deliveries,
)
from feedferry.transforms.sources.spool.spool_source import spans_of

__all__ = ["is_whole", "name_of", "open_deliveries", "queue_of", "read_deliveries", "spans_of"]
