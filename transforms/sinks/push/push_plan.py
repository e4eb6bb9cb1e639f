"""The chunks of a push: which are sent, in which order, and with which feedtypes."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.feed import FULL
from transforms.sinks.push.model import ERASING_FEEDTYPES, count_records
from transforms.sinks.push.outcome import outcomes_of
from transforms.sinks.push.receipts import read_receipts
from transforms.sinks.push.request_forms import check_chunk, is_groups
from transforms.sinks.push.settings import GroupsMode, PushSettings
from transforms.sinks.push.update_index import with_planned_update


def with_groups_mode(chunks: Sequence[Chunk], mode: GroupsMode) -> list[Chunk]:
    """Return the chunks with the feedtypes that a mode asks for.

    The first groups feed of each groupsource, and each full one, gets the feedtype of the mode.
    Raises ConfigError if a mode is given and there are no groups feeds.
    """
    if mode is GroupsMode.AS_STATED:
        return list(chunks)
    seen: set[str | None] = set()
    changed = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.ordinal):  # Beam may change the order
        is_first = chunk.feedtype == FULL or chunk.datasource not in seen
        if is_groups(chunk) and is_first:
            seen.add(chunk.datasource)
            changed.append(replace(chunk, feedtype=mode.value))
        else:
            changed.append(chunk)
    if not seen:
        raise ConfigError(f"--groups-mode {mode.value}: no groups feed is pushed; expected one")
    return changed


def check_chunks(chunks: Sequence[Chunk], settings: PushSettings) -> None:
    """Raise ConfigError if the appliance cannot take a chunk, or it would empty a datasource."""
    for chunk in chunks:
        check_chunk(chunk, settings.appliance)
        is_empty = chunk.feedtype in ERASING_FEEDTYPES and not count_records(chunk)
        if is_empty and not settings.can_empty:
            raise ConfigError(
                f"{chunk.path}: a full feed without records, which empties {chunk.datasource!r};"
                " expected records, or --allow-empty-full"
            )


def planned_chunks(chunks: Sequence[Chunk], folder: Path, settings: PushSettings) -> list[Chunk]:
    """Return the chunks that a push would send now, in order; make no file.

    The update of search indexes that the push adds is one of them.
    """
    ordered = with_planned_update(chunks, settings)
    outcomes = outcomes_of(ordered, read_receipts(folder))
    remaining = [outcome.chunk for outcome in outcomes if not outcome.allows_next]
    return ordered if settings.replay and not remaining else remaining
