"""Older versions of documents whose newest version in a run is rejected.

The ACL of the rejected version is not written, and that of an older version may permit more. When
all spans are converted, the run looks for older versions of what was rejected. Spans that may have
some are converted again, and reject them.

Which spans these are is known by hashes of the URLs, where records go one by one. Elsewhere the
chunks are searched for the URLs; where they have none, every span may have older versions.
"""

from array import array
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from os.path import commonprefix
from pathlib import Path
from zlib import crc32

import msgspec

from feedferry.schemas.account import Account, SpanFile, place_of
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import DELETIONS, Action, Arrival, Record
from feedferry.schemas.reject import Reject, reject_record
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.formats.text.byte_scans import find
from feedferry.transforms.formats.text.xml_text import escape_attribute, escape_text
from feedferry.transforms.storage.atomic import AtomicFile, paths_of, read_lines
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import Storage

OLDER_VERSION = "older-version"
"""The code of the rejects of older versions. They are not replayed: a newer version exists."""

_REFUSED, _VERSIONS = ".refused.jsonl", ".versions.u32"
_BLOCK_BYTES = 16 << 20
_LEAST_PREFIX = len("http")
_DELETIONS = frozenset(action.value for action in DELETIONS)
_encode = msgspec.json.Encoder().encode


class _RefusedVersion(msgspec.Struct, frozen=True, array_like=True):
    """A rejected version of a URL, and its number among the records of its span."""

    url: str
    number: int


class OlderVersions(msgspec.Struct, frozen=True):
    """The last rejected version of each URL, by its span and its number there.

    `spans` are the names of the spans with older versions, None where that is not known.
    """

    refused: dict[str, tuple[str, int]] = {}
    spans: frozenset[str] | None = frozenset()

    def may_be_in(self, span: str) -> bool:
        """Whether a span may have an older version of what was rejected."""
        if self.spans is not None:
            return span in self.spans
        return span <= max(last for last, _ in self.refused.values())

    def check(self, record: Record, span: str, number: int) -> Reject | None:
        """Return the reject of a record that is older than a rejected version, else None."""
        refused = self.refused.get(record.url.strip())
        if refused is None or (span, number) >= refused or record.action in DELETIONS:
            return None
        reason = (
            "an older version of a document whose newest version is rejected; expected a newest"
            " version that is written, because the older one may be open to more users"
        )
        return reject_record(record, RecordError(OLDER_VERSION, reason), stage="transform")


NO_OLDER_VERSIONS = OlderVersions()


class VersionLog:
    """Lists the versions in one span: rejected ones, and hashes of the URLs of all.

    It `has_hashes` where records go one by one: for a batch, they would cost as much as the batch.
    Without them, each span may have any URL.
    Numbers count the results that were read of the span, from 1.
    """

    def __init__(self, storage: Storage, name: str, *, has_hashes: bool) -> None:
        self._refused = AtomicFile(storage, f"{name}{_REFUSED}")
        self._versions = AtomicFile(storage, f"{name}{_VERSIONS}")
        self._hashes = array("I") if has_hashes else None

    @property
    def written(self) -> list[SpanFile]:
        """The complete files, after they were closed."""
        return [file.written for file in (self._refused, self._versions) if file.written]

    def add(self, record: Record, number: int) -> None:
        """Add a record that was read; deletions are not versions."""
        if self._hashes is not None and record.action not in DELETIONS:
            if (others := number - 1 - len(self._hashes)) > 0:
                self._hashes.extend([0] * others)
            self._hashes.append(_hash(record.url.strip()))

    def reject(self, reject: Reject, origin: Record | None, number: int) -> None:
        """Add a reject unless the ACL is kept; `origin` is the record before all steps, if any."""
        url = reject.url if origin is None else origin.url
        if url and reject.action not in _DELETIONS and (origin is None or not _keeps_acl(origin)):
            with suppress(UnicodeEncodeError):  # no record can be written that has this URL
                self._refused.write(_encode(_RefusedVersion(url.strip(), number)) + b"\n")

    def close(self, *, whole: bool) -> None:
        if whole and self._hashes is not None:
            self._versions.write(self._hashes.tobytes())
            self._versions.finish()
        for file in (self._refused, self._versions):
            file.close(whole=whole)


