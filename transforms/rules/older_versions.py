"""Older versions of documents whose newest version in a run is rejected for its ACL.

The ACL of the rejected version is not known or cannot be written, and that of an older version may
permit more. When all spans are converted, the run looks for older versions of what was rejected.
Spans that may have some are converted again, and reject them.
"""

from array import array
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import msgspec

from schemas.account import SpanFile
from schemas.errors import RecordError
from schemas.record import DELETIONS, Record
from schemas.reject import Reject, reject_record
from transforms.storage.atomic import AtomicFile, paths_of, read_lines
from transforms.storage.find_storage import storage_of
from transforms.storage.storage import Storage

_REFUSED, _VERSIONS = ".refused.jsonl", ".versions.u32"
_OF_ACCESS = frozenset({"bad-acl", "principal-unmapped"})
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
            "an older version of a document whose newest version is rejected for its ACL; expected"
            " a newest version whose ACL is known"
        )
        return reject_record(record, RecordError("older-version", reason), stage="transform")


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
            self._hashes.extend([0] * (number - 1 - len(self._hashes)))
            self._hashes.append(_hash(record.url.strip()))

    def reject(self, reject: Reject, url: str | None, number: int) -> None:
        """Add a reject of the record `number` of the span, if it is rejected for its ACL."""
        is_of_access = reject.code in _OF_ACCESS or reject.code.startswith("acl-")
        if url and is_of_access and reject.action not in _DELETIONS:
            self._refused.write(_encode(_RefusedVersion(url.strip(), number)) + b"\n")

    def close(self, *, whole: bool) -> None:
        if whole and self._hashes is not None:
            self._versions.write(self._hashes.tobytes())
            self._versions.finish()
        for file in (self._refused, self._versions):
            file.close(whole=whole)


def find_older_versions(folder: Path, files: Iterable[SpanFile]) -> OlderVersions:
    """Return the rejected versions of a run, and the spans that may have older ones."""
    stated = [*files]
    refused: dict[str, tuple[str, int]] = {}
    for path in paths_of(folder, stated, _REFUSED):
        for version in read_lines([path], _RefusedVersion):
            refused[version.url] = (_span_of(path), version.number)
    lists = paths_of(folder, stated, _VERSIONS)
    if not refused or not lists:
        return OlderVersions(refused, None) if refused else NO_OLDER_VERSIONS
    last: dict[int, tuple[str, int]] = {}
    for url, place in refused.items():
        last[_hash(url)] = max(place, last.get(_hash(url), place))
    spans = set()
    for path in lists:
        span = _span_of(path)
        hashes = array("I", path.read_bytes())
        if any(key in last and (span, at) < last[key] for at, key in enumerate(hashes, start=1)):
            spans.add(span)
    return OlderVersions(refused, frozenset(spans)) if spans else NO_OLDER_VERSIONS


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
