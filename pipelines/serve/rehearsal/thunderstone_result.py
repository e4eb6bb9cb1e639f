"""What a Thunderstone appliance replies to data: a ThunderstoneReplicationResult.

**Spec:** Parametric Search Appliance manual, "Reply Format". It is modelled on the manual and was
never compared with an appliance. The manual does not say where a Status stands that is about
the request as a whole: we give it an ItemResult of its own, and Rows of 0. Nor does it say whether
the `DP` of its example, beside a Type D, is meant: we have it beside DP only, as its text says.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO, cast

from pipelines.serve.rehearsal.digest import TORN, Interrupted
from pipelines.serve.rehearsal.documents import REFUSED, check_pattern
from schemas.defect import record_error
from schemas.errors import FormatError, RecordError
from schemas.record import Action, Record
from schemas.reject import Reject
from transforms.formats import THUNDERSTONE
from transforms.formats.base import ReadOptions
from transforms.formats.thunderstone.item_reader import ACTIONS
from transforms.formats.xml.serializer import element, holds

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
_TYPES = {action: name for name, action in ACTIONS.items()}
_UNKNOWN = ("unknown-type", "no-type")
_ITEM = b"<Item"
_TYPE = re.compile(rb"<Type\s*>([^<]*)</Type")
_MEMORY_BYTES = 1 << 20


def result(  # noqa: PLR0913 - what an appliance knows, and its bounds
    stream: IO[bytes],
    *,
    refused_urls: frozenset[str] = frozenset(),
    is_held: Callable[[str], bool] = lambda url: True,
    count_fitting: Callable[[str], int] = lambda pattern: 0,
    options: ReadOptions = ReadOptions(),
    is_over: Callable[[], bool] = lambda: False,
) -> IO[bytes]:
    """Return a temporary file that answers each Item; raise FormatError where there is none.

    Raises Interrupted when `is_over` says so, which is asked between two results of the reader.

    `is_held` and `count_fitting` tell what an appliance holds before the document: what an Item
    adds is not known to a deletion further down.
    """
    answers = _Answers(refused_urls, is_held, count_fitting, is_over)
    with ExitStack() as opened:
        out = opened.enter_context(SpooledTemporaryFile(_MEMORY_BYTES))
        out.write(_HEAD)
        rows = 0
        for answer in answers.read(stream, options):
            out.write(answer)
            rows += 1
        if not rows:
            raise FormatError("a document without Items; expected one or more")
        out.write(_end(rows))
        opened.pop_all()
    return cast(IO[bytes], out)


def refusal(status: str) -> bytes:
    """Return the reply to a request of which nothing is taken."""
    return _HEAD + _answer(status) + _end(0)


class _Answers:
    """What is answered to Items, one by one."""

    def __init__(
        self,
        refused_urls: frozenset[str],
        is_held: Callable[[str], bool],
        count_fitting: Callable[[str], int],
        is_over: Callable[[], bool],
    ) -> None:
        self._refused = refused_urls
        self._is_held = is_held
        self._count_fitting = count_fitting
        self._is_over = is_over

    def read(self, stream: IO[bytes], options: ReadOptions) -> Iterator[bytes]:
        """Yield an ItemResult for each Item; stretches that hold none have none."""
        for one in THUNDERSTONE.read(stream, options=options):
            if self._is_over():
                raise Interrupted
            if isinstance(one, Record):
                yield self._of_record(one)
            elif isinstance(one, Reject) and one.code != TORN and _ITEM in one.data:
                status = UNKNOWN_TYPE if one.code in _UNKNOWN else FAIL
                yield _answer(status, kind=_type_of(one), notice=one.reason)

    def _of_record(self, record: Record) -> bytes:
        try:
            return self._of(record)
        except Exception as exc:
            return _answer(FAIL, notice=record_error(exc).reason)

    def _of(self, record: Record) -> bytes:
        kind, action = _TYPES[record.action], record.action
        if record.url in self._refused:
            return _answer(FAIL, kind=kind, notice=REFUSED)
        if action is Action.DELETE_PATTERN:
            return self._of_pattern(record.url)
        if action is Action.DELETE and not self._is_held(record.url):
            return _answer(OK, kind=kind, notice=NOT_FOUND)
        return _answer(OK, kind=kind)

    def _of_pattern(self, pattern: str) -> bytes:
        kind = _TYPES[Action.DELETE_PATTERN]
        try:
            check_pattern(pattern)
        except RecordError as exc:
            return _answer(FAIL, kind=kind, count=0, notice=exc.reason)
        count = self._count_fitting(pattern)
        return _answer(OK, kind=kind, count=count, notice="" if count else NOT_FOUND)


def _answer(
    status: str, *, kind: str | None = None, count: int | None = None, notice: str = ""
) -> bytes:
    stated = (
        ("Type", kind),
        ("DP", None if count is None else str(count)),
        ("Status", status),
        ("Info", notice or None),
    )
    inner = "".join(element(name, _held(text)) for name, text in stated if text is not None)
    return f"<ItemResult>{_ID}{inner}</ItemResult>\n".encode()


def _end(rows: int) -> bytes:
    figures = f"{element('Rows', str(rows))}\n{element('Version', VERSION)}\n"
    return figures.encode() + _TAIL


def _type_of(reject: Reject) -> str:
    found = _TYPE.search(reject.data)
    return found[1].decode("utf-8", "replace").strip() if found else ""


def _held(text: str) -> str:
    """The text as XML can hold it: of a torn Item anything may be told."""
    return text if holds(text) else "".join(char if holds(char) else "?" for char in text)
