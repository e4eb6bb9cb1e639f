"""The documents of an index, page by page, for a comparison; and lines of a check."""

from collections.abc import Collection, Iterator, Mapping, Set
from hashlib import sha256
from operator import itemgetter
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl, AclLayer
from feedferry.schemas.check import CheckLine, fail, fail_of, ok, warn
from feedferry.schemas.errors import RecordError, TargetError
from feedferry.schemas.record import Arrival, Content, Crawl, Provenance, Record
from feedferry.transforms.access.decision import PARTS, decision_of
from feedferry.transforms.access.index_fields import acl_of_fields, field_names, fields_of
from feedferry.transforms.formats.opensearch.bulk_reader import document_of
from feedferry.transforms.formats.opensearch.bulk_writer import id_of
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.json_request import json_body
from feedferry.transforms.sinks.push.wire.opensearch.mapping import alias_suffix, held_mappings
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    HeldAliases,
    Hit,
    SearchReply,
    SortValue,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import (
    check_index,
    failure,
    fix_of,
    words_of,
)
from feedferry.transforms.sinks.push.wire.opensearch.script_trial import (
    FIX,
    fault_of_scripts,
    try_script,
)
from feedferry.transforms.sinks.push.wire.protocol import ApplianceReader, ListedDocument
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES

LISTED_FIELDS = frozenset(
    {
        *("acl", "categories", "content", "datasource", "description", "display_url", "field"),
        *("keywords", "metadata", "mimetype", "modified", "title"),
    }
)
_UNKNOWN_USER = 401
_PAGE_DOCUMENTS = 1000
_HIGH_PERCENT, _FULL_PERCENT = 85, 95
"""The watermarks `low` and `flood_stage`, unless the cluster has others."""

_PARTS = range(1, PARTS + 1)
_FILTER = "filter_path=hits.hits._source,hits.hits.sort,hits.hits._id,_shards.failed,timed_out"
_ORDER = [
    {"version": {"order": "asc", "missing": "_first"}},
    {"url": "asc"},
    {"datasource": "asc"},
]
"""The versions of a run differ; documents that others have written may have none."""

_EXPECTED = "a list of documents"
_STATISTICS = "/_stats/docs?filter_path=_all.primaries.docs.count"


class _DocumentCount(msgspec.Struct):
    count: int = 0


class _ShardStatistics(msgspec.Struct):
    docs: _DocumentCount = msgspec.field(default_factory=_DocumentCount)


class _IndexStatistics(msgspec.Struct):
    primaries: _ShardStatistics = msgspec.field(default_factory=_ShardStatistics)


class _Statistics(msgspec.Struct):
    """The number of documents of indexes, of which document-level security hides none."""

    total: _IndexStatistics = msgspec.field(name="_all", default_factory=_IndexStatistics)


