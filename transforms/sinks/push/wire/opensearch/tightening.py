"""The requests of a run before its chunks, by which it takes permissions away before it gives any.

A run is compared with the indexes of its datasources. Where it permits less than the index does,
the index first gets a decision that permits only users whom both permit. All datasources of a run
are narrowed, and refreshed, before its first chunk is sent. So a run that ends in the middle has
widened nothing before all that it takes away is gone.

Of several records for one document, the last one counts. The records before it are sent so that
no user finds the document: what they permit is no longer the state of the source.

A full feed goes to an index of its own, so that it is compared only. The comparison is a step: it
is done once, with the index as it was before the run.
"""

import shutil
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import StoppedError, TargetError
from feedferry.schemas.receipt import NARROW
from feedferry.schemas.units import counted
from feedferry.transforms.access.index_fields import (
    AccessFields,
    field_names,
    withheld_fields,
)
from feedferry.transforms.access.meet import (
    HIDDEN_KEY,
    AclChange,
    access_key,
    change_of,
    fields_of_key,
    gained_and_lost,
    narrowed,
)
from feedferry.transforms.formats.opensearch.bulk_writer import acl_lines
from feedferry.transforms.rules.acl_changes import (
    ACL_CHANGES,
    COMPARE,
    HEAD,
    LISTED,
    AccessComparison,
    ListedChange,
    change_line,
    counts_text,
    read_counts,
)
from feedferry.transforms.sinks.push.model import count_records
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.bulk_request import (
    bulk_path,
    numbered,
    version_before,
)
from feedferry.transforms.sinks.push.wire.opensearch.decision_lines import (
    DELETION,
    DOCUMENT,
    UPDATE,
    decisions_of,
    read_decision,
    stored_decision,
)
from feedferry.transforms.sinks.push.wire.opensearch.indexes import (
    RunIndexes,
    by_datasource,
    is_full,
    own_indexes,
    records_before,
)
from feedferry.transforms.sinks.push.wire.opensearch.json_request import json_body
from feedferry.transforms.sinks.push.wire.opensearch.mapping import alias_suffix
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    DecisionReply,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import failure
from feedferry.transforms.sinks.push.wire.protocol import ComparedRun, RunSession
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from feedferry.transforms.storage.atomic import whole_file
from feedferry.transforms.storage.files.spill import Spill
from feedferry.transforms.storage.run_folders.mirrors import (
    open_file,
    remove,
    shown,
    store,
)

NARROWED, SUPERSEDED = "narrowed", "superseded"
"""The documents that are narrowed, and the superseded records, in the reply to the comparison."""

NARROWING = "acl-narrowing.ndjson"
"""The file of a push with the decisions that are sent before its chunks."""

SUPERSEDED_RECORDS = "superseded.bin"
"""The file of a push with the numbers of superseded records, of 8 bytes each."""

_NUMBER_BYTES = 8
_Versions = list[tuple[int, bytes]]
"""Records of one document: the number of each in the run, and its decision."""

_CACHED = 8192
_WITHHELD_KEY = access_key(withheld_fields())
_SPILL = ".acl-compare"
_PAGE_DOCUMENTS = 1000
_REQUEST_BYTES = 4 << 20
_FILTER = "filter_path=hits.hits._id,hits.hits.fields,_shards.failed,timed_out"
_EXPECTED = "the decisions of documents"
_MISSING = 404


class _Difference(NamedTuple):
    """The change of a document, by whom it is gained and lost, and the decision to send first."""

    change: AclChange
    gained: Sequence[str] = ()
    lost: Sequence[str] = ()
    first: AccessFields | None = None


class _FirstDecision(msgspec.Struct, frozen=True, array_like=True):
    """A decision that is sent before the chunks."""

    datasource: str
    id: str
    fields: AccessFields


_encode = msgspec.json.encode
_decode_first = msgspec.json.Decoder(_FirstDecision).decode


