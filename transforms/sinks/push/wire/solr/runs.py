"""The steps of a run at a collection before and after its chunks.

Documents of all datasources are in one collection. Each has the run that sent it last, by the time
at which the run began. A run that begins writes this time to a document of its own, by which it is
known to others: before each request, an earlier run finds that it is no longer the newest, and
stops. Solr has no such comparison for each document, so a request of an earlier run that is under
way at this moment is still taken.

A full feed replaces the documents in place. When its documents are all there, by their number,
those of earlier runs are deleted by a query.
"""

import re
from collections.abc import Sequence
from functools import partial

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, TargetError
from feedferry.schemas.units import counted
from feedferry.transforms.formats.solr.command_writer import closed_manifoldcf
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.model import ChunkPart
from feedferry.transforms.sinks.push.wire.protocol import Appliance, RunSession
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.search_index.run_feeds import (
    begun_at,
    by_datasource,
    check_full_feeds,
    count_sent,
    is_full,
    now,
    records_before,
)
from feedferry.transforms.sinks.push.wire.search_index.tightening import forget, tighten
from feedferry.transforms.sinks.push.wire.solr.collection_decisions import (
    CollectionDecisions,
    ids_of_documents,
)
from feedferry.transforms.sinks.push.wire.solr.commands import RunOfCollection
from feedferry.transforms.sinks.push.wire.solr.replies import (
    COMMIT,
    COMMIT_BODY,
    Requests,
    RunReply,
    count,
    of_datasource,
    read_reply,
)
from feedferry.transforms.sinks.push.wire.solr.schema import make_schema
from feedferry.transforms.sinks.push.wire.solr.trials import check_cloud, check_tolerance

_DATASOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_RUN_ID = "feedferry-run:"
"""Begins the id of the document of the newest run; no datasource has a colon."""


def check_feeds(appliance: Appliance, chunks: Sequence[Chunk]) -> None:
    """Raise an error for chunks that no run can send."""
    for datasource, own in by_datasource(chunks).items():
        if not _DATASOURCE.fullmatch(datasource):
            raise ConfigError(
                f"⟦datasource⟧ {datasource!r}: no name for a field; expected letters, digits, `.`,"
                " `_` and `-`"
            )
        check_full_feeds(appliance, datasource, own)


def exchange_text(_appliance: Appliance, datasource: str) -> str:
    """Return how a full feed of a datasource replaces documents."""
    return (
        f"{datasource}: documents are replaced as they come; those that the feed leaves out are"
        " deleted when it is whole"
    )


def begin(session: RunSession) -> RunOfCollection:
    """Prepare a collection for the chunks of a run; raise TargetError if that fails."""
    check_feeds(session.appliance, session.chunks)
    options = session.appliance.of(SolrOptions)
    begun = begun_at(session, now())
    check_tolerance(session)
    of_run = by_datasource(session.chunks)
    if any(is_full(chunk) for chunks in of_run.values() for chunk in chunks):
        check_cloud(session)
    session.step("check the schema", partial(make_schema, session, options))
    for datasource in of_run:
        _take_over(session, datasource, begun)
    before = records_before(session.chunks)
    return RunOfCollection(
        begun=begun,
        before=before,
        superseded=tighten(session, CollectionDecisions(session), before),
        is_manifoldcf=options.is_manifoldcf,
    )


def guard(requests: Requests, part: ChunkPart, run: object) -> None:
    """Raise TargetError if the run of a part is no longer the newest of its datasource."""
    if not isinstance(run, RunOfCollection):
        raise AssertionError("a request before the run has begun")
    _check_newest(requests, part.chunk.datasource or "", run.begun)


def finish(session: RunSession) -> None:
    """Make the documents of a run visible to searches; delete those that full feeds leave out."""
    if not session.chunks:
        return
    begun = begun_at(session, now())
    of_run = by_datasource(session.chunks)
    for datasource in of_run:
        _check_newest(session, datasource, begun)
    session.step("commit", partial(session.send, COMMIT, COMMIT_BODY))
    for datasource, chunks in of_run.items():
        if is_full(chunks[0]):
            delete = partial(_delete_others, session, datasource, chunks, begun)
            session.step(f"delete documents that the full feed of {datasource} lacks", delete)
    forget(session)


def _take_over(session: RunSession, datasource: str, begun: int) -> None:
    """Make this run the newest of a datasource; raise TargetError if a newer one has begun."""
    newest = _newest(session, datasource)
    if newest > begun:
        raise _superseded(session.appliance.url, datasource)
    if newest < begun:
        options = session.appliance.of(SolrOptions)
        closed = closed_manifoldcf({}) if options.is_manifoldcf else {}
        marker = {"id": f"{_RUN_ID} {datasource}", "run": begun, **closed}
        session.send("/update", json_body({"add": {"doc": marker}}))
    _check_newest(session, datasource, begun)


def _check_newest(requests: Requests, datasource: str, begun: int) -> None:
    if _newest(requests, datasource) != begun:
        raise _superseded("the collection", datasource)


def _newest(requests: Requests, datasource: str) -> int:
    """Return when the newest run of a datasource began, 0 without one."""
    path = f"/get?id={_RUN_ID}%20{datasource}&fl=run"
    reply = read_reply(requests.request(path), RunReply, "the newest run").doc
    return (reply or {}).get("run", 0)


def _superseded(where: str, datasource: str) -> TargetError:
    return TargetError(
        f"{where}: a newer run has begun to write {datasource!r}; expected none: begin a new run"
        " with ⟦fresh⟧ in place of this one"
    )


def _delete_others(
    session: RunSession, datasource: str, chunks: Sequence[Chunk], begun: int
) -> str:
    """Delete the documents of earlier runs; raise TargetError unless the feed is all there."""
    url = session.appliance.url
    if refused := session.refused - session.accepted_refusals:
        raise TargetError(
            f"{url}: refused: {counted(refused, 'record')} of a full feed, so the documents that"
            f" it leaves out stay in {datasource!r}; expected none: correct them and begin a new"
            " run with ⟦fresh⟧, or accept them with ⟦accepted_rejects⟧"
        )
    sent = count_sent(session, chunks, ids_of_documents)
    written = count(session, of_datasource(datasource), f"run:{begun}")
    if not sent - session.accepted_refusals <= written <= sent:
        raise TargetError(
            f"{url}: {written:,} documents of the full feed of {datasource!r}; expected {sent:,}:"
            " begin a new run with ⟦fresh⟧"
        )
    others = f"-run:[{begun} TO *]"
    found = count(session, of_datasource(datasource), f"*:* {others}")
    query = f"+{of_datasource(datasource)} {others}"
    session.send("/update", json_body({"delete": {"query": query}}))
    session.send(COMMIT, COMMIT_BODY)
    return f"{counted(found, 'document')}, {written:,} remain"
