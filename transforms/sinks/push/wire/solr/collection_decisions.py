"""The decisions of the documents of a collection, which are compared and narrowed before a run."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec

from feedferry.transforms.access.index_fields import AccessFields, field_names, withheld_fields
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD
from feedferry.transforms.formats.solr.command_reader import COMMAND, set_tokens, url_id
from feedferry.transforms.formats.solr.command_writer import solr_id
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.wire.protocol import RunSession
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.search_index.stored_decisions import (
    DELETION,
    DOCUMENT,
    UPDATE,
    Tokens,
    stored_decision,
)
from feedferry.transforms.sinks.push.wire.solr.commands import update_body
from feedferry.transforms.sinks.push.wire.solr.replies import (
    COMMIT,
    COMMIT_BODY,
    ERRORS_BY_DOCUMENT,
    CollectionReply,
    count,
    of_datasource,
    read_reply,
)

_NAMES = field_names()
_SEPARATOR = "\x01"
_QUERY = "{!terms f=id separator='\x01' v=$feedferry_ids}"


class _CommandDocument(msgspec.Struct):
    doc: dict[str, object] = {}


class _AddCommand(msgspec.Struct):
    add: _CommandDocument


_decode = msgspec.json.Decoder(_AddCommand).decode


class CollectionDecisions:
    """The decisions of documents by datasource, as a `DecisionIndex`.

    The documents of a full feed replace those of the collection as they come.
    """

    exchanges_full_feeds: ClassVar[bool] = False

    def __init__(self, session: RunSession) -> None:
        self._session = session

    def decisions_of(self, lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        return decisions_of(lines)

    def is_faulty(self, _datasource: str) -> bool:
        return False  # the schema was checked

    def count(self, datasource: str) -> int:
        self._session.send(COMMIT, COMMIT_BODY)
        return count(self._session, of_datasource(datasource))

    def held(self, datasource: str, ids: Sequence[str]) -> dict[str, bytes]:
        names = (solr_id(datasource, id) for id in ids)
        query = {
            "query": _QUERY,
            "limit": len(ids),
            "fields": ["id", WITHHELD_FIELD, *_NAMES],
            "params": {"feedferry_ids": _SEPARATOR.join(names)},
        }
        response = self._session.request("/select", json_body(query), method="POST")
        if len(response.body) >= MAX_RESPONSE_BYTES and len(ids) > 1:
            middle = len(ids) // 2
            halves = ids[:middle], ids[middle:]
            return {id: key for half in halves for id, key in self.held(datasource, half).items()}
        documents = read_reply(
            response, CollectionReply, "the decisions of documents"
        ).response.docs
        return {url_id(str(document["id"])): _stored(document) for document in documents}

    def narrow(self, datasource: str, decisions: Sequence[tuple[str, AccessFields]]) -> None:
        options = self._session.appliance.of(SolrOptions)
        body = update_body(datasource, decisions, is_manifoldcf=options.is_manifoldcf)
        self._session.send(ERRORS_BY_DOCUMENT, body)

    def show(self, _datasource: str) -> None:
        self._session.send(COMMIT, COMMIT_BODY)


def decisions_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the id of the document of each record, with a stored decision and its kind."""
    for line in lines:
        for id, is_deleted in ids_of([line]):
            if is_deleted:
                yield id, DELETION
                continue
            document = _decode(line).add.doc
            if "_version_" in document:
                yield id, UPDATE + stored_decision({**set_tokens(document)})
            else:
                yield id, DOCUMENT + _stored(document)


def ids_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the id of the document of each command, and whether it is deleted."""
    for line in lines:
        command = COMMAND.match(line)
        if command is None:
            raise AssertionError("a chunk that the writer has not made")
        id = url_id(msgspec.json.decode(command[3], type=str))
        yield id.encode("utf-8", "surrogatepass"), command[1] == b"delete"


def ids_of_documents(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the ids of documents and deletions, without updates of ACLs."""
    return ids_of(line for line in lines if not _is_update(line))


def _is_update(line: bytes) -> bool:
    command = COMMAND.match(line)
    return command is not None and command[2] is not None


def _stored(document: dict[str, object]) -> bytes:
    if document.get(WITHHELD_FIELD):
        return stored_decision({**withheld_fields()})
    stated = {name: document[name] for name in _NAMES if name in document}
    return stored_decision(msgspec.convert(stated, type=dict[str, Tokens]))