def _keeps_acl(record: Record) -> bool:
    """Whether a record leaves the ACL of its document as it is."""
    is_partial = record.action is Action.UPDATE or record.arrival is Arrival.CRAWLED
    states_acl = record.acl or any(is_acl_name(meta.name) for meta in record.metadata)
    return is_partial and not states_acl


def find_older_versions(folder: Path, account: Account) -> OlderVersions:
    """Return the rejected versions of a run, and the spans that may have older ones."""
    refused: dict[str, tuple[str, int]] = {}
    for path in paths_of(folder, account.files, _REFUSED):
        for version in read_lines([path], _RefusedVersion):
            refused[version.url] = (_span_of(path), version.number)
    if not refused:
        return NO_OLDER_VERSIONS
    lists = paths_of(folder, account.files, _VERSIONS)
    spans = _spans_by_hash(lists, refused) if lists else _spans_by_chunk(folder, account, refused)
    return OlderVersions(refused, spans) if spans is None or spans else NO_OLDER_VERSIONS


def _spans_by_hash(lists: Iterable[Path], refused: dict[str, tuple[str, int]]) -> frozenset[str]:
    last: dict[int, tuple[str, int]] = {}
    for url, place in refused.items():
        last[_hash(url)] = max(place, last.get(_hash(url), place))
    return frozenset(
        span
        for path in lists
        for span in (_span_of(path),)
        for at, key in enumerate(array("I", path.read_bytes()), start=1)
        if key in last and (span, at) < last[key]
    )


def _spans_by_chunk(
    folder: Path, account: Account, refused: dict[str, tuple[str, int]]
) -> frozenset[str] | None:
    """Return the spans whose chunks have one of the URLs; None for chunks that are not there."""
    marks = {mark for url in refused for mark in _forms(url)}
    spans = set()
    for chunk in account.chunks:
        path = folder / chunk.path
        if not path.exists() or not _has(path, _forms(chunk.first_url)):
            return None
        if _has(path, marks):
            spans.add(place_of(chunk)[0])
    return frozenset(spans)


def _forms(url: str) -> set[bytes]:
    """Return a URL as formats write it: as it is, in XML and in JSON."""
    texts = (url, escape_attribute(url), escape_text(url), _encode(url)[1:-1].decode())
    return {text.encode() for text in texts if text}


def _has(path: Path, marks: Collection[bytes]) -> bool:
    """Whether a file has one of the marks; True if they have no common prefix to look for."""
    prefix = commonprefix([*marks])  # noqa: RUF071 # of bytes, not of paths
    if marks and len(prefix) < _LEAST_PREFIX:
        return True
    lengths = sorted({*map(len, marks)})
    tail = b""
    with path.open("rb") as stream:
        while marks and (block := stream.read(_BLOCK_BYTES)):
            data = tail + block
            at = find(data, prefix)
            while at >= 0:
                if any(data[at : at + length] in marks for length in lengths):
                    return True
                at = find(data, prefix, at + 1)
            tail = data[-lengths[-1] :]
    return False


def store_older_versions(older: OlderVersions, folder: str) -> str:
    """Store the versions in the folder of a run; return the name of the file."""
    data = msgspec.json.encode(older, order="sorted")
    name = f"older-versions-{sha256(data).hexdigest()[:16]}.json"
    storage_of(folder).put_if_absent(name, data)
    return name


@lru_cache(maxsize=4)
def load_older_versions(folder: str, name: str) -> OlderVersions:
    """Return the versions that were stored by this name; none without a name."""
    data = storage_of(folder).get(name) if name else None
    return NO_OLDER_VERSIONS if data is None else msgspec.json.decode(data, type=OlderVersions)


def _hash(url: str) -> int:
    return crc32(url.encode("utf-8", "surrogatepass"))


def _span_of(path: Path) -> str:
    return path.name.partition(".")[0]
