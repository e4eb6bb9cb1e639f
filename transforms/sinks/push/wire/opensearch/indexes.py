"""What a run does at a cluster before and after its chunks: indexes and aliases.

For the datasource `web` and an address that ends with `/intranet`::

    intranet-web                          alias of the index of a datasource
    intranet                              alias for searching: the indexes of all datasources
    intranet-web-20261128-071500123456    an index; its name has the time at which it was begun
    intranet-web-20261128-071500123456-writing
                                          alias for writing, of the run that began at this time

An incremental run writes to the index that is searched. A run with a full feed fills a new index
and then exchanges it for the old one in one request, so that a search sees one or the other.

Each run writes by an alias of its own, and a run that begins removes those of earlier runs. So a
request of an earlier run that arrives late is refused: neither a deletion nor an update of an ACL
leaves a version in the index by which the server would refuse it. All requests for documents state
that their name must be an alias: an index that a cluster makes by itself has no mapping, and its
documents would be seen by the wrong people.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, islice

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import TargetError
from feedferry.schemas.feed import FULL
from feedferry.schemas.units import counted
from feedferry.transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    count_records,
)
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from feedferry.transforms.sinks.push.wire.opensearch.json_request import json_body
from feedferry.transforms.sinks.push.wire.opensearch.mapping import (
    HeldMapping,
    alias_suffix,
    held_mappings,
    mapping,
)
from feedferry.transforms.sinks.push.wire.opensearch.replies import (
    CountReply,
    HeldAliases,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.opensearch.results import error_of, failure
from feedferry.transforms.sinks.push.wire.opensearch.script_trial import (
    fault_of_scripts,
    try_script,
)
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ComparedRun, RunSession

WRITING = "-writing"

_ACTION = re.compile(
    rb'\{"(index|delete)":\{"version":[0-9]+,"version_type":"[a-z_]+",'
    rb'"_id":"((?:[^"\\]|\\.)*)"'
)
_NO_TYPE = "No handler for type"
_NAMED = 3
_STAMP = r"-[0-9]{8}-[0-9]{12}"
_LOAD_SETTINGS = {"index": {"refresh_interval": "-1", "number_of_replicas": 0}}
_SEARCH_SETTINGS = {"index": {"refresh_interval": None, "number_of_replicas": None}}


_OTHERS = (
    "expected an index that feedferry has made, as others show documents to the wrong people: give"
    " another name"
)

_AliasAction = dict[str, dict[str, object]]


class RunIndexes(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chunks of a run are written to, and the versions of their documents.

    `suffixes` are those of the aliases, by datasource. `begun` is the time at which the push began,
    in microseconds since 1970, where the versions of the run begin. `before` counts the records of
    earlier chunks, by the ordinal of a chunk. `superseded` are the numbers of records that later
    records of the run replace, in ascending order. `kept` are the suffixes of aliases that the next
    run of the same client may write by, too.
    """

    begun: int
    suffixes: Mapping[str, str]
    before: Mapping[int, int]
    superseded: Sequence[int] = ()
    kept: Mapping[str, str] = {}


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
    """Make the indexes that the chunks of a run are written to; raise TargetError if it fails.

    A run of a gateway writes by the aliases of the run before it: changing aliases takes longer
    than a small delivery. Each request of that run had a reply, so none of them arrives late.
    """
    begun = _begun(session, _now())
    of_run = by_datasource(session.chunks)
    check_feeds(session.appliance, session.chunks)
    earlier = session.earlier
    held = dict(earlier.kept) if isinstance(earlier, RunIndexes) and earlier.begun < begun else {}
    suffixes, kept = {}, dict(held)
    for datasource, chunks in of_run.items():
        kept.pop(datasource, None)
        full = {is_full(chunk) for chunk in chunks}
        make = partial(_make_index, session, datasource, begun, is_loading=True)
        find = partial(_find_index, session, datasource, begun)
        if full == {False} and datasource in held:
            suffixes[datasource] = kept[datasource] = held[datasource]
            continue
        if full == {True}:
            own_indexes(session, datasource)
            session.step(f"make an index for {datasource}", make)
        else:
            session.step(f"find the index of {datasource}", find)
        suffixes[datasource] = _take_over(session, datasource, begun, loads=full == {True})
        if fault := fault_of_scripts(try_script(session, suffixes[datasource])):
            raise TargetError(f"{session.appliance.url}: {fault}")
        if full == {False}:
            kept[datasource] = suffixes[datasource]
    before = records_before(session.chunks)
    return RunIndexes(begun=begun, suffixes=suffixes, before=before, kept=kept)


def records_before(chunks: Sequence[Chunk]) -> dict[int, int]:
    """Return the number of records of earlier chunks, by the ordinal of a chunk."""
    *before, _ = accumulate(map(count_records, chunks), initial=0)
    return dict(zip((chunk.ordinal for chunk in chunks), before, strict=True))