def tighten(session: RunSession, indexes: RunIndexes) -> Sequence[int]:
    """Compare a run with its indexes, and narrow what it narrows; raise StoppedError at a limit.

    Return the numbers of the records that are superseded within the run, in ascending order.
    """
    path = session.folder / NARROWING
    counts = read_counts(session.step(COMPARE, partial(_compare, session, indexes, path)))
    if count := counts.get(NARROWED):
        session.step(NARROW, partial(_narrow, session, indexes, path, count))
    _discard(path)
    return _read_superseded(session.folder / SUPERSEDED_RECORDS, counts.get(SUPERSEDED, 0))


def forget(session: RunSession) -> None:
    """Remove what only the chunks of a run have needed."""
    if session.chunks:
        _discard(session.folder / SUPERSEDED_RECORDS)


def _compare(session: RunSession, indexes: RunIndexes, path: Path) -> str:
    """Write the decisions that are sent first, and the list of changes; return the counts."""
    changes = session.folder / ACL_CHANGES
    comparison = _compared_run(session, indexes.before, path)
    superseded = session.folder / SUPERSEDED_RECORDS
    with whole_file(superseded) as stream:
        stream.write(array("q", sorted(comparison.superseded)).tobytes())
    for file in (path, superseded):
        store(file)  # another worker may continue the push
    own = {NARROWED: comparison.narrowed, SUPERSEDED: len(comparison.superseded)}
    others = [f"{name} {count}" for name, count in own.items() if count]
    if not comparison.documents:
        changes.unlink()
        return ", ".join(["no documents to compare", *others])
    store(changes)
    if (fault := comparison.fault) is not None:
        raise StoppedError(
            f"{fault}; nothing was sent: check {shown(changes)}, then raise the limit to continue,"
            " or correct the source and begin a new run with ⟦fresh⟧"
        )
    counts = counts_text(comparison.counts)
    return ", ".join(filter(None, [counts, *others])) or "no documents to compare"


def compare_access(run: ComparedRun) -> AccessComparison:
    """Compare a run that has not begun with its indexes; list the changes in its folder."""
    path = run.folder / NARROWING
    comparison = _compared_run(run, records_before(run.chunks), path, is_planned=True)
    path.unlink()
    return AccessComparison(changes=comparison.counts, stop=comparison.fault)


def _compared_run(
    run: ComparedRun, before: Mapping[int, int], path: Path, *, is_planned: bool = False
) -> "_IndexComparison":
    """Compare a run with its indexes; write the decisions that are sent first, and the changes."""
    with whole_file(path) as first, whole_file(run.folder / ACL_CHANGES) as listed:
        listed.write(HEAD)
        comparison = _IndexComparison(
            run=run, before=before, first=first, listed=listed, is_planned=is_planned
        )
        for datasource, chunks in by_datasource(run.chunks).items():
            comparison.compare(datasource, chunks)
    return comparison


def _read_superseded(path: Path, count: int) -> Sequence[int]:
    numbers = array("q")
    if count:
        with _opened(path) as stream:
            numbers.frombytes(stream.read())
    if len(numbers) != count:
        raise _lost(path, len(numbers), count)
    return numbers


def _lost(path: Path, found: int, expected: int) -> TargetError:
    """Return the error for a file that a crash of the machine has lost."""
    return TargetError(
        f"{path}: {counted(found, 'record')}; expected {expected:,}: begin a new run with ⟦fresh⟧"
    )


def _opened(path: Path) -> IO[bytes]:
    """Open a file, here or in the storage of the run; one that is lost is empty."""
    try:
        return open_file(path)
    except FileNotFoundError:
        return BytesIO()


def _discard(path: Path) -> None:
    path.unlink(missing_ok=True)
    remove(path)  # in the storage of the run


