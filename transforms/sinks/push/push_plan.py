"""The plan of a push: its chunks in order, checked; and updates of search indexes.

**Spec:** Thunderstone dataload API: "UI - Update search indexes (call after a batch of
inserts/deletes)".
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.delivery import Door
from schemas.errors import ConfigError
from schemas.feed import FULL, INCREMENTAL, METADATA_AND_URL, check_datasource
from schemas.record import Action, Record
from transforms.chunk import write_chunk
from transforms.formats import FORMATS, THUNDERSTONE, Format, WriteOptions, find_format
from transforms.sinks.push.model import ERASING_FEEDTYPES, count_records
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.wire.address import APPLIANCES
from transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol, RequestForm
from transforms.storage.storage import Storage

UPDATE_FILE = "update-index.xml"
"""The request that updates search indexes, if no feed file makes one."""

_WEB_FEEDTYPES = (METADATA_AND_URL, INCREMENTAL)
_DEFAULT_OPTIONS = WriteOptions()


def plan_chunks(chunks: Sequence[Chunk], settings: PushSettings) -> list[Chunk]:
    """Return the chunks in their order, with the feedtypes of the groups mode.

    Raises ConfigError, with a line for each fault, if the appliance cannot take a chunk, or if one
    would empty a datasource unasked.
    """
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)  # Beam may change the order
    if settings.groups_mode is not None:
        ordered = _with_groups_mode(ordered, settings.groups_mode)
    faults: list[str] = []
    for chunk in ordered:
        try:
            check_chunk(chunk, settings.appliance)
        except ConfigError as exc:
            faults.append(exc.text)
        is_empty = chunk.feedtype in ERASING_FEEDTYPES and not count_records(chunk)
        if is_empty and not settings.allow_empty_full:
            faults.append(
                f"{chunk.path}: a full feed without records, which empties {chunk.datasource!r};"
                " expected records, or ⟦allow_empty_full⟧"
            )
    if faults:
        raise ConfigError("\n".join(faults[:20]))
    return ordered


def pushed_formats(protocol: ApplianceProtocol | None = None) -> list[Format]:
    """Return the formats that appliances take, or that one kind of appliance takes."""
    doors = {door for each in ((protocol,) if protocol else APPLIANCES) for door in each.forms}
    return [format for format in FORMATS if format.door in doors]


def request_form(format: Format) -> RequestForm | None:
    """Return the form in which appliances take a format, None if none does."""
    forms = (each.forms.get(format.door) for each in APPLIANCES if format.door is not None)
    return next(filter(None, forms), None)


def check_chunk(chunk: Chunk, appliance: Appliance) -> None:
    """Raise ConfigError unless the appliance takes the format, the datasource and the feedtype.

    A chunk without a format is a feed.
    """
    formats = pushed_formats(appliance.protocol)
    taken = (format for format in formats if chunk.format in (None, format.name))
    door = next((format.door for format in taken), None)
    if door is None:
        expected = " or ".join(format.name for format in formats)
        raise ConfigError(f"{chunk.path}: {chunk.format}; expected {expected} for {appliance.url}")
    form = appliance.protocol.forms[door]
    if not form.source_field:
        return
    name, label = chunk.datasource, f"{chunk.path}: {form.source_field}"
    if name is None:
        raise ConfigError(
            f"{chunk.path}: no {form.source_field}; expected a name: give it by ⟦datasource⟧"
        )
    check_datasource(name, label=label)
    feedtype, is_web = chunk.feedtype, name == "web" and door is Door.FEED
    feedtypes = _WEB_FEEDTYPES if is_web else form.feedtypes
    if feedtype in feedtypes or (is_web and feedtype is None):
        return
    found = "no feedtype" if feedtype is None else f"feedtype={feedtype!r}"
    for_web = " for the datasource web" if is_web else ": give it by ⟦feedtype⟧"
    raise ConfigError(f"{chunk.path}: {found}; expected {' or '.join(feedtypes)}{for_web}")


def check_several_full(inputs: Iterable[tuple[str, Sequence[Chunk]]]) -> None:
    """Raise ConfigError if several inputs, by their names, have a full feed of one datasource."""
    names: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for name, chunks in inputs:
        full = [chunk for chunk in chunks if chunk.feedtype in ERASING_FEEDTYPES]
        for key in {(chunk.format, chunk.datasource) for chunk in full}:
            names[key].append(name)
    for (_, datasource), several in names.items():
        if len(several) > 1:
            raise ConfigError(
                f"{', '.join(several)}: {len(several)} full feeds of {datasource!r}; expected one,"
                " because each deletes the one before it: push the newest alone, or give"
                " ⟦several_full each⟧ to send all, or ⟦several_full first⟧ for files of one feed"
            )


def is_update(chunk: Chunk) -> bool:
    """Whether a chunk only requests an update of the search indexes."""
    return set(chunk.records) == {Action.UPDATE_INDEX.value}


def is_added_update(chunk: Chunk) -> bool:
    """Whether feedferry added the request. It comes from no source and is no record."""
    return is_update(chunk) and not chunk.source


def write_update(storage: Storage, name: str, *, options: WriteOptions = _DEFAULT_OPTIONS) -> Chunk:
    """Write a request for an update; return its chunk, without an ordinal."""
    encoder = THUNDERSTONE.make_encoder(options)
    update = encoder.encode(Record(url="", action=Action.UPDATE_INDEX))
    text = encoder.prolog() + encoder.frame([update]) + encoder.epilog()
    chunk = write_chunk(storage, name, text)
    return replace(chunk, records={Action.UPDATE_INDEX.value: 1}, format=THUNDERSTONE.name)


def _with_groups_mode(ordered: Sequence[Chunk], mode: str) -> list[Chunk]:
    """Change the feedtype of the first groups feed of each groupsource, and of each full one.

    Raises ConfigError if there are no groups feeds.
    """
    seen: set[str | None] = set()
    changed = []
    for chunk in ordered:
        format = find_format(chunk.format)
        is_groups = format is not None and format.door is Door.GROUPS
        if is_groups and (chunk.feedtype == FULL or chunk.datasource not in seen):
            seen.add(chunk.datasource)
            changed.append(replace(chunk, feedtype=mode))
        else:
            changed.append(chunk)
    if not seen:
        raise ConfigError(f"⟦groups_mode⟧ {mode}: no groups feed is pushed; expected one")
    return changed
