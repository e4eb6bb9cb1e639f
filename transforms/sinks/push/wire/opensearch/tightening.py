"""What a run does before its chunks, so that it takes permissions away before it gives any.

A run is compared with the indexes of its datasources. Where it permits less than the index does,
the index first gets a decision that permits only users whom both permit. All datasources of a run
are narrowed, and refreshed, before its first chunk is sent. So a run that ends in the middle has
widened nothing before all that it takes away is gone.

A full feed goes to an index of its own, so that it is compared only. The comparison is a step: it
is done once, with the index as it was before the run.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import StoppedError, TargetError
from feedferry.schemas.units import counted
from feedferry.transforms.access.index_fields import AccessFields, field_names
from feedferry.transforms.access.meet import (
    HIDDEN_KEY,
    AccessKey,
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
    ListedChange,
    change_line,
    counts_text,
    read_counts,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.bulk_request import (
    bulk_path,
    numbered,
    version_before,
)
from feedferry.transforms.sinks.push.wire.opensearch.decision_lines import (
    DELETION,
    decisions_of,
    is_update,
    read_decision,
)
from feedferry.transforms.sinks.push.wire.opensearch.indexes import (
    RunIndexes,
    by_datasource,
    is_full,
    own_indexes,
)
from feedferry.transforms.sinks.push.wire.opensearch.json_request import json_body
from feedferry.transforms.sinks.push.wire.opensearch.mapping import alias_suffix
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    DecisionReply,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import failure
from feedferry.transforms.sinks.push.wire.protocol import RunSession
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from feedferry.transforms.storage.atomic import whole_file
from feedferry.transforms.storage.files.spill import Spill
from feedferry.transforms.storage.run_folders.mirrors import shown, store

NARROW = "narrow who sees documents"
NARROWED = "narrowed"
"""The documents that are narrowed, in the reply to the comparison."""

NARROWING = "acl-narrowing.ndjson"
"""The file of a push with the decisions that are sent before its chunks."""

_SPILL = ".acl-compare"
_PAGE_DOCUMENTS = 1000
_REQUEST_BYTES = 4 << 20
_FILTER = "filter_path=hits.hits._id,hits.hits.fields,_shards.failed,timed_out"
_EXPECTED = "the decisions of documents"
_MISSING = 404


class _FirstDecision(msgspec.Struct, frozen=True, array_like=True):
    """A decision that is sent before the chunks."""

    datasource: str
    id: str
    fields: AccessFields


_encode = msgspec.json.encode
_decode_first = msgspec.json.Decoder(_FirstDecision).decode


def tighten(session: RunSession, indexes: RunIndexes) -> None:
    """Compare a run with its indexes, and narrow what it narrows; raise StoppedError at a limit."""
    path = session.folder / NARROWING
    reply = session.step(COMPARE, partial(_compare, session, path))
    if count := read_counts(reply).get(NARROWED):
        session.step(NARROW, partial(_narrow, session, indexes, path, count))
    path.unlink(missing_ok=True)


def _compare(session: RunSession, path: Path) -> str:
    """Write the decisions that are sent first, and the list of changes; return the counts."""
    changes = session.folder / ACL_CHANGES
    with whole_file(path) as first, whole_file(changes) as listed:
        listed.write(HEAD)
        comparison = _Comparison(session=session, first=first, listed=listed)
        for datasource, chunks in by_datasource(session.chunks).items():
            comparison.compare(datasource, chunks)
    if not comparison.documents:
        changes.unlink()
        return "no documents to compare"
    store(changes)
    counts, limit = comparison.counts, session.max_widened
    widened = counts[AclChange.WIDER] + counts[AclChange.BOTH]
    if limit is not None and not limit.allows(widened, of=comparison.documents):
        raise StoppedError(
            f"{session.appliance.url}: {widened:,} of {counted(comparison.documents, 'document')}"
            f" would be seen by more users; expected at most {limit}, the limit of ⟦max_widened⟧;"
            f" nothing was sent: check {shown(changes)}, then raise the limit to continue"
        )
    text = counts_text(counts)
    return f"{text}, {NARROWED} {comparison.narrowed}" if comparison.narrowed else text


@dataclass(kw_only=True, eq=False)
class _Comparison:
    """Compares datasources with their indexes, which have the number of `documents`."""

    session: RunSession
    first: IO[bytes]
    listed: IO[bytes]

    def __post_init__(self) -> None:
        self.counts = Counter[AclChange]()
        self.documents = self.narrowed = 0

    def compare(self, datasource: str, chunks: Sequence[Chunk]) -> None:
        """Compare the chunks of a datasource, unless its index has no documents."""
        alias = alias_suffix(datasource)
        documents = _count(self.session, alias)
        if not documents:
            return
        loads = is_full(chunks[0])
        if loads and any(index.fault for index in own_indexes(self.session, datasource).values()):
            return  # the feed replaces it
        self.documents += documents
        with _own_folder(self.session.folder / _SPILL) as folder:
            spill = Spill(folder)
            for chunk in chunks:
                with self.session.open(chunk) as stream:
                    spill.add(0, decisions_of(stream))
            by_id = ((key.decode("utf-8", "surrogatepass"), sent) for key, (sent,) in spill.keys(1))
            while page := dict(islice(by_id, _PAGE_DOCUMENTS)):
                decisions = _held(self.session, alias, [*page])
                documents -= len(decisions)
                for id, stored in page.items():
                    held = decisions.get(id)
                    sent = [*_sent(stored, is_held=held is not None)]
                    self._list(datasource, id, held, sent[-1] if sent else held)
                    if held is not None and not loads:
                        self._send_first(datasource, id, held, sent)
        if loads:
            self.counts[AclChange.GONE] += documents

    def _list(
        self, datasource: str, id: str, held: AccessKey | None, last: AccessKey | None
    ) -> None:
        """Count the change of a document, and list it if the index has it before and after."""
        change = change_of(held, last)
        self.counts[change] += 1
        if change in LISTED and held is not None and last is not None:
            gained, lost = gained_and_lost(held, last)
            line = ListedChange(
                url=id, datasource=datasource, change=change.value, gained=gained, lost=lost
            )
            self.listed.write(change_line(line))

    def _send_first(
        self, datasource: str, id: str, held: AccessKey, sent: Sequence[AccessKey | None]
    ) -> None:
        """Write the decision of a document that precedes its versions, if it needs one."""
        first = narrowed(held, tuple(HIDDEN_KEY if key is None else key for key in sent))
        if first is not None and first != held:
            self.narrowed += 1
            decision = _FirstDecision(datasource, id, fields_of_key(first))
            self.first.write(_encode(decision) + b"\n")


@contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """Make a folder, which is removed after the block; a push that was killed may have left it."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _sent(stored: Sequence[bytes], *, is_held: bool) -> Iterator[AccessKey | None]:
    """Yield the decisions of the versions of a document; None for a deletion.

    An update changes no document that is not there.
    """
    is_there = is_held
    for decision in stored:
        if decision == DELETION:
            is_there = False
            yield None
        elif is_there or not is_update(decision):
            is_there = True
            yield read_decision(decision)