@dataclass(kw_only=True, eq=False)
class _IndexComparison:
    """Compares datasources with their indexes, which have the number of `documents`.

    `before` counts the records of earlier chunks by the ordinal of a chunk. `superseded` are the
    numbers of records that a later record of the run replaces. Of a run that `is_planned`, the
    indexes are not refreshed.
    """

    run: ComparedRun
    before: Mapping[int, int]
    first: IO[bytes]
    listed: IO[bytes]
    is_planned: bool = False

    def __post_init__(self) -> None:
        self.counts = Counter[AclChange]()
        self.documents = self.narrowed = 0
        self.superseded = array("q")

    def compare(self, datasource: str, chunks: Sequence[Chunk]) -> None:
        """Compare the chunks of a datasource.

        If its index has no documents, and the chunks are of one feed, there is nothing to compare.
        """
        alias = alias_suffix(datasource)
        documents, loads = self._count(alias), is_full(chunks[0])
        origins = {chunk.origin for chunk in chunks}
        if not documents and (loads or len(origins) == 1):
            return
        if loads and any(index.fault for index in own_indexes(self.run, datasource).values()):
            return  # the feed replaces it
        self.documents += documents
        compared, records = 0, sum(map(count_records, chunks))
        self.run.show(f"compare {counted(records, 'record')}")
        with _own_folder(self.run.folder / _SPILL) as folder:
            by_id = self._versions(chunks, folder)
            while page := dict(islice(by_id, _PAGE_DOCUMENTS)):
                decisions = _held(self.run, alias, [*page]) if documents else {}
                documents -= len(decisions)
                for id, versions in page.items():
                    self._add((datasource, id), decisions.get(id), versions, loads=loads)
                compared += sum(map(len, page.values()))
                self.run.show(f"compare {compared:,} of {counted(records, 'record')}")
        if loads:
            self.counts[AclChange.GONE] += documents

    @property
    def fault(self) -> str | None:
        """Why the run would stop, or None: it shows too many documents to more users."""
        limit = self.run.max_widened
        widened = self.counts[AclChange.WIDER] + self.counts[AclChange.BOTH]
        if limit is None or limit.allows(widened, of=self.documents):
            return None
        return (
            f"{self.run.appliance.url}: {widened:,} of {counted(self.documents, 'document')} would"
            f" be seen by more users; expected at most {limit}, the limit of ⟦max_widened⟧"
        )

    def _count(self, alias: str) -> int:
        """Return the number of documents of a datasource; 0 without an index."""
        if not self.is_planned:
            refreshed = self.run.request(f"{alias}/_refresh", method="POST")
            if refreshed.status == _MISSING:
                return 0
            if not refreshed.is_success:
                raise failure(refreshed, _EXPECTED)
        response = self.run.request(f"{alias}/_count")
        if response.status == _MISSING:
            return 0
        return read_reply(response, CountReply, _EXPECTED).count

    def _versions(self, chunks: Sequence[Chunk], folder: Path) -> Iterator[tuple[str, _Versions]]:
        """Yield each document with the records of it; memory does not depend on their number."""
        spill = Spill(folder)
        for chunk in chunks:
            with self.run.open(chunk) as stream:
                numbered_decisions = enumerate(decisions_of(stream), self.before[chunk.ordinal])
                spill.add(
                    0,
                    (
                        (key, number.to_bytes(_NUMBER_BYTES, "big") + decision)
                        for number, (key, decision) in numbered_decisions
                    ),
                )
        for key, (rows,) in spill.keys(1):
            versions = [
                (int.from_bytes(row[:_NUMBER_BYTES], "big"), row[_NUMBER_BYTES:]) for row in rows
            ]
            yield key.decode("utf-8", "surrogatepass"), versions

    def _add(
        self, document: tuple[str, str], held: bytes | None, versions: _Versions, *, loads: bool
    ) -> None:
        """Count the change of a document, list it, and write the decision that precedes it."""
        last = versions[0][1][1:] if len(versions) == 1 else b""
        if held is not None and held == last:
            self.counts[AclChange.SAME] += 1
            return
        change = _compared(held, _last(held, versions))
        if held is not None or change.change is not AclChange.SAME:  # not an ACL without a document
            self.counts[change.change] += 1
        datasource, id = document
        if change.change in LISTED:
            line = ListedChange(
                url=id,
                datasource=datasource,
                change=change.change.value,
                gained=change.gained,
                lost=change.lost,
            )
            self.listed.write(change_line(line))
        if loads:
            return
        self.superseded.extend(number for number, stored in versions[:-1] if not _withholds(stored))
        if change.first is not None:
            self.narrowed += 1
            self.first.write(_encode(_FirstDecision(datasource, id, change.first)) + b"\n")


@contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """Make a folder, which is removed after the block; a push that was killed may have left it."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _last(held: bytes | None, versions: _Versions) -> bytes | None:
    """Return the decision of a document after all records of it; None without a document.

    An ACL alone does not change a document that is withheld.
    """
    decision = held
    for _, stored in versions:
        kind = stored[:1]
        if kind == DELETION:
            decision = None
        elif kind == DOCUMENT or (decision is not None and not _is_withheld(decision)):
            decision = stored[1:]
    return decision


def _withholds(stored: bytes) -> bool:
    """Whether a record withholds a document; without its decision, later ACLs would show it."""
    return stored[:1] == UPDATE and _is_withheld(stored[1:])


@lru_cache(maxsize=_CACHED)
def _is_withheld(stored: bytes) -> bool:
    return read_decision(stored) == _WITHHELD_KEY


@lru_cache(maxsize=_CACHED)
def _compared(held: bytes | None, last: bytes | None) -> _Difference:
    """Return the difference between two decisions; None where there is no document."""
    before, after = (None if stored is None else read_decision(stored) for stored in (held, last))
    change = change_of(before, after)
    if before is None:
        return _Difference(change)
    first = narrowed(before, HIDDEN_KEY if after is None else after)
    gained, lost = ([], []) if after is None else gained_and_lost(before, after)
    return _Difference(change, gained, lost, None if first is None else fields_of_key(first))


def _held(run: ComparedRun, alias: str, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the decisions of the documents that an index has."""
    query = {
        "query": {"ids": {"values": ids}},
        "size": len(ids),
        "_source": False,
        "docvalue_fields": field_names(),
        "track_total_hits": False,
    }
    response = run.request(f"{alias}/_search?{_FILTER}", json_body(query), method="POST")
    if len(response.body) >= MAX_RESPONSE_BYTES and len(ids) > 1:
        middle = len(ids) // 2
        halves = ids[:middle], ids[middle:]
        return {id: key for half in halves for id, key in _held(run, alias, half).items()}
    hits = read_reply(response, DecisionReply, _EXPECTED).hits.hits
    return {hit.id: stored_decision(hit.fields) for hit in hits}


def _narrow(session: RunSession, indexes: RunIndexes, path: Path, expected: int) -> str:
    """Send the decisions that precede the chunks, and make them visible to searches."""
    count = 0
    datasources: dict[str, None] = {}
    for datasource, bodies in _requests(path, version_before(indexes)):
        data = b"".join(bodies)
        body = RequestBody(content_type="application/x-ndjson", length=len(data), before=data)
        session.send(bulk_path(datasource, indexes), body)
        datasources[datasource] = None
        count += len(bodies)
        session.show(f"narrow {count:,} of {counted(expected, 'document')}")
    if count != expected:
        raise _lost(path, count, expected)
    for datasource in datasources:
        session.send(f"{alias_suffix(datasource)}/_refresh", None)
    return counted(count, "document")


def _requests(path: Path, version: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yield datasources, each with the actions of a request."""
    datasource, size = "", 0
    actions: list[bytes] = []
    with _opened(path) as lines:
        for line in lines:
            first = _decode_first(line)
            is_full_request = len(actions) == _PAGE_DOCUMENTS or size > _REQUEST_BYTES
            if actions and (is_full_request or first.datasource != datasource):
                yield datasource, actions
                actions, size = [], 0
            datasource = first.datasource
            action = b"".join(numbered([acl_lines(first.id, first.fields)], version))
            actions.append(action)
            size += len(action)
    if actions:
        yield datasource, actions