def list_documents(reader: ApplianceReader, datasource: str | None) -> Iterator[ListedDocument]:
    """Yield the documents of a datasource, or of all.

    Raise TargetError if there is no index, or if it loses documents meanwhile.
    """
    suffix = alias_suffix(datasource) if datasource else ""
    options = reader.appliance.of(IndexOptions)
    unsent = options.read_fields().keys() - {name for _, name in options.fields}
    refreshed = reader.request(f"{suffix}/_refresh", method="POST")
    if not refreshed.is_success:
        raise failure(refreshed, _EXPECTED)
    counted, listed = _count(reader, suffix), 0
    after: list[SortValue] = []
    size = _PAGE_DOCUMENTS
    while True:
        query: dict[str, object] = {"size": size, "sort": _ORDER, "track_total_hits": False}
        if after:
            query["search_after"] = after
        response = reader.request(f"{suffix}/_search?{_FILTER}", json_body(query), method="POST")
        if len(response.body) >= MAX_RESPONSE_BYTES:
            if size == 1:
                raise TargetError(
                    f"{response.url}: a document of more than {MAX_RESPONSE_BYTES >> 20} MiB after"
                    f" {after}; expected smaller ones: compare another input"
                )
            size = max(size // 8, 1)
            continue
        hits = read_reply(response, SearchReply, _EXPECTED).hits.hits
        for hit in hits:
            yield _listed(hit, unsent)
        listed += len(hits)
        if len(hits) < size:
            break
        after = hits[-1].sort
    if listed < counted:
        raise TargetError(
            f"{reader.appliance.url}{suffix}: {listed:,} documents of {counted:,} were listed;"
            " expected all: verify again when nothing writes to the index"
        )


def find_versions(reader: ApplianceReader, url: str) -> Iterator[Record]:
    """Yield the document of a URL in each datasource, with its ACL only, as searches find it.

    Raise ConfigError if the address is not that of an index.
    """
    query = {"ids": {"values": [id_of(url)]}}
    fields = ["url", "datasource", *field_names()]
    body = json_body({"size": _PAGE_DOCUMENTS, "query": query, "_source": fields})
    response = reader.request(f"/_search?{_FILTER}", body, method="POST")
    check_index(response, reader.appliance.url, "the address that documents are pushed to")
    for hit in read_reply(response, SearchReply, "a document").hits.hits:
        yield document_of(hit.source, hit.id, Provenance())


def _count(reader: ApplianceReader, suffix: str) -> int:
    """Return the number of documents."""
    response = reader.request(f"{suffix}/_count")
    return read_reply(response, CountReply, _EXPECTED).count


def as_listed(record: Record) -> Record:
    """Return a record of the format as a list has it: its text as content, its ACL by tokens."""
    content = record.content
    if content is None and record.body is not None:
        content = Content(record.body.encode("utf-8", "surrogatepass"))
    crawl, acl = record.crawl, record.acl
    if acl is not None and acl.inherits and not acl.decision:
        raise RecordError(
            "acl-inherits",
            f"an ACL that inherits from {acl.inherit_from!r}; expected the decision of its chain:"
            " ⟦to_format⟧ opensearch resolves it",
        )
    if acl is None and crawl is not None and crawl.secure:
        acl = Acl()
    shown = None if crawl is None else Crawl(display_url=crawl.display_url)
    return replace(
        record,
        arrival=Arrival.PUSHED,
        content=content,
        body=None,
        charset=None,
        size=None,
        acl=None if acl is None else _by_tokens(acl),
        crawl=None if shown == Crawl() else shown,
    )


def check(reader: ApplianceReader) -> Iterator[CheckLine]:
    """Check the pipeline, the indexes, what the user may do with them, scripts, and the disks."""
    if (name := reader.appliance.of(IndexOptions).pipeline) is not None:
        yield _pipeline_line(reader, name)
    response = reader.request("/_mapping")
    if response.status == 404:  # the probe says so
        yield from _painless_line(reader)
        return
    if response.status == _UNKNOWN_USER:
        return  # a line of the probe has it
    if not response.is_success:
        yield fail("index", words_of(response), fix_of(response, "expected the mapping"))
        return
    held_by = held_mappings(response.body)
    wrong = [name for name, held in held_by.items() if held.fault]
    if wrong:
        yield fail(
            "index",
            f"{', '.join(wrong)}: the fields of decisions are not keywords",
            "give another name: indexes that feedferry has not made show documents to wrong people",
        )
    aliases = reader.request("/_alias")
    if not aliases.is_success:
        yield fail("alias", words_of(aliases), fix_of(aliases, "expected the aliases"))
    else:
        held_aliases = msgspec.json.decode(aliases.body, type=dict[str, HeldAliases])
        yield _alias_line(reader, held_aliases)
        yield _script_line(reader, held_aliases)
    yield from _hidden_line(reader)
    yield _disk_line(reader)


def _hidden_line(reader: ApplianceReader) -> Iterator[CheckLine]:
    """Yield a finding if searches of the user do not find all documents.

    Statistics count all of them, and those of a run that is not searched yet.
    """
    counted, stated = reader.request("/_count"), reader.request(_STATISTICS)
    if not counted.is_success or not stated.is_success:
        return
    count = read_reply(counted, CountReply, _EXPECTED).count
    total = msgspec.json.decode(stated.body, type=_Statistics).total.primaries.docs.count
    if count < total:
        yield warn(
            "documents",
            f"the user finds {count:,} of {total:,} documents",
            "let the user of ⟦auth⟧ have no role with document-level security: a run must find all"
            " documents that it takes permissions from",
        )


def _script_line(reader: ApplianceReader, held_by: Mapping[str, HeldAliases]) -> CheckLine:
    """Return whether a run may write, and change ACLs by a script."""
    name = reader.appliance.url.rpartition("/")[2]
    aliases = sorted(alias for held in held_by.values() for alias in held.aliases)
    written = (alias for alias in aliases if alias.startswith(f"{name}-"))
    if (alias := next(written, None)) is None:
        return warn("scripts", "not tried: no datasource has an index", "the first run tries them")
    response = try_script(reader, alias.removeprefix(name))
    if fault := fault_of_scripts(response):
        return fail_of("scripts", fault)
    return ok("scripts", "ACLs can be changed")


def _painless_line(reader: ApplianceReader) -> Iterator[CheckLine]:
    """Yield whether a server without an index runs scripts; few users may ask for that."""
    body = json_body({"script": {"source": "true"}})
    path = "/_scripts/painless/_execute"
    response = reader.request(path, body, method="POST", is_below_address=False)
    if response.status == 400:
        yield fail("scripts", words_of(response), FIX)


def _alias_line(reader: ApplianceReader, indexes: Collection[str]) -> CheckLine:
    """Return whether the address is an alias: a run writes to no index of that name."""
    name = reader.appliance.url.rpartition("/")[2]
    if name in indexes:
        return fail("alias", f"{name} is an index", "give the name of an alias, or another name")
    return ok("alias", f"{name} of {', '.join(sorted(indexes))}")


def _pipeline_line(reader: ApplianceReader, name: str) -> CheckLine:
    """Return whether the server has an ingest pipeline."""
    path = f"/_ingest/pipeline/{quote(name, safe='')}"
    response = reader.request(path, is_below_address=False)
    if response.is_success:
        return ok("pipeline", name)
    if response.status == 404:
        return fail("pipeline", f"{name}: none of this name", "make it, or correct the name")
    found = f"{response.status}: not known whether there is {name}"
    return warn("pipeline", found, "grant the user the privilege `cluster:admin/ingest`")


def _disk_line(reader: ApplianceReader) -> CheckLine:
    """Return the disk that is fullest; an index on a full disk is only read."""
    path = "/_cat/allocation?format=json&h=node,disk.percent"
    response = reader.request(path, is_below_address=False)
    if not response.is_success:
        found = f"{response.status}: not known how full the disks are"
        return warn(
            "cluster disk", found, "grant the user the privilege `cluster:monitor`, or look there"
        )
    rows = msgspec.json.decode(response.body, type=list[dict[str, str | None]])
    used = {str(row["node"]): int(row.get("disk.percent") or 0) for row in rows}
    node, percent = max(used.items(), key=itemgetter(1), default=("", 0))
    found = f"{percent} % of the disk of {node} is used"
    if percent >= _FULL_PERCENT:
        return fail(
            "cluster disk", found, f"free space: at {_FULL_PERCENT} % an index is only read"
        )
    if percent >= _HIGH_PERCENT:
        return warn(
            "cluster disk", found, f"free space: at {_HIGH_PERCENT} % a node takes no more shards"
        )
    return ok("cluster disk", found)


def _listed(hit: Hit, unsent: Set[str]) -> ListedDocument:
    """Return a document without the fields that only a pipeline of the server may have added."""
    stated = {name: value for name, value in hit.source.items() if name not in unsent}
    record = as_listed(document_of(stated, hit.id, Provenance()))
    data = None if record.content is None else record.content.data
    return ListedDocument(
        record=replace(record, content=None),
        size=None if data is None else len(data),
        sha256=None if data is None else sha256(data).digest(),
    )


def _by_tokens(acl: Acl) -> Acl:
    """Return an ACL as its fields state it, with principals in one order.

    One that permits nobody has none.
    """
    fields = fields_of(decision_of(acl))
    if fields is None:
        return acl
    stated = acl_of_fields({name: sorted(tokens) for name, tokens in fields.items()}) or Acl()
    if not all(any(f"acl_{part}_permit" in name for name in fields) for part in _PARTS):
        return Acl(withholds=acl.withholds)
    if stated.decision:
        return Acl(
            decision=tuple(
                AclLayer(part=of.part, principals=of.principals) for of in stated.decision
            )
        )
    return stated
