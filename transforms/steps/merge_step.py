"""`merge`: a partial update becomes the whole document, by a snapshot of the documents.

The documents of all partial updates of a run are stored in an SQLite file before records are
converted. Workers look them up there, so that neither memory nor a shuffle has their contents.
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Arrival, Record
from feedferry.transforms.config.yaml_structs import Text, parse_text
from feedferry.transforms.steps.step import TransformStep
from feedferry.transforms.storage.files.scratch import read_scratch, whole_scratch

_DIGEST_BYTES = 16
_BLANKS = " \t\r\n"
_SCHEMA = "CREATE TABLE documents (url BLOB PRIMARY KEY, record BLOB NOT NULL)"


class MergeRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files with the documents that are updated: a folder, or one file."""

    base: Text

    @classmethod
    def from_scalar(cls, value: object) -> "MergeRules":
        return cls(base=parse_text(value))


class MergeStep(TransformStep):
    """Replaces each partial update by its document, as it is after the last update of the run.

    `stored` is the file with these documents; without it, the step cannot be applied.
    """

    def __init__(self, rules: MergeRules, *, stored: Path | None) -> None:
        self._rules = rules
        if stored is not None:
            self._stored = read_scratch(stored)

    def apply(self, record: Record) -> Record:
        if not is_partial(record):
            return record
        query = "SELECT record FROM documents WHERE url = ?"
        row = self._stored.execute(query, (_key(record),)).fetchone()
        if row is None:
            raise RecordError(
                "merge-no-base",
                f"a partial update of a document that {self._rules.base!r} has no content of;"
                " expected the document there, or a whole record",
            )
        document = msgspec.msgpack.decode(row[0], type=Record)
        return replace(document, url=record.url, provenance=record.provenance)


def is_partial(record: Record) -> bool:
    """Whether a record changes fields of a document that is pushed, and leaves the others."""
    return (
        record.action is Action.UPDATE
        and record.arrival is not Arrival.CRAWLED
        and not (record.acl is not None and record.acl.alone)
    )


def store_documents(path: Path, documents: Iterable[Record]) -> None:
    """Store the documents of partial updates, one of each URL."""
    with whole_scratch(_SCHEMA, path) as database:
        for document in documents:
            row = (_key(document), msgspec.msgpack.encode(document))
            database.execute("INSERT INTO documents VALUES (?, ?)", row)


def _key(record: Record) -> bytes:
    url = record.url.strip(_BLANKS) if "://" in record.url else record.url
    return sha256(url.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
