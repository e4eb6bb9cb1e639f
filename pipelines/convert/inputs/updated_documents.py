"""The documents of partial updates, of a base and of the inputs of a run.

Both are read twice: first as events without contents, which are divided by their URLs on disk
(`Spill`); then for the contents, in the order of the inputs.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.record import Action, Arrival, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.compare.events import Event, decoded, number_of
from feedferry.transforms.compare.history import Document, FeedHistory, each, with_contents
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps.merge_step import is_partial
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.files.spill import Spill

_SCHEMA = "CREATE TABLE wanted (number INTEGER PRIMARY KEY, document BLOB NOT NULL)"
_Results = Callable[[], Iterable[ReadResult]]


def updated_documents(base: _Results, inputs: _Results, folder: Path) -> Iterator[Record]:
    """Yield each document that the inputs update in part, as it is after the last such update.

    The functions return the results of the base and of the inputs. A document without a content is
    left out. Raises SourceError for results that have changed when they are read again.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with closing(scratch_database(_SCHEMA, folder / "wanted.db")) as wanted:
        for document in _folded(base, inputs, folder):
            row = (document.number, msgspec.msgpack.encode(document))
            wanted.execute("INSERT INTO wanted VALUES (?, ?)", row)
        rows = wanted.execute("SELECT document FROM wanted ORDER BY number")
        documents = (msgspec.msgpack.decode(data, type=Document) for (data,) in rows)
        for record in with_contents(documents, chain(base(), inputs())):
            yield replace(record, action=Action.ADD, arrival=Arrival.PUSHED)
    shutil.rmtree(folder)


def _folded(base: _Results, inputs: _Results, folder: Path) -> Iterator[Document]:
    """Yield the documents that have contents, without these, and whose ACLs are known.

    A version that is set aside may have stated another ACL, until a whole record replaces it.
    """
    history, spill, of_base = FeedHistory(), Spill(folder), 0

    def results() -> Iterator[ReadResult | Event]:
        nonlocal of_base
        for of_base, item in enumerate(each(base()), start=1):  # noqa: B007 # read below
            yield _event_of(item)
        yield from map(_event_of, each(inputs()))

    spill.add(0, history.stored(results()))
    for _, (rows,) in spill.keys(1):
        updates, unknown = [], False
        for number, event in map(decoded, rows):
            record = event.record
            if event.fault is not None:
                unknown = True
            elif record is not None and record.action is Action.ADD:
                unknown = False
            elif number >= of_base and record is not None and is_partial(record):
                updates.append(number)
        if updates and not unknown:
            document = history.document(row for row in rows if number_of(row) <= updates[-1])
            is_whole = document is not None and document.number is not None
            if document is not None and is_whole and not document.is_deleted:
                yield document


def _event_of(item: ReadResult | Event) -> ReadResult | Event:
    """Return a reject with a URL as an event of that URL with a fault, and others as they are."""
    if not isinstance(item, Reject) or not item.url:
        return item
    return Event(Record(url=item.url.strip(), action=Action.UPDATE), fault=item.code)
