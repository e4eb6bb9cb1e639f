"""The journal of a spool: the feeds that a receiver took, in the order of their arrival.

A spool is a folder with a journal, `deliveries.jsonl`, and the files of the feeds that it names. It
may be read while the receiver writes to it: lines and files never change.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import FormatError, SourceError
from schemas.feed import CLEANUP, FULL, REPLACE, is_web

_decoder = msgspec.json.Decoder(Delivery)


def read_deliveries(spool: Path, after: int = 0) -> Iterator[Delivery]:
    """Yield the deliveries with an ordinal greater than `after`, in order of arrival.

    A last line without its end is still being written, and ignored; without a journal there are no
    deliveries. Raise FormatError for any other line that is no delivery. The lines before `after`
    are skipped by a binary search.
    """
    path = spool / JOURNAL
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    with stream:
        if after:
            _skip_to(stream, path, after)
        yield from _decode(stream, path, last=after)


def is_whole(delivery: Delivery) -> bool:
    """Whether a delivery replaces everything of its datasource or groupsource."""
    if delivery.door is Door.GROUPS:
        return delivery.feedtype in (FULL, CLEANUP, REPLACE)
    is_content = not is_web(delivery.datasource, delivery.feedtype)
    return delivery.door is Door.FEED and delivery.feedtype == FULL and is_content


def name_of(delivery: Delivery) -> str:
    """Return the datasource, groupsource or profile of a delivery."""
    return delivery.profile if delivery.door is Door.DATA else delivery.datasource


def queue_of(delivery: Delivery) -> tuple[Door, str]:
    """Return what orders deliveries: those with the same value are processed in order."""
    return delivery.door, name_of(delivery)


def _skip_to(stream: IO[bytes], path: Path, after: int) -> None:
    """Seek the first line with a greater ordinal; ordinals rise from line to line."""
    low, high = 0, stream.seek(0, os.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        stream.seek(max(middle - 1, 0))
        if middle:
            stream.readline()  # up to the first line that begins at the middle or after it
        begin, line = stream.tell(), stream.readline()
        has_end = begin < high and line.endswith(b"\n")
        if has_end and _decode_line(line, begin, path).ordinal <= after:
            low = stream.tell()
        else:
            high = middle
    stream.seek(low)


def _decode(stream: IO[bytes], path: Path, *, last: int) -> Iterator[Delivery]:
    offset = stream.tell()
    for line in stream:
        if not line.endswith(b"\n"):
            return
        delivery = _decode_line(line, offset, path)
        if delivery.ordinal <= last:
            raise _damaged(path, offset, f"ordinal {delivery.ordinal} after {last}")
        if delivery.path is not None and not _is_inside(delivery.path):
            raise _damaged(path, offset, f"path {delivery.path!r}, which is not below the spool")
        last = delivery.ordinal
        offset += len(line)
        yield delivery


def _decode_line(line: bytes, offset: int, path: Path) -> Delivery:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as exc:
        raise _damaged(path, offset, str(exc)) from exc


def _is_inside(path: str) -> bool:
    parts = {*path.split("/")}
    return not path.startswith("/") and ".." not in parts and bool(parts - {"", "."})


def _damaged(path: Path, offset: int, found: str) -> FormatError:
    with path.open("rb") as stream:
        number = 1 + stream.read(offset).count(b"\n")
    return FormatError(
        f"{path}:{number}: {found}; expected a delivery, as feedferry serve writes it; take the"
        " line out, and all but the feed that it names is read"
    )
