"""What a run does at a cluster before and after its chunks: indexes and aliases.

For the datasource `web` and an address that ends with `/intranet`::

    intranet-web                          alias for writing: the index that is searched
    intranet                              alias for searching: the indexes of all datasources
    intranet-web-20261128-071500123456    an index; its name has the time at which it was begun
    intranet-web-20261128-071500123456-loading
                                          alias for writing, until a full feed is complete

An incremental run writes to the index behind the alias. A run with a full feed fills a new index
and then exchanges it for the old one in one request, so that a search sees one or the other. All
requests for documents name an alias and state that it must be one: an index that a cluster makes by
itself has no mapping, and its documents would be seen by the wrong people.
"""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import TargetError
from feedferry.schemas.feed import FULL
from feedferry.schemas.units import counted
from feedferry.transforms.formats.opensearch.opensearch_format import (
    VERSIONS_PER_MICROSECOND,
)
from feedferry.transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    ApplianceResponse,
    count_records,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.mapping import (
    alias_suffix,
    held_mappings,
    mapping,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import error_of
from feedferry.transforms.sinks.push.wire.protocol import Appliance, RunSession
from feedferry.transforms.sinks.push.wire.responses import describe

LOADING = "-loading"

_ACTION = re.compile(
    rb'\{"(index|delete)":\{"version":[0-9]+,"version_type":"[a-z_]+",'
    rb'"_id":"((?:[^"\\]|\\.)*)"'
)
_STAMP = r"-[0-9]{8}-[0-9]{12}"
_LOAD_SETTINGS = {"index": {"refresh_interval": "-1", "number_of_replicas": 0}}
_SEARCH_SETTINGS = {"index": {"refresh_interval": None, "number_of_replicas": None}}


class RunIndexes(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chunks of a run are written to, and the versions of their documents.

    `suffixes` are those of the aliases, by datasource. `begun` is the time at which the push began,
    in microseconds since 1970, where the versions of the run begin. `before` counts the records of
    earlier chunks, by the ordinal of a chunk.
    """

    begun: int
    suffixes: Mapping[str, str]
    before: Mapping[int, int]


def json_body(value: object) -> RequestBody:
    data = msgspec.json.encode(value)
    return RequestBody(content_type="application/json", length=len(data), before=data)


def is_full(chunk: Chunk) -> bool:
    return chunk.requested_feedtype == FULL or chunk.feedtype in ERASING_FEEDTYPES


def exchange_text(appliance: Appliance, datasource: str) -> str:
    """Return what a full feed of a datasource exchanges."""
    kept = appliance.of(IndexOptions).keep_indices
    alias = appliance.url.rpartition("/")[2] + alias_suffix(datasource)
    return (
        f"{alias}: a new index is searched in place of the old one when it has all documents; old"
        f" indexes kept: {kept}"
    )


def begin(session: RunSession) -> RunIndexes:
    """Make the indexes that the chunks of a run are written to; raise TargetError if it fails."""
    now = _now()
    begun = _begun(session, now)
    *before, total = accumulate(map(count_records, session.chunks), initial=0)
    suffixes = {}
    for datasource, chunks in _by_datasource(session.chunks).items():
        full = {is_full(chunk) for chunk in chunks}
        if len(full) > 1:
            raise TargetError(
                f"{session.appliance.url}: {datasource!r} has full and incremental feeds in one"
                " run; expected one of them: feedferry compact makes one full feed of them"
            )
        make = partial(_make_index, session, datasource, begun, is_loading=True)
        find = partial(_find_index, session, datasource, begun)
        if full == {True}:
            index = session.step(f"make an index for {datasource}", make)
            suffixes[datasource] = index.removeprefix(_name_of(session)) + LOADING
        else:
            session.step(f"find the index of {datasource}", find)
            suffixes[datasource] = alias_suffix(datasource)
            if begun != now:
                _check_newest(session, datasource, begun * VERSIONS_PER_MICROSECOND + total)
    ordinals = (chunk.ordinal for chunk in session.chunks)
    return RunIndexes(
        begun=begun, suffixes=suffixes, before=dict(zip(ordinals, before, strict=True))
    )


def finish(session: RunSession) -> None:
    """Make what a run has sent visible to searches; exchange the indexes of full feeds."""
    begun = _begun(session, int(datetime.now(UTC).timestamp()))
    for datasource, chunks in _by_datasource(session.chunks).items():
        alias = alias_suffix(datasource)
        index = alias + _stamp(begun)
        loads = is_full(chunks[0])
        refused = session.refused - session.accepted_refusals
        if loads and refused:
            raise TargetError(
                f"{session.appliance.url}{alias}: refused: {counted(refused, 'record')}, so the new"
                " index is not searched, and the old one stays; expected none: correct them and"
                " begin a new run with ⟦fresh⟧, or accept them with ⟦accepted_rejects⟧"
            )
        written = index if loads else alias
        session.step(f"refresh {datasource}", partial(session.send, f"{written}/_refresh", None))
        if loads:
            count = partial(_check_count, session, index, chunks)
            session.step(f"count the documents of {datasource}", count)
            exchange = partial(_exchange, session, alias, index)
            session.step(f"exchange the index of {datasource}", exchange)
            remove = partial(_remove, session, alias, index)
            session.step(f"remove old indexes of {datasource}", remove)


def _begun(session: RunSession, now: int) -> int:
    """Return the time at which the push of a run began, the same when it is continued."""
    return int(session.step("begin", lambda: str(now)))


def _now() -> int:
    return time.time_ns() // 1000


def _check_newest(session: RunSession, datasource: str, last: int) -> None:
    """Raise TargetError if a newer run has changed ACLs: a continued run would replace them.

    `last` is greater than the versions of this run.
    """
    alias = alias_suffix(datasource)
    session.send(f"{alias}/_refresh", None)
    newer = {"range": {"changed_by": {"gte": last}}}
    response = session.request(f"{alias}/_count", json_body({"query": newer}), method="POST")
    if not response.is_success:
        raise _failed(response, "expected a count of documents")
    count = msgspec.json.decode(response.body).get("count")
    if count:
        raise TargetError(
            f"{response.url}: a newer run has changed the ACLs of {count} documents; expected none:"
            " begin a new run with ⟦fresh⟧ in place of this one"
        )


def _by_datasource(chunks: Sequence[Chunk]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        found.setdefault(chunk.datasource or "", []).append(chunk)
    return found


def _stamp(begun: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begun)
    return moment.strftime("-%Y%m%d-%H%M%S%f")


def _make_index(session: RunSession, datasource: str, begun: int, *, is_loading: bool) -> str:
    """Make an index, unless it is there; return its name."""
    alias = alias_suffix(datasource)
    suffix = alias + _stamp(begun)
    root = _name_of(session)
    names = [root + suffix + LOADING] if is_loading else [root + alias, root]
    aliases: dict[str, object] = {name: {} for name in names}
    options = session.appliance.of(IndexOptions)
    others = options.read_fields()
    for kind in options.flat_kinds:
        wanted = {
            "settings": _LOAD_SETTINGS if is_loading else {},
            "mappings": mapping(datasource, flat_kind=kind, others=others),
            "aliases": aliases,
        }
        response = session.request(suffix, json_body(wanted), method="PUT")
        reason = error_of(response)
        if response.is_success or "resource_already_exists_exception" in reason:
            return root + suffix
        if "No handler for type" not in reason and "not supported" not in reason:
            break
    raise _failed(response, "expected to make an index")


def _find_index(session: RunSession, datasource: str, begun: int) -> str:
    """Find the index of a datasource by its alias, and make it without one; return its name."""
    alias = alias_suffix(datasource)
    response = session.request(f"{alias}/_mapping")
    if response.status == 404:
        return _make_index(session, datasource, begun, is_loading=False)
    if not response.is_success:
        raise _failed(response, "expected an index, or the right to make one")
    found = held_mappings(response.body)
    for name, held in found.items():
        if held.fault:
            raise TargetError(
                f"{response.url}: the index {name!r} has {held.fault}; expected an index that"
                " feedferry has made, as others show documents to the wrong people: give another"
                " name"
            )
        if (owner := held.meta.feedferry.datasource) != datasource:
            raise TargetError(
                f"{response.url}: the index {name!r} has the datasource {owner!r}; expected"
                f" {datasource!r}: names that differ in case only have one index"
            )
    if others := session.appliance.of(IndexOptions).read_fields():
        added = session.request(
            f"{alias}/_mapping", json_body({"properties": others}), method="PUT"
        )
        if not added.is_success:
            raise _failed(
                added, "expected to add the fields of the job: a full feed makes a new index"
            )
    return ", ".join(found)


def _check_count(session: RunSession, suffix: str, chunks: Sequence[Chunk]) -> str:
    """Compare the number of documents of a new index with what was sent; raise TargetError."""
    sent: set[int] = set()
    for chunk in chunks:
        with session.open(chunk) as stream:
            for line in stream:
                if match := _ACTION.match(line):
                    change = sent.discard if match[1] == b"delete" else sent.add
                    change(hash(match[2]))
    response = session.request(f"{suffix}/_count")
    if not response.is_success:
        raise _failed(response, "expected the number of documents")
    count: int = msgspec.json.decode(response.body)["count"]
    if not len(sent) - session.accepted_refusals <= count <= len(sent):
        raise TargetError(
            f"{response.url}: {count:,} documents in the new index, which is not searched yet;"
            f" expected {len(sent):,}: begin a new run with ⟦fresh⟧"
        )
    return f"{count:,} documents"


def _exchange(session: RunSession, alias: str, suffix: str) -> str:
    """Move the aliases of a datasource to the new index, in one request."""
    root = _name_of(session)
    response = session.request(f"{alias}/_alias")
    old: list[str] = []
    if response.is_success:
        old = [name for name in msgspec.json.decode(response.body) if name != root + suffix]
    elif response.status != 404:
        raise _failed(response, "expected the aliases of the index")
    settings = session.request(f"{suffix}/_settings", json_body(_SEARCH_SETTINGS), method="PUT")
    if not settings.is_success:
        raise _failed(settings, "expected the settings of a searched index")
    actions: list[dict[str, object]] = [
        {"remove": {"index": name, "alias": held}} for name in old for held in (root + alias, root)
    ]
    actions += ({"add": {"index": root + suffix, "alias": held}} for held in (root + alias, root))
    actions.append({"remove": {"index": root + suffix, "alias": root + suffix + LOADING}})
    body = json_body({"actions": actions})
    exchanged = session.request("/_aliases", body, method="POST", is_below_address=False)
    if not exchanged.is_success:
        raise _failed(exchanged, "expected to exchange the indexes")
    return f"{root}{suffix} in place of {', '.join(old) or 'none'}"


def _remove(session: RunSession, alias: str, suffix: str) -> str:
    """Remove the indexes of a datasource but the newest ones; return their names."""
    root = _name_of(session)
    response = session.request(f"{alias}-2*/_alias")
    if not response.is_success:
        raise _failed(response, "expected the indexes of the datasource")
    is_ours = re.compile(re.escape(root + alias) + _STAMP).fullmatch
    names = sorted(filter(is_ours, msgspec.json.decode(response.body)))
    earlier = names[: names.index(root + suffix)]
    kept = session.appliance.of(IndexOptions).keep_indices
    removed = earlier[: max(len(earlier) - kept, 0)]
    for name in removed:
        gone = session.request(name.removeprefix(root), method="DELETE")
        if not gone.is_success and gone.status != 404:
            raise _failed(gone, "expected to remove an index of an earlier run")
    return ", ".join(removed) or "none"


def _name_of(session: RunSession) -> str:
    return session.appliance.url.rpartition("/")[2]


def _failed(response: ApplianceResponse, expected: str) -> TargetError:
    found = error_of(response) or describe(response)
    return TargetError(f"{response.url}: {response.status}, {found}; {expected}")
