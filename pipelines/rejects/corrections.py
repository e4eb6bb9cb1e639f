"""The files of an export as inputs of a replay, and which of their rejects a replay has converted.

A reject is converted only if a record was read in its place, and no record with the URL of that
record was rejected, filtered, or refused by the appliance.
"""

import re
import shlex
from bisect import bisect_left
from collections.abc import Collection, Sequence
from html import unescape
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.rejects.export import Export, ExportedFile
from feedferry.pipelines.rejects.run_rejects import rejects_of
from feedferry.pipelines.report.run_data import read_run_data
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, by_name
from feedferry.transforms.rules.feed_elements import find_elements, is_well_formed
from feedferry.transforms.sources import SpanRequest, open_span, read_span, sniff_format
from feedferry.transforms.storage.atomic import write_whole
from feedferry.transforms.storage.files.journal import Journal
from feedferry.transforms.storage.run_folders.attempts import digest_of

CORRECTED = "corrected"
"""Folder of an export with files that were completed or shortened for a replay."""

_COMMENT = re.compile(rb"<!-- ([0-9]+(?:, [0-9]+)*): ")


class Corrections(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a replay, and the URLs of the records in the place of each reject.

    A record that cannot be read is None. `left` are files that cannot be replayed.
    """

    inputs: list[str] = []
    urls: dict[int, list[str | None]] = {}
    left: list[str] = []


def read_corrections(
    folder: Path, index: Export, replayed: Collection[int], reading: ReadOptions
) -> Corrections:
    """Return what can be replayed of an export.

    Damaged bytes that are well-formed now are completed to a feed. Records that were replayed
    before are left out.
    """
    corrections = Corrections()
    for file in index.files:
        path = (folder / file.path).absolute()
        numbers = [number for number in file.numbers if number not in replayed]
        if not path.exists() or not numbers:
            continue
        text = (
            _completed(path, file) if file.is_raw else _shortened(path, file, replayed, index.run)
        )
        if text is not None:
            path = _store(folder.absolute() / CORRECTED / path.name, text)
        urls = {} if file.is_raw and text is None else _urls_of(path, numbers, reading)
        if urls:
            corrections.inputs.append(str(path))
            corrections.urls.update(urls)
        else:
            corrections.left.append(file.path)
    return corrections


def files_as_exported(folder: Path, index: Export, replayed: Collection[int]) -> list[str]:
    """Return the files that are not edited, without those of which all rejects are replayed."""
    return [
        file.path
        for file in index.files
        if {*file.numbers} - {*replayed}
        and (folder / file.path).exists()
        and digest_of(folder / file.path) == file.sha256
    ]


def converted_numbers(run: Path, corrections: Corrections) -> list[int]:
    """Return the numbers of the rejects that a replay has converted, and pushed if it pushes.

    They are none if a refused record has no reject of its own, or one with an unknown URL.
    """
    known = {url.strip() for urls in corrections.urls.values() for url in urls if url}
    decode = msgspec.json.Decoder(Filtered).decode
    filtered = Journal(run / "filtered.jsonl", decode, expected="a filtered record")
    bad = {record.url for record in filtered.read()}
    refused = 0
    for found in rejects_of(run):
        url = (found.reject.url or "").strip()
        if found.reject.stage == "push":
            refused += 1
            url = unescape(url)
        if found.reject.stage != "read":  # what is unreadable is None in `corrections`
            bad.add(url)
            if url not in known:
                return []
    pushes = read_run_data(run, has_chunks=False).push_reports
    if refused != sum(push.records["refused"] for push in pushes):
        return []
    return [
        number
        for number, urls in corrections.urls.items()
        if urls and all(url is not None and url.strip() not in bad for url in urls)
    ]


def _completed(path: Path, file: ExportedFile) -> bytes | None:
    """Return damaged bytes as a feed, None unless that is well-formed."""
    text = file.head.encode() + path.read_bytes() + file.tail.encode()
    return text if file.head and is_well_formed(text) else None


def _shortened(path: Path, file: ExportedFile, replayed: Collection[int], run: str) -> bytes | None:
    """Return a file without its replayed records, None if it has none.

    Elements become blanks, so that the others keep their places.
    """
    if not {*file.numbers} & {*replayed}:
        return None
    format_ = by_name(_span_of(path).format)
    text = path.read_bytes()
    if format_.element_names is None:
        lines = text.splitlines(keepends=True)
        heads = 0 if format_.keeps_everything else 1
        if len(lines) == heads + len({*file.numbers} - {*replayed}):
            return text
        if len(lines) != heads + len(file.numbers):
            command = (
                f"feedferry rejects export {shlex.quote(run)} -o {shlex.quote(f'{path}-others')}"
            )
            raise ConfigError(
                f"{path}: a part of its rejects is replayed, and its lines are not those of the"
                f" export; expected a file of the others: {command}"
            )
        pairs = zip(file.numbers, lines[heads:], strict=True)
        kept = [line for number, line in pairs if number not in replayed]
        return b"".join([*lines[:heads], *kept])
    with open_span(Span(source=str(path), path=str(path))) as stream:
        elements = [*find_elements(stream, format_, _span_of(path), range(len(text)))]
    blanked = bytearray(text)
    owners = _owners(text, [element.offset for element in elements], file.numbers)
    for element, numbers in zip(elements, owners, strict=True):
        if numbers and {*numbers} <= {*replayed}:
            place = slice(element.offset, element.offset + len(element.original))
            blanked[place] = re.sub(rb"\S", b" ", blanked[place])
    return bytes(blanked)


def _store(path: Path, text: bytes) -> Path:
    """Write a file unless it has this text: an input that is unchanged is not converted again."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_bytes() != text:
        write_whole(path, text)
    return path


def _urls_of(
    path: Path, numbers: Sequence[int], reading: ReadOptions
) -> dict[int, list[str | None]]:
    """Return the URLs of the records in the place of each reject; None is an unreadable record."""
    span, items = _span_of(path), list[tuple[int, str | None]]()
    for result in read_span(SpanRequest(span=span, options=reading)):
        if isinstance(result, Record | Membership):
            items.append((result.provenance.offset, result.url))
        elif isinstance(result, Reject):
            items.append((result.offset, None))
    if by_name(span.format).element_names is not None:
        items.sort(key=itemgetter(0))
        owners = _owners(path.read_bytes(), [offset for offset, _ in items], numbers)
    elif len(items) == len(numbers):
        owners = [[number] for number in numbers]
    else:
        owners = [[*numbers] for _ in items]
    urls: dict[int, list[str | None]] = {}
    for (_, url), of_item in zip(items, owners, strict=True):
        for number in of_item:
            urls.setdefault(number, []).append(url)
    return urls


def _owners(text: bytes, offsets: Sequence[int], numbers: Sequence[int]) -> list[list[int]]:
    """Return the rejects of each element: those of the last comment before it.

    In a file without any comment, all elements belong to all rejects.
    """
    known = {*numbers}
    comments = [
        (match.start(), own)
        for match in _COMMENT.finditer(text)
        if known.issuperset(own := [*map(int, match[1].split(b", "))])
    ]
    if not comments:
        return [[*numbers] for _ in offsets]
    begins = [begin for begin, _ in comments]
    return [
        comments[at - 1][1] if (at := bisect_left(begins, offset)) else [] for offset in offsets
    ]


def _span_of(path: Path) -> Span:
    span = Span(source=str(path), path=str(path))
    return replace(span, format=sniff_format(span))
