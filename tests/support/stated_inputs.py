"""Inputs of steps that are records in memory."""

from collections.abc import Iterable
from pathlib import Path

from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps import AppliedSteps


class StatedInputs:
    """Records in memory, and a file of groups that is not read.

    `kept_acls` is the file of their job. A reject with bytes is no ACL alone.
    """

    sends_decisions = can_be_read = True
    settles_doubts = False
    withholds = True
    feedtype: str | None = None
    """The feedtype at the target, in place of those of the records."""

    def __init__(
        self,
        records: Iterable[ReadResult],
        groups: Iterable[ReadResult] = (),
        accepted: str = "",
        kept_acls: Path | None = None,
        run: str = "",
    ) -> None:
        self._records, self._groups, self._accepted = [*records], [*groups], accepted
        self.kept_acls = kept_acls
        self.run = run

    @property
    def is_full(self) -> bool:
        return self.feedtype == "full"

    def records(self) -> Iterable[ReadResult]:
        return self._records

    def may_inherit(self) -> bool:
        return True

    def may_be_acl(self, reject: Reject) -> bool:
        return not reject.data

    def feed_of(self, feed: Provenance | FeedHeader) -> tuple[str | None, str | None]:
        return feed.datasource, self.feedtype or feed.feedtype

    def file(self, path: Path) -> Iterable[ReadResult]:
        return self._groups

    def is_accepted(self, reject: Reject) -> bool:
        return reject.code == self._accepted

    def updated(self, base: Path, steps: AppliedSteps, folder: Path) -> Iterable[Record]:
        raise NotImplementedError
