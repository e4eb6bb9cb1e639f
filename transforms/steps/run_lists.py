"""Lists of a span that the run puts together: of URLs, unmapped principals and used patterns.

Two documents that become one URL may be in different spans, so that no worker knows of both.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from feedferry.schemas.account import SpanFile
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.steps.acl_step import UNDECIDED
from feedferry.transforms.steps.stated.group_log import GroupLog
from feedferry.transforms.steps.stated.stated_log import StatedLog
from feedferry.transforms.steps.step import AppliedSteps, StepResult
from feedferry.transforms.storage.atomic import AtomicFile, paths_of, read_lines
from feedferry.transforms.storage.storage import Storage

MAX_NAMES = 10_000
"""The names that a worker counts in memory; more are written, and counted again."""

_ORIGINS, _UNMAPPED, _USED = ".origins.jsonl", ".unmapped.jsonl", ".patterns.jsonl"
_WITHOUT_DOCUMENT = (Action.DELETE_PATTERN, Action.UPDATE_INDEX)
_encode = msgspec.json.Encoder().encode


class UrlOrigin(msgspec.Struct, frozen=True, array_like=True):
    """A URL after all steps, and the one before them."""

    url: str
    origin: str


class UnmappedName(msgspec.Struct, frozen=True, array_like=True):
    """A principal that a step does not map, and the number of its places."""

    step: str
    scope: str
    name: str
    count: int


class RunLists:
    """Writes the lists of one span; files without a line are not made.

    With `kept`, it lists what its job keeps, too: stated ACLs and groups.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        steps: AppliedSteps,
        *,
        has_origins: bool,
        kept: tuple[StatedLog | None, GroupLog] | None = None,
    ) -> None:
        self._origins = AtomicFile(storage, f"{name}{_ORIGINS}")
        self._unmapped = AtomicFile(storage, f"{name}{_UNMAPPED}")
        self._used = AtomicFile(storage, f"{name}{_USED}")
        self._files = (self._origins, self._unmapped, self._used)
        self._stated: StatedLog | None = None
        self._groups: GroupLog | None = None
        if kept is not None:
            self._stated, self._groups = kept
        self._steps = steps
        self._has_origins = has_origins

    @property
    def written(self) -> list[SpanFile]:
        """The complete files, after they were closed."""
        kept = [log.written for log in (self._stated, self._groups) if log is not None]
        return [*(file.written for file in self._files if file.written), *chain(*kept)]

    @property
    def keeps_groups(self) -> bool:
        """Whether the job keeps the groups of this span."""
        return self._groups is not None

    def add(self, before: Record, items: Sequence[StepResult]) -> None:
        """Add the results of a record; a URL that is no Unicode text is left out."""
        if self._steps.unmapped and self._steps.unmapped_names > MAX_NAMES:
            self._write_names()
        if self._stated is not None:
            self._stated.add(before, items)
        if not self._has_origins or before.action in _WITHOUT_DOCUMENT:
            return
        for item in items:
            if isinstance(item, Record):
                pair = UrlOrigin(item.url.strip(), before.url.strip())
                if line := _line(pair):
                    self._origins.write(line)

    def reject(self, reject: Reject, origin: Record | None) -> None:
        """Add a record that is set aside; `origin` is None for what was not read.

        What it states is kept, as its job keeps its ACL, if only the decision is not known.
        """
        if self._stated is not None:
            if origin is not None and reject.code.startswith(UNDECIDED):
                self._stated.add_undecided(origin, reject.url or "")
            else:
                self._stated.forget(self._steps.urls_of(reject), reject.datasource)
        if self._groups is not None:
            self._groups.reject(reject)

    def add_group(self, membership: Membership, items: Sequence[StepResult]) -> None:
        """Add the results of a membership."""
        if self._groups is not None:
            self._groups.add(membership, items)

    def enter(self, header: FeedHeader) -> None:
        """Enter a feed without records."""
        if self._groups is not None and header.memberships:
            self._groups.enter(header)

    def close(self, *, whole: bool) -> None:
        for log in (self._stated, self._groups):
            if log is not None:
                log.close(whole=whole)
        if whole:
            self._write_names()
            for used in self._steps.used_patterns:
                self._used.write(_encode(used) + b"\n")
        for file in self._files:
            file.close(whole=whole)

    def _write_names(self) -> None:
        for step, scope, name, count in self._steps.take_unmapped():
            if line := _line(UnmappedName(step, scope.value, name, count)):
                self._unmapped.write(line)


def _line(entry: UrlOrigin | UnmappedName) -> bytes:
    """Return an entry as a line; nothing for one that is no Unicode text."""
    try:
        return _encode(entry) + b"\n"
    except UnicodeEncodeError:  # the writer rejects its record
        return b""


def read_origins(folder: Path, files: Iterable[SpanFile]) -> Iterator[UrlOrigin]:
    """Yield the URLs of all spans of a run, in the order of the files of its account."""
    return read_lines(paths_of(folder, files, _ORIGINS), UrlOrigin)


def read_unmapped(folder: Path, files: Iterable[SpanFile]) -> Iterator[UnmappedName]:
    """Yield the unmapped principals of all spans; a name may come several times."""
    return read_lines(paths_of(folder, files, _UNMAPPED), UnmappedName)


def read_used(folder: Path, files: Iterable[SpanFile]) -> Iterator[tuple[str, str]]:
    """Yield the patterns that have matched in all spans, each with the name of its step."""
    return read_lines(paths_of(folder, files, _USED), tuple[str, str])
