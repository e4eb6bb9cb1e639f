"""The groups that a span states, for the store of a job."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from feedferry.schemas.account import SpanFile
from feedferry.schemas.acl import identity
from feedferry.schemas.feed import FULL, FeedHeader
from feedferry.schemas.membership import Member, Membership, MembershipAction
from feedferry.schemas.record import Provenance
from feedferry.schemas.reject import Reject
from feedferry.transforms.steps.step import StepResult
from feedferry.transforms.storage.atomic import AtomicFile, paths_of, read_lines

GROUPS = ".groups.jsonl"
"""The suffix of the list of a span."""


class GroupMembers(msgspec.Struct, frozen=True, array_like=True):
    """A group and its members."""

    group: Member
    members: tuple[Member, ...]


class GroupLine(msgspec.Struct, frozen=True, array_like=True):
    """A group of a groups feed, as it is stated and after the steps; None if it was set aside.

    Without `stated`, the group of this name is not known, in any namespace; without a name, none
    of the groups is. A full feed has a line of its own, which `is_full`, before its groups.
    """

    source: str
    namespace: str = ""
    name: str = ""
    stated: GroupMembers | None = None
    mapped: GroupMembers | None = None
    is_full: bool = False


class GroupLog:
    """Writes the list of one span. The `feedtype` replaces that of groups feeds.

    Rejects without a name count if the span `has_only_groups`.
    """

    def __init__(
        self,
        file: AtomicFile,
        *,
        feedtype: str | None,
        has_only_groups: bool,
    ) -> None:
        self._file = file
        self._feedtype = feedtype
        self._has_only_groups = has_only_groups
        self._full = set[str]()

    @property
    def written(self) -> list[SpanFile]:
        """The complete file, after it was closed."""
        return [self._file.written] if self._file.written else []

    def enter(self, feed: Provenance | FeedHeader) -> str:
        """Enter a groups feed; return the name of its source."""
        source = feed.datasource or ""
        if (self._feedtype or feed.feedtype) == FULL and source not in self._full:
            self._full.add(source)
            self._write(GroupLine(source, is_full=True))
        return source

    def add(self, membership: Membership, items: Iterable[StepResult]) -> None:
        """Add a membership and what the steps have made of it."""
        source = self.enter(membership.provenance)
        made = [item for item in items if isinstance(item, Membership)]
        namespace, name = identity(membership.group.namespace, membership.group.name)
        mapped = _members(made[0]) if made else None
        self._write(GroupLine(source, namespace, name, _members(membership), mapped))

    def reject(self, reject: Reject) -> None:
        """Add a membership that is set aside: its group is unknown, or all are."""
        is_group = reject.action == MembershipAction.MEMBERSHIP.value
        if is_group or (reject.action is None and self._has_only_groups):
            name = identity(None, reject.url or "")[1]
            self._write(GroupLine(reject.datasource or "", name=name))

    def close(self, *, whole: bool) -> None:
        self._file.close(whole=whole)

    def _write(self, line: GroupLine) -> None:
        try:
            data = msgspec.json.encode(line)
        except UnicodeEncodeError:  # a name that is no text: no search has it
            data = msgspec.json.encode(GroupLine(line.source))
        self._file.write(data + b"\n")


def read_groups(folder: Path, files: Iterable[SpanFile]) -> Iterator[GroupLine]:
    """Yield the groups of all spans of a run, in the order of the spans."""
    return read_lines(paths_of(folder, files, GROUPS), GroupLine)


def _members(membership: Membership) -> GroupMembers:
    return GroupMembers(membership.group, membership.members)
