"""A part of a chunk as a request: its documents get the run, and superseded records are hidden."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set

import msgspec

from feedferry.transforms.access.index_fields import AccessFields, withheld_fields
from feedferry.transforms.formats.search_document.document_encoder import id_of
from feedferry.transforms.formats.solr.command_reader import COMMAND
from feedferry.transforms.formats.solr.command_writer import NO_TOKEN, solr_id, update_line
from feedferry.transforms.formats.solr.solr_format import ALLOW, DENY, PLACE_OF_RUN
from feedferry.transforms.sinks.push.model import ChunkPart
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.search_index.stored_decisions import without_decision
from feedferry.transforms.sinks.push.wire.solr.replies import (
    COMMIT,
    COMMIT_BODY,
    ERRORS_BY_DOCUMENT,
)
from feedferry.transforms.sinks.push.wire.solr.results import lines_of

_PLACE = b'"run":%d' % PLACE_OF_RUN
"""No text of a document has it, as quotation marks in texts are escaped."""

_TOKENS = re.compile(
    rb'("(?:%s|%s)":\[)((?:"(?:[^"\\]|\\.)*",?)+)\]' % (ALLOW.encode(), DENY.encode())
)
_NO_TOKEN = b'"%s"' % NO_TOKEN.encode()


class RunOfCollection(msgspec.Struct, frozen=True, kw_only=True):
    """When a run began, in microseconds since 1970, and the records that it hides.

    `before` counts the records of earlier chunks, by the ordinal of a chunk. `superseded` are the
    numbers of records that later records of the run replace, in ascending order.
    """

    begun: int
    before: dict[int, int]
    superseded: Sequence[int] = ()
    is_manifoldcf: bool = False


def make_request(part: ChunkPart, run: RunOfCollection) -> tuple[str, RequestBody]:
    """Return the path and the body of a request; that of an empty full feed is a commit."""
    if not part.size:
        return COMMIT, COMMIT_BODY
    begin = run.before[part.chunk.ordinal] + part.first
    places = (bisect_left(run.superseded, number) for number in (begin, begin + part.records))
    hidden = frozenset(number - begin for number in run.superseded[slice(*places)])
    body = RequestBody(
        content_type="application/json",
        length=part.size,
        part=part,
        recode=lambda blocks: of_run(blocks, run.begun, hidden),
    )
    return ERRORS_BY_DOCUMENT, body


def of_run(blocks: Iterable[bytes], begun: int, hidden: Set[int] = frozenset()) -> Iterator[bytes]:
    """Yield lines with the run in place of the number that all chunks have.

    A document of the records `hidden` is sent without its decision. An update of an ACL is replaced
    by spaces: a later record of the run has the ACL of the document.
    """
    run = b'"run":%d' % begun
    for number, line in enumerate(lines_of(blocks)):
        command = COMMAND.match(line)
        if number not in hidden or command is None or command[1] == b"delete":
            yield line.replace(_PLACE, run, 1)
        elif command[2]:
            yield b" " * (len(line) - 1) + line[-1:]
        else:
            yield _TOKENS.sub(_no_token, without_decision(line.replace(_PLACE, run, 1)))


def make_hiding(
    urls: Iterable[tuple[int, str]], part: ChunkPart, run: RunOfCollection
) -> tuple[str, RequestBody]:
    """Return the request that shows documents to no user; each URL with its number in the chunk."""
    datasource = part.chunk.datasource or ""
    decisions = ((id_of(url), withheld_fields()) for _, url in urls)
    return ERRORS_BY_DOCUMENT, update_body(datasource, decisions, is_manifoldcf=run.is_manifoldcf)


def update_body(
    datasource: str, decisions: Iterable[tuple[str, AccessFields]], *, is_manifoldcf: bool
) -> RequestBody:
    """Return the body of updates of who may see documents, by their ids without the datasource."""
    lines = (
        update_line(solr_id(datasource, id), fields, is_manifoldcf=is_manifoldcf)
        for id, fields in decisions
    )
    data = b"".join(lines)
    return RequestBody(content_type="application/json", length=len(data), before=data)


def _no_token(match: re.Match[bytes]) -> bytes:
    """Return tokens of ManifoldCF as one that no user has: a schema may have a default for none."""
    return match[1] + _NO_TOKEN + b" " * (len(match[2]) - len(_NO_TOKEN)) + b"]"
