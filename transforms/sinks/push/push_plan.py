"""The plan of a push: its chunks in order, checked."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import FULL, check_datasource
from feedferry.schemas.lazy_sequence import LazySequence
from feedferry.transforms.formats import find_format
from feedferry.transforms.sinks.push.model import ERASING_FEEDTYPES, count_records
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol

_MAX_FAULTS = 20


class PlannedChunks(LazySequence[Chunk]):
    """The chunks of a push in their order; some have the feedtype of the groups mode.

    `feedtypes` has the feedtypes that differ, by the ordinal of the chunk.
    """

    def __init__(
        self, chunks: Sequence[Chunk], settings: PushSettings, feedtypes: Mapping[int, str]
    ) -> None:
        super().__init__(chunks, self._planned)
        self.settings = settings
        self._feedtypes = feedtypes

    @cached_property
    def digest(self) -> str:
        """A digest of the files, datasources and feedtypes, which identifies the run."""
        digest = hashlib.sha256(b"[")
        for index, chunk in enumerate(self):
            identity = chunk.sha256, chunk.datasource, chunk.feedtype
            digest.update(b"," * bool(index) + msgspec.json.encode(identity))
        digest.update(b"]")
        return digest.hexdigest()[:16]

    def _planned(self, chunk: Chunk) -> Chunk:
        feedtype = self._feedtypes.get(chunk.ordinal)
        return chunk if feedtype is None else replace(chunk, feedtype=feedtype)


def plan_chunks(chunks: Sequence[Chunk], settings: PushSettings) -> PlannedChunks:
    """Return the chunks in their order, with the feedtypes of the groups mode.

    Raises ConfigError, with a line for each fault, if the appliance cannot take a chunk, or if one
    would empty a datasource unasked.
    """
    if isinstance(chunks, PlannedChunks) and chunks.settings == settings:
        return chunks
    if not isinstance(chunks, LazySequence):  # a manifest is in order
        chunks = sorted(chunks, key=attrgetter("ordinal"))  # Beam may change the order
    mode = settings.groups_mode
    feedtypes = {} if mode is None else _groups_feedtypes(chunks, mode)
    planned = PlannedChunks(chunks, settings, feedtypes)
    faults = islice(_faults(planned, settings), _MAX_FAULTS)
    if text := "\n".join(faults):
        raise ConfigError(text)
    return planned


def _faults(planned: Iterable[Chunk], settings: PushSettings) -> Iterator[str]:
    """Yield a line for each reason why a chunk must not be sent."""
    for chunk in planned:
        try:
            check_chunk(chunk, settings.appliance)
        except ConfigError as exc:
            yield exc.text
        is_empty = chunk.feedtype in ERASING_FEEDTYPES and not count_records(chunk)
        if is_empty and not settings.allow_empty_full:
            yield (
                f"{chunk.path}: a full feed without records, which empties {chunk.datasource!r};"
                " expected records, or ⟦allow_empty_full⟧"
            )


def pushed_formats(protocol: ApplianceProtocol) -> list[str]:
    """Return the names of the formats that a kind of appliance takes."""
    return [name for endpoint in protocol.endpoints for name in endpoint.formats]


def check_chunk(chunk: Chunk, appliance: Appliance) -> None:
    """Raise ConfigError unless the appliance takes the format, the datasource and the feedtype."""
    endpoint = appliance.protocol.endpoint_of(chunk.format)
    if endpoint is None:
        expected = " or ".join(pushed_formats(appliance.protocol))
        raise ConfigError(f"{chunk.path}: {chunk.format}; expected {expected} for {appliance.url}")
    if not endpoint.source_field:
        return
    name, label = chunk.datasource, f"{chunk.path}: {endpoint.source_field}"
    if name is None:
        raise ConfigError(
            f"{chunk.path}: no {endpoint.source_field}; expected a name: give it by ⟦datasource⟧"
        )
    check_datasource(name, label=label)
    feedtype, own = chunk.feedtype, endpoint.feedtypes_of.get(name)
    feedtypes = own or endpoint.feedtypes
    if feedtype in feedtypes or (own and feedtype is None):
        return
    found = "no feedtype" if feedtype is None else f"feedtype={feedtype!r}"
    hint = f" for the datasource {name}" if own else ": give it by ⟦feedtype⟧"
    raise ConfigError(f"{chunk.path}: {found}; expected {' or '.join(feedtypes)}{hint}")


def check_several_full(inputs: Iterable[tuple[str, Sequence[Chunk]]]) -> None:
    """Raise ConfigError if several inputs, by their names, have a full feed of one datasource."""
    names: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for name, chunks in inputs:
        full = (chunk for chunk in chunks if chunk.feedtype in ERASING_FEEDTYPES)
        for key in {(chunk.format, chunk.datasource) for chunk in full}:
            names[key].append(name)
    for (_, datasource), several in names.items():
        if len(several) > 1:
            raise ConfigError(
                f"{', '.join(several)}: {len(several)} full feeds of {datasource!r}; expected one,"
                " because each deletes the one before it: push the newest alone, or give"
                " ⟦several_full each⟧ to send all, or ⟦several_full first⟧ for files of one feed"
            )


def _groups_feedtypes(chunks: Iterable[Chunk], mode: str) -> dict[int, str]:
    """Return the feedtype of the first groups feed of each groupsource, and of each full one.

    Raises ConfigError if there are no groups feeds.
    """
    seen: set[str | None] = set()
    feedtypes: dict[int, str] = {}
    for chunk in chunks:
        format = find_format(chunk.format)
        is_groups = format is not None and format.holds_only_memberships
        if is_groups and (chunk.feedtype == FULL or chunk.datasource not in seen):
            seen.add(chunk.datasource)
            feedtypes[chunk.ordinal] = mode
    if not seen:
        raise ConfigError(f"⟦groups_mode⟧ {mode}: no groups feed is pushed; expected one")
    return feedtypes
