"""The reply of a Thunderstone appliance to data: a ThunderstoneReplicationResult.

**Spec:** Parametric Search Appliance manual, "Reply Format". The replies are modelled on the manual
and were never compared with an appliance. The manual does not say where a Status about the whole
request is placed: here it has an ItemResult of its own, and Rows is 0. The manual's example has a
`DP` with Type D; its text has it with DP only, and so do these replies.
"""

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
from feedferry.transforms.formats.text.xml_text import holds
from feedferry.transforms.formats.thunderstone.rows import TYPES
from feedferry.transforms.formats.xml.serializer import element

OK = "OK"
FAIL = "FAIL"
UNKNOWN_TYPE = "FAIL_UNKNOWNTYPE"
NO_DATA = "NODATA"
NOT_ALLOWED = "Not Allowed"
NO_PROFILE = "No Profile"
NOT_FOUND = "Not found"
VERSION = "Version 5.01.0 20051010 (feedferry, modelled on the manual)\n2005-10-10 12:34:56"

_ID = element("rid", "000000000")
_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<ThunderstoneReplicationResult>\n'
_TAIL = b"</ThunderstoneReplicationResult>\n"
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
            out.write(_HEAD)
            rows = 0
            for reply in self._read(stream):
                out.write(reply)
                rows += 1
            if not rows:
                raise FormatError("a document without Items; expected one or more")
            out.write(_end(rows))
            opened.pop_all()
        return out

    def _read(self, stream: IO[bytes]) -> Iterator[bytes]:
        """Yield an ItemResult for each Item; damage without an Item has no reply."""
        for result in THUNDERSTONE.read(stream, options=self.options):
            if isinstance(result, Record):
                try:
                    yield self._reply_to(result)
                except Exception as exc:  # a defect costs the Item, not the document
                    yield _item_result(FAIL, notice=record_error(exc).reason)
            elif isinstance(result, Reject) and result.code != TORN and _ITEM in result.data:
                match = _TYPE.search(result.data)
                kind = match[1].decode("utf-8", "replace").strip() if match else ""
                status = UNKNOWN_TYPE if result.code in _UNKNOWN_TYPE_CODES else FAIL
                yield _item_result(status, kind=kind, notice=result.reason)

    def _reply_to(self, record: Record) -> bytes:
        kind, action = str(TYPES.encode(record.action)), record.action
        if record.url in self.refused_urls:
            return _item_result(FAIL, kind=kind, notice=REFUSED_BY_SCENARIO)
        if action is Action.DELETE_PATTERN:
            try:
                check_pattern(record.url)
            except RecordError as exc:
                return _item_result(FAIL, kind=kind, count=0, notice=exc.reason)
            count = self.count_matching(record.url)
            return _item_result(OK, kind=kind, count=count, notice="" if count else NOT_FOUND)
        if action is Action.DELETE and not self.has_document(record.url):
            return _item_result(OK, kind=kind, notice=NOT_FOUND)
        return _item_result(OK, kind=kind)


def refusal(status: str) -> bytes:
    """Return the reply to a request that is refused as a whole."""
    return _HEAD + _item_result(status) + _end(0)


def _item_result(
    status: str, *, kind: str | None = None, count: int | None = None, notice: str = ""
) -> bytes:
    stated = (
        ("Type", kind),
        ("DP", None if count is None else str(count)),
        ("Status", status),
        ("Info", notice or None),
    )
    inner = "".join(element(name, _xml_text(text)) for name, text in stated if text is not None)
    return f"<ItemResult>{_ID}{inner}</ItemResult>\n".encode()


def _end(rows: int) -> bytes:
    figures = f"{element('Rows', str(rows))}\n{element('Version', VERSION)}\n"
    return figures.encode() + _TAIL


def _xml_text(text: str) -> str:
    """Return a text that XML can hold; the reason for a damaged Item may quote anything."""
    return text if holds(text) else "".join(char if holds(char) else "?" for char in text)