def _count(session: RunSession, alias: str) -> int:
    """Return the number of documents of a datasource; 0 without an index."""
    refreshed = session.request(f"{alias}/_refresh", method="POST")
    if refreshed.status == _MISSING:
        return 0
    if not refreshed.is_success:
        raise failure(refreshed, _EXPECTED)
    return read_reply(session.request(f"{alias}/_count"), CountReply, _EXPECTED).count


def _held(session: RunSession, alias: str, ids: Sequence[str]) -> dict[str, AccessKey]:
    """Return the decisions of the documents that an index has."""
    query = {
        "query": {"ids": {"values": ids}},
        "size": len(ids),
        "_source": False,
        "docvalue_fields": field_names(),
        "track_total_hits": False,
    }
    response = session.request(f"{alias}/_search?{_FILTER}", json_body(query), method="POST")
    if len(response.body) >= MAX_RESPONSE_BYTES and len(ids) > 1:
        middle = len(ids) // 2
        halves = ids[:middle], ids[middle:]
        return {id: key for half in halves for id, key in _held(session, alias, half).items()}
    hits = read_reply(response, DecisionReply, _EXPECTED).hits.hits
    return {hit.id: access_key(hit.fields) for hit in hits}


def _narrow(session: RunSession, indexes: RunIndexes, path: Path, expected: int) -> str:
    """Send the decisions that precede the chunks, and make them visible to searches.

    Raise TargetError for a file that a crash of the machine, or another machine, has lost.
    """
    count = 0
    datasources: dict[str, None] = {}
    for datasource, bodies in _requests(path, version_before(indexes)):
        data = b"".join(bodies)
        body = RequestBody(content_type="application/x-ndjson", length=len(data), before=data)
        session.send(bulk_path(datasource, indexes), body)
        datasources[datasource] = None
        count += len(bodies)
    if count != expected:
        raise TargetError(
            f"{path}: {counted(count, 'decision')} to send first; expected {expected:,}: begin a"
            " new run with ⟦fresh⟧"
        )
    for datasource in datasources:
        session.send(f"{alias_suffix(datasource)}/_refresh", None)
    return counted(count, "document")


def _requests(path: Path, version: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yield datasources, each with the actions of a request."""
    datasource, size = "", 0
    actions: list[bytes] = []
    path.touch()  # without it, none is sent
    with path.open("rb") as lines:
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
