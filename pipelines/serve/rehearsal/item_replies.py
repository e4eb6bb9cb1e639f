"""The reply of a rehearsal appliance to data: a result for each Item of a document."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec

from feedferry.pipelines.serve.rehearsal.documents import REFUSED_BY_SCENARIO, TORN, check_pattern
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Reject, record_error
from feedferry.transforms.formats import THUNDERSTONE, ReadOptions
from feedferry.transforms.sinks.push.wire.replication_result import (
    FAIL,
    HEAD,
    NOT_FOUND,
    OK,
    UNKNOWN_TYPE,
    end,
    item_result,
    type_of,
)

_UNKNOWN_TYPE_CODES = ("unknown-type", "no-type")
_ITEM = b"<Item"
_TYPE = re.compile(rb"<Type\s*>([^<]*)</Type")
_MEMORY_BYTES = 1 << 20


class ItemReplies(msgspec.Struct, frozen=True, kw_only=True):
    """Replies to Items, one by one.

    `has_document` and `count_matching` report the state before the document: a deletion
    does not see additions by an earlier Item of the same document.
    """

    refused_urls: frozenset[str] = frozenset()
    has_document: Callable[[str], bool] = lambda url: True
    count_matching: Callable[[str], int] = lambda pattern: 0
    options: ReadOptions = ReadOptions()

    def write(self, stream: IO[bytes]) -> IO[bytes]:
        """Return a temporary file with a reply for each Item of a document.

        Raises FormatError if there is no Item.
        """
        with ExitStack() as opened:
            out = opened.enter_context(SpooledTemporaryFile(_MEMORY_BYTES))
            out.write(HEAD)
            rows = 0
            for reply in self._read(stream):
                out.write(reply)
                rows += 1
            if not rows:
                raise FormatError("a document without Items; expected one or more")
            out.write(end(rows))
            opened.pop_all()
        return out

    def _read(self, stream: IO[bytes]) -> Iterator[bytes]:
        """Yield an ItemResult for each Item; damage without an Item has no reply."""
        for result in THUNDERSTONE.read(stream, options=self.options):
            if isinstance(result, Record):
                try:
                    yield self._reply_to(result)
                except Exception as exc:  # a defect costs the Item, not the document
                    yield item_result(FAIL, notice=record_error(exc).reason)
            elif isinstance(result, Reject) and result.code != TORN and _ITEM in result.data:
                match = _TYPE.search(result.data)
                kind = match[1].decode("utf-8", "replace").strip() if match else ""
                status = UNKNOWN_TYPE if result.code in _UNKNOWN_TYPE_CODES else FAIL
                yield item_result(status, kind=kind, notice=result.reason)

    def _reply_to(self, record: Record) -> bytes:
        kind, action = type_of(record.action), record.action
        if record.url in self.refused_urls:
            return item_result(FAIL, kind=kind, notice=REFUSED_BY_SCENARIO)
        if action is Action.DELETE_PATTERN:
            try:
                check_pattern(record.url)
            except RecordError as exc:
                return item_result(FAIL, kind=kind, count=0, notice=exc.reason)
            count = self.count_matching(record.url)
            return item_result(OK, kind=kind, count=count, notice="" if count else NOT_FOUND)
        if action is Action.DELETE and not self.has_document(record.url):
            return item_result(OK, kind=kind, notice=NOT_FOUND)
        return item_result(OK, kind=kind)
