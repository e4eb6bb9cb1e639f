"""Write rejects of a run as files that can be corrected and converted.

::

    001-gsa-feed.xml     whole records of feeds with one header; the reason is in a comment
    002-groups-csv.csv   lines of a source that is no XML, below its first line
    003-records.jsonl    records that were read, if their source is no feed or has changed
    raw/000017.xml       damaged bytes, unchanged: the export does not guess what they mean
    raw/people.json      rows of a database, which are corrected there
    export.json          which rejects are in which file

The feeds are read again, because a record depends on the header and the group around it. A feed
that was full is exported as incremental: a few records as a full feed would delete all others.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.rejects.excerpts import record_of
from feedferry.pipelines.rejects.newer_versions import NewerVersions
from feedferry.pipelines.rejects.run_rejects import RejectFilter, RunReject, rejects_of
from feedferry.schemas.codes import find_code
from feedferry.schemas.errors import ConfigError, FeedferryError
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.schemas.span import Span
from feedferry.schemas.units import counted, names_text
from feedferry.transforms.formats import JSONL, Format, WriteOptions, find_format
from feedferry.transforms.rules.feed_elements import (
    DECLARATION,
    FeedElement,
    FeedMarkup,
    find_elements,
)
from feedferry.transforms.rules.older_versions import OLDER_VERSION
from feedferry.transforms.sources import open_span, sniff_format
from feedferry.transforms.storage.atomic import write_json
from feedferry.transforms.storage.run_folders.attempts import digest_of
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.run_folders.run_record import read_run

INDEX = "export.json"
RAW = "raw"
"""Folder of bytes that cannot be converted as they are."""

_MAX_HEAD_BYTES = 4096
_COMPARED_BYTES = 64
_HEAD = re.compile(rb"GSA Adaptor Data Version [^\[]*\[[^\]]*\]\n?|[^\n]+\n")
"""The header of a command stream, or the first line of a table."""

_NOT_IN_COMMENTS = re.compile(r"[^\x20-\x7e]|[<>]")


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with rejects; damaged bytes need the texts `head` and `tail` to be a feed.

    `sha256` is that of the file as it was exported.
    """

    path: str
    sha256: str = ""
    numbers: list[int] = []
    is_raw: bool = False
    head: str = ""
    tail: str = ""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an export of a run that began at a time; paths are relative to its folder."""

    version: int = 1
    run: str
    began: datetime | None = None
    files: list[ExportedFile] = []


def export(run: Path, chosen: RejectFilter, folder: Path, *, base: Path) -> Export:
    """Write the rejects that are neither accepted nor replayed, and have bytes, to a new folder.

    Names of sources are relative to the working folder, or to `base`. Raises ConfigError if the
    folder exists, or if there are no such rejects.
    """
    if folder.exists():
        raise ConfigError(f"⟦output⟧ {folder}: exists; expected a new folder")
    newer = NewerVersions(run)
    sources: dict[tuple[Path | None, str], _Places] = {}
    for found in _open_rejects(run, chosen, newer):
        reject = found.reject
        key = (run if reject.stage == "push" else None, reject.source)
        light = replace(reject, data=reject.data[:_COMPARED_BYTES])
        places = sources.setdefault(key, {})
        places.setdefault(reject.offset, []).append(found._replace(reject=light))
    if not sources:
        cures = [*cures_without_bytes(run, chosen)]
        text = f"{shown(run)}: no rejects to export; feedferry rejects list shows their state"
        raise ConfigError("\n".join([text, *cures]))
    with ExitStack() as streams:
        writer = _ExportWriter(folder, streams)
        for (parent, source), places in sources.items():
            paths = (base / source for base in ([parent] if parent else [Path(), base]))
            if path := next((path for path in paths if path.is_file()), None):
                _export_source(writer, Span(source=source, path=str(path)), places)
        for found in _open_rejects(run, chosen, newer):
            if found.number not in writer.numbers:
                writer.add_other(found)
    files = [replace(file, sha256=digest_of(folder / file.path)) for file in writer.files]
    record = read_run(run)
    began = None if record is None else record.started_at
    made = Export(run=shown(run.absolute()), began=began, files=files)
    write_json(folder / INDEX, msgspec.to_builtins(made))
    return made


def cures_without_bytes(run: Path, chosen: RejectFilter) -> Iterator[str]:
    """Yield a line for each code with the new rejects whose bytes cannot be corrected.

    One line has those whose documents have a newer version.
    """
    numbers: dict[str, list[int]] = {}
    newer, older = NewerVersions(run), list[int]()
    for found in rejects_of(run, chosen):
        if found.is_new and not found.is_correctable:
            numbers.setdefault(found.reject.code, []).append(found.number)
        elif found.is_new and newer.has(found.reject):
            older.append(found.number)
    if older:
        rejects, shown = counted(len(older), "reject"), names_text([*map(str, older)])
        yield (
            f"{rejects} of documents with a newer version in the run, not exported: {shown}. If"
            " that version is not the last one, correct the source, and run again."
        )
    for name, of_code in sorted(numbers.items()):
        code = find_code("reject", name)
        cure = code.cure if code else "Correct the source."
        shown = names_text([*map(str, of_code)])
        rejects = counted(len(of_code), "reject")
        why = "" if name == OLDER_VERSION else " without bytes"
        yield f"{name}: {rejects}{why}, not exported: {shown}. {cure} Then run again."


_Places = dict[int, list[RunReject]]
"""Rejects by the byte at which they begin."""


class _ExportWriter:
    """The files of one export, whose streams are closed by `streams`."""

    def __init__(self, folder: Path, streams: ExitStack) -> None:
        self._folder = folder
        self._streams = streams
        self._feeds: dict[tuple[str, bytes, bytes], _FeedFile] = {}
        self._appended: dict[str, tuple[IO[bytes], ExportedFile]] = {}
        self._jsonl = JSONL.make_encoder(WriteOptions())
        self.line_heads: dict[str, tuple[Format, bytes]] = {}
        self.files: list[ExportedFile] = []
        self.numbers: set[int] = set()
        (folder / RAW).mkdir(parents=True)

    def add_element(self, format_: Format, element: FeedElement, rejects: list[RunReject]) -> None:
        """Add an element: to the feed of its header if it is well-formed, else its bytes."""
        markup, numbers = element.markup, [found.number for found in rejects]
        self.numbers.update(numbers)
        if element.is_damaged or not markup.is_document(element.text):
            path = f"{RAW}/{numbers[0]:06d}.xml"
            (self._folder / path).write_bytes(element.text)
            head, tail = (markup.head, markup.tail) if markup.is_document(b"") else (b"", b"")
            file = ExportedFile(path=path, numbers=numbers, is_raw=True)
            self.files.append(replace(file, head=head.decode(), tail=tail.decode()))
            return
        key = format_.name, markup.root, markup.header
        if key not in self._feeds:
            stream, file = self._new_file(f"{format_.name}.xml")
            self._feeds[key] = _FeedFile(stream, file.numbers, markup)
            self._streams.callback(self._feeds[key].close)
        self._feeds[key].add(markup, element.text, rejects)

    def add_other(self, found: RunReject) -> None:
        """Add a reject that is in no feed: as a record if it was read, else its bytes."""
        reject, record = found.reject, record_of(found.reject)
        suffix = Path(reject.source).suffix
        if record is not None:
            provenance = record.provenance
            if provenance.feedtype == FULL:
                record = replace(record, provenance=replace(provenance, feedtype=INCREMENTAL))
            data = self._jsonl.frame([self._jsonl.encode(record)])
            self._append("records.jsonl", b"", data, found.number)
        elif reject.source in self.line_heads and not reject.truncated:
            format_, head = self.line_heads[reject.source]
            self._append(f"{format_.name}{suffix}", head, reject.data, found.number)
        elif not reject.line and not reject.offset and reject.data.startswith(b"{"):
            name = f"{RAW}/{Path(reject.source).stem}.json"
            self._append(name, b"", reject.data, found.number)
        else:
            name = f"{RAW}/{found.number:06d}{suffix or '.bin'}"
            self._append(name, b"", reject.data, found.number)

    def _append(self, name: str, head: bytes, data: bytes, number: int) -> None:
        """Append to the file of this name, which begins with `head`."""
        if name not in self._appended:
            self._appended[name] = self._new_file(name)
            self._appended[name][0].write(head)
        stream, file = self._appended[name]
        is_whole = data.endswith(b"\n") or (file.is_raw and not name.endswith(".json"))
        stream.write(data if is_whole else data + b"\n")
        file.numbers.append(number)

    def _new_file(self, name: str) -> tuple[IO[bytes], ExportedFile]:
        is_raw = name.startswith(f"{RAW}/")
        path = name if is_raw else f"{len(self._feeds) + len(self._appended) + 1:03d}-{name}"
        file = ExportedFile(path=path, is_raw=is_raw)
        self.files.append(file)
        return self._streams.enter_context((self._folder / path).open("wb")), file


class _FeedFile:
    """A feed of rejected records: groups are opened and closed as they change."""

    def __init__(self, stream: IO[bytes], numbers: list[int], markup: FeedMarkup) -> None:
        self._stream = stream
        self._numbers = numbers
        self._markup = markup._replace(group=b"")
        stream.write(DECLARATION + markup.root + b"\n" + (markup.header and markup.header + b"\n"))

    def add(self, markup: FeedMarkup, text: bytes, rejects: list[RunReject]) -> None:
        if markup.group != self._markup.group:
            self._write_line(self._markup.group_end.encode())
            self._write_line(markup.group)
            self._markup = markup
        numbers = [found.number for found in rejects]
        self._numbers += numbers
        reasons = "; ".join(f"{found.reject.code}: {found.reject.reason}" for found in rejects)
        words = _NOT_IN_COMMENTS.sub(" ", reasons).replace("--", "- -")
        self._write_line(f"<!-- {', '.join(map(str, numbers))}: {words} -->".encode())
        self._write_line(text.strip())

    def close(self) -> None:
        self._write_line(self._markup.group_end.encode())
        self._write_line(f"</{self._markup.root_name}>".encode())

    def _write_line(self, text: bytes) -> None:
        self._stream.write(text and text + b"\n")


def _open_rejects(run: Path, chosen: RejectFilter, newer: NewerVersions) -> Iterator[RunReject]:
    return (
        found
        for found in rejects_of(run, chosen)
        if found.is_new and found.is_correctable and not newer.has(found.reject)
    )


def _export_source(writer: _ExportWriter, span: Span, places: _Places) -> None:
    """Read a source again, and export what begins where records of an XML feed were rejected."""
    try:
        format_ = find_format(sniff_format(span))
        if format_ is None:
            return
        if format_.element_names is not None:
            _export_feed(writer, span, format_, places)
            return
        with open_span(span) as stream:
            start = stream.read(_MAX_HEAD_BYTES)
        head = _HEAD.match(b"" if format_.keeps_everything else start)
        writer.line_heads[span.source] = format_, head[0] if head else b""
    except FeedferryError:  # what cannot be read again is exported from the rejects
        return


def _export_feed(writer: _ExportWriter, span: Span, format_: Format, places: _Places) -> None:
    """Elements with other bytes than those of the reject are left: the feed has changed."""
    with open_span(span, is_partial=True) as stream:
        for element in find_elements(stream, format_, span, places):
            same = [
                found
                for found in places[element.offset]  # a record has other bytes than its element
                if found.reject.stage not in ("read", "push")
                or element.original.startswith(found.reject.data)
            ]
            if same:
                writer.add_element(format_, element, same)