def check_feeds(appliance: Appliance, chunks: Sequence[Chunk]) -> None:
    """Raise TargetError for chunks of which some replace documents of others."""
    of_run = by_datasource(chunks)
    _check_names(appliance, of_run)
    for datasource, own in of_run.items():
        _check_full_feeds(appliance, datasource, own)


def _check_full_feeds(appliance: Appliance, datasource: str, chunks: Sequence[Chunk]) -> None:
    """Raise TargetError for feeds of a datasource of which one replaces documents of another."""
    where = f"{appliance.url}: {datasource!r} has"
    if len({is_full(chunk) for chunk in chunks}) > 1:
        raise TargetError(
            f"{where} full and incremental feeds in one run; expected one of them: feedferry"
            " compact makes one full feed of them"
        )
    origins = dict.fromkeys(chunk.origin for chunk in chunks if is_full(chunk))
    if len(origins) > 1:
        names = ", ".join(map(repr, islice(origins, _NAMED)))
        raise TargetError(
            f"{where} {len(origins)} full feeds in one run, of which each replaces the one before"
            f" it: {names}; expected one: begin a new run with ⟦fresh⟧ and the newest of them, or"
            " with the feed that feedferry compact makes of them; if they are parts of one feed,"
            " state ⟦feedtype⟧ full"
        )


def _check_names(appliance: Appliance, datasources: Collection[str]) -> None:
    """Raise TargetError for two datasources that have one index."""
    named: dict[str, str] = {}
    for datasource in datasources:
        other = named.setdefault(alias_suffix(datasource), datasource)
        if other != datasource:
            raise TargetError(
                f"{appliance.url}{alias_suffix(datasource)}: the datasources {other!r} and"
                f" {datasource!r}; expected one: give another name for one of them, as names that"
                " differ in case only have one index"
            )


def finish(session: RunSession) -> None:
    """Make what a run has sent visible to searches; exchange the indexes of full feeds."""
    begun = _begun(session, int(datetime.now(UTC).timestamp()))
    for datasource, chunks in by_datasource(session.chunks).items():
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
            unfinished = partial(_remove_unfinished, session, alias, index)
            session.step(f"remove unfinished indexes of {datasource}", unfinished)
            exchange = partial(_exchange, session, alias, index)
            session.step(f"exchange the index of {datasource}", exchange)
            remove = partial(_remove, session, alias, index)
            session.step(f"remove old indexes of {datasource}", remove)


def _begun(session: RunSession, now: int) -> int:
    """Return the time at which the push of a run began, the same when it is continued."""
    return int(session.step("begin", lambda: str(now)))


def _now() -> int:
    return time.time_ns() // 1000


def _take_over(session: RunSession, datasource: str, begun: int, *, loads: bool) -> str:
    """Make this run the one that writes; return the suffix of its alias for writing.

    Raise TargetError if a newer run has begun. With `loads`, the index of the run has the alias.
    """
    root, alias = _name_of(session), alias_suffix(datasource)
    suffix = alias + _stamp(begun) + WRITING
    own = root + suffix
    held = _indexes(session, alias)
    is_writing = re.compile(re.escape(root + alias) + _STAMP + WRITING).fullmatch
    of_runs = [(name, of) for name, aliases in held.items() for of in filter(is_writing, aliases)]
    newest = max((of for _, of in of_runs), default="")
    if newest > own:
        raise TargetError(
            f"{session.appliance.url}{alias}: a newer run has begun to write, by the alias"
            f" {newest!r}; expected none: begin a new run with ⟦fresh⟧ in place of this one"
        )
    actions: list[_AliasAction] = [
        {"remove": {"index": name, "alias": of}} for name, of in of_runs if of != own
    ]
    if not loads:
        searched = (name for name, aliases in held.items() if root + alias in aliases)
        actions += ({"add": {"index": name, "alias": own}} for name in searched)
    if actions:
        _change_aliases(session, actions)
    return suffix


def _indexes(session: RunSession, alias: str) -> dict[str, Collection[str]]:
    """Return the aliases of indexes by their names: of those of a datasource, and others."""
    response = session.request(f"{alias}*/_alias")
    expected = "the aliases of indexes"
    if not response.is_success:
        raise failure(response, expected)
    try:
        found = msgspec.json.decode(response.body, type=dict[str, HeldAliases])
    except msgspec.DecodeError as exc:
        raise failure(response, expected) from exc
    return {name: held.aliases.keys() for name, held in found.items()}


def _change_aliases(session: RunSession, actions: Sequence[_AliasAction]) -> None:
    """Do all actions, or none; raise TargetError if one of them cannot be done."""
    session.send("/_aliases", json_body({"actions": actions}), is_below_address=False)


def by_datasource(chunks: Sequence[Chunk]) -> dict[str, list[Chunk]]:
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
    names = [root + suffix + WRITING] if is_loading else [root + alias, root]
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
        if _NO_TYPE not in reason and "not supported" not in reason:
            break
    raise failure(response, _expected_of_index(options, reason))


def _expected_of_index(options: IndexOptions, reason: str) -> str:
    if options.dialect is not None and _NO_TYPE in reason:
        return f"a server of ⟦dialect {options.dialect}⟧: without it, the server is asked"
    return "an index of this name to be made"


