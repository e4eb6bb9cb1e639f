"""Write a feed of differences: archives of its records, which are then converted.

The contents are read again from the second input, in its order: they are neither in memory nor
stored with the comparison.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from feedferry.schemas.feed import FULL, INCREMENTAL, METADATA_AND_URL
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Action, Arrival, Provenance, Record
from feedferry.transforms.compare.comparison import Comparer, Difference, is_acl_update
from feedferry.transforms.compare.differences import ACL
from feedferry.transforms.compare.history import stated, with_contents
from feedferry.transforms.formats import AVRO, ReadResult, WriteOptions, write_all

Feedtype = Callable[[RecordOrMembership], str]
"""Returns the feedtype of the feed that a record is to be in."""


def write_archives(
    comparer: Comparer,
    results: Iterable[ReadResult],
    folder: Path,
    *,
    feedtype: Feedtype,
) -> list[Path]:
    """Write the records that make the second input of the first; return their archives.

    `results` are those of the second input. Raises SourceError if the input has changed.
    """
    paths = []
    for kind, items in (
        (Record, _records(comparer, results)),
        (Membership, _groups(comparer)),
    ):
        path = folder / f"{kind.__name__.lower()}s.{AVRO.name}"
        placed = _placed(items, path.name, feedtype)
        first = next(placed, None)
        if first is not None:
            with path.open("wb") as stream:
                encoder = AVRO.make_encoder(WriteOptions(memberships=kind is Membership))
                write_all(encoder, chain((first,), placed), stream)
            paths.append(path)
    return paths


def _placed(
    items: Iterable[RecordOrMembership], source: str, feedtype: Feedtype
) -> Iterator[RecordOrMembership]:
    """Yield items with the feed that each is to be in as their provenance."""
    for item in items:
        datasource = item.provenance.datasource
        at = Provenance(source=source, datasource=datasource, feedtype=feedtype(item))
        yield replace(item, provenance=at)


def incremental(item: RecordOrMembership) -> str:
    """Return the feedtype of a feed that leaves all other documents as they are."""
    is_crawled = isinstance(item, Record) and item.arrival is Arrival.CRAWLED
    return METADATA_AND_URL if is_crawled else INCREMENTAL


def full_where_known(comparer: Comparer) -> Feedtype:
    """Return `full` for contents of a datasource of which the second input has a full feed."""

    def feedtype(item: RecordOrMembership) -> str:
        is_group = isinstance(item, Membership)
        is_known = comparer.has_full_feed(item.provenance.datasource, memberships=is_group)
        is_whole = isinstance(item, Membership) or _is_of_full_feed(item)
        return FULL if is_known and is_whole else incremental(item)

    return feedtype


def _is_of_full_feed(record: Record) -> bool:
    """Whether a full feed may state a record: a document with content, or an ACL alone."""
    return _is_acl_alone(record) or record.content is not None or record.body is not None


def _is_acl_alone(record: Record) -> bool:
    return record.acl is not None and record.acl.alone


def _groups(comparer: Comparer) -> Iterator[Membership]:
    """Yield the groups that differ; one that was removed, without members."""
    for difference in comparer.without_contents():
        held = difference.after or difference.before
        group = held.membership if held else None
        if group is not None:
            is_gone = difference.after is None or difference.after.is_deleted
            yield replace(group, members=()) if is_gone else group


def _records(comparer: Comparer, results: Iterable[ReadResult]) -> Iterator[Record]:
    """Yield deletions by URL, documents with contents in their order, ACLs and others by URL.

    A feed that replaces all documents comes before the records that change some.
    """
    yield from filter(None, map(_deletion, comparer.to_delete()))
    changed = (row.after for row in comparer.with_contents() if row.after is not None)
    yield from with_contents(changed, results)
    for is_acl in (True, False):
        for record in filter(None, map(_without_content, comparer.without_contents())):
            if _is_acl_alone(record) is is_acl:
                yield record


def _deletion(difference: Difference) -> Record | None:
    held = difference.before
    if held is None or held.record is None:
        return None
    acl = held.record.acl if held.is_acl else None
    at = held.record.provenance
    return Record(url=held.record.url, action=Action.DELETE, acl=acl, provenance=at)


def _without_content(difference: Difference) -> Record | None:
    held = difference.after
    if held is None or held.record is None or held.is_deleted:
        return None
    record, before = stated(held), difference.before
    if held.datasource is None and before is not None and before.datasource is not None:
        at = replace(record.provenance, datasource=before.datasource)
        record = replace(record, provenance=at)
    is_acl = is_acl_update(held) and {change.field for change in difference.fields} == {ACL}
    if is_acl and record.acl is not None:
        return replace(record, acl=replace(record.acl, alone=True))
    return record if held.number is None else replace(record, action=Action.UPDATE)