def _find_index(session: RunSession, datasource: str, begun: int) -> str:
    """Find the index of a datasource by its alias, and make it without one; return its name."""
    alias = alias_suffix(datasource)
    held_by = own_indexes(session, datasource)
    if not held_by:
        return _make_index(session, datasource, begun, is_loading=False)
    if len(held_by) > 1:
        raise TargetError(
            f"{session.appliance.url}{alias}: the alias of the indexes {', '.join(held_by)};"
            " expected one: remove it from the others, or send a full feed, which replaces them"
        )
    for name, held in held_by.items():
        if held.fault:
            raise TargetError(
                f"{session.appliance.url}{alias}: the index {name!r} has {held.fault}; {_OTHERS}"
            )
    if others := session.appliance.of(IndexOptions).read_fields():
        added = session.request(
            f"{alias}/_mapping", json_body({"properties": others}), method="PUT"
        )
        if not added.is_success:
            raise failure(added, "to add the fields of the job: a full feed makes a new index")
    return ", ".join(held_by)


def own_indexes(session: ComparedRun, datasource: str) -> dict[str, HeldMapping]:
    """Return the mappings of the indexes that the alias of a datasource names; there may be none.

    Raise TargetError for an index that is not of this datasource: a run would write to it, or a
    full feed would be searched in its place.
    """
    response = session.request(f"{alias_suffix(datasource)}/_mapping")
    if response.status == 404:
        return {}
    if not response.is_success:
        raise failure(response, "an index, or the right to make one")
    found = held_mappings(response.body)
    for name, held in found.items():
        owner = held.meta.feedferry.datasource
        if owner is None:
            raise TargetError(f"{response.url}: the index {name!r} has no datasource; {_OTHERS}")
        if owner != datasource:
            raise TargetError(
                f"{response.url}: the index {name!r} has the datasource {owner!r}; expected"
                f" {datasource!r}: give another name for one of them, as names that differ in case"
                " only have one index"
            )
    return found


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
    count = read_reply(response, CountReply, "the number of documents").count
    if not len(sent) - session.accepted_refusals <= count <= len(sent):
        raise TargetError(
            f"{response.url}: {count:,} documents in the new index, which is not searched yet;"
            f" expected {len(sent):,}: begin a new run with ⟦fresh⟧"
        )
    return f"{count:,} documents"


def _exchange(session: RunSession, alias: str, suffix: str) -> str:
    """Move the aliases of a datasource to the new index, in one request.

    It fails if a newer run has removed the alias for writing: what that run has written to the old
    index would be lost.
    """
    root = _name_of(session)
    index, own = root + suffix, root + suffix + WRITING
    held = _indexes(session, alias)
    old = [name for name, aliases in held.items() if root + alias in aliases and name != index]
    settings = session.request(f"{suffix}/_settings", json_body(_SEARCH_SETTINGS), method="PUT")
    if not settings.is_success:
        raise failure(settings, "the settings of a searched index")
    names = (root + alias, root)
    actions: list[_AliasAction] = [{"remove": {"index": index, "alias": own, "must_exist": True}}]
    actions += ({"remove": {"index": name, "alias": of}} for name in old for of in names)
    actions += ({"add": {"index": index, "alias": of}} for of in (*names, own))
    _change_aliases(session, actions)
    return f"{index} in place of {', '.join(old) or 'none'}"


def _remove_unfinished(session: RunSession, alias: str, suffix: str) -> str:
    """Remove the indexes of earlier runs that were begun after the searched one; return the names.

    They were never searched, or no longer are, so that they are none of those to keep.
    """
    held, searched = _indexes(session, alias), _name_of(session) + alias
    earlier = _earlier(session, alias, suffix, held)
    newest = max((name for name in earlier if searched in held[name]), default="")
    return _delete(session, [name for name in earlier if name > newest])


def _remove(session: RunSession, alias: str, suffix: str) -> str:
    """Remove the indexes of a datasource but the newest ones; return their names."""
    earlier = _earlier(session, alias, suffix, _indexes(session, alias))
    kept = session.appliance.of(IndexOptions).keep_indices
    return _delete(session, earlier[: max(len(earlier) - kept, 0)])


def _earlier(session: RunSession, alias: str, suffix: str, held: Iterable[str]) -> list[str]:
    """Return the names of indexes of a datasource that were begun before one."""
    root = _name_of(session)
    is_ours = re.compile(re.escape(root + alias) + _STAMP).fullmatch
    return sorted(name for name in held if is_ours(name) and name < root + suffix)


def _delete(session: RunSession, names: Sequence[str]) -> str:
    for name in names:
        gone = session.request(name.removeprefix(_name_of(session)), method="DELETE")
        if not gone.is_success and gone.status != 404:
            raise failure(gone, "to remove an index of an earlier run")
    return ", ".join(names) or "none"


def _name_of(session: RunSession) -> str:
    return session.appliance.url.rpartition("/")[2]
