"""The ACLs that a gateway keeps for a target with decisions, as a job keeps them.

They change when a delivery is forwarded, so deliveries for such a target have one queue.
"""

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.publication.stated_update import keep_stated
from feedferry.pipelines.folders.gateway_folders import acls_in
from feedferry.pipelines.folders.locks import STATED_UPDATE, locked_state
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX, ConvertOptions
from feedferry.schemas.delivery import Delivery
from feedferry.transforms.formats import by_name
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    UPGRADED_ACLS,
    doubt_groups,
    doubt_kept,
    has_kept,
    remember_acls,
    settle_doubts,
)
from feedferry.transforms.steps.stated.kept_file import upgraded
from feedferry.transforms.steps.stated.stated_store import has_stated
from feedferry.transforms.storage.atomic import write_whole

_AFTER = "after.acls"
"""The file in the folder of a run with the ACLs after its delivery is forwarded."""

_REMEMBERED = "remembered"
"""The file in the folder of a run whose ACLs are kept; a job may have replaced them since."""


class GatewayAcls(msgspec.Struct, frozen=True):
    """The file with the ACLs of all forwarded deliveries; it may be that of a job.

    `owner` is the name of an index of its groups: that of the job, by the folder of its runs, or of
    the gateway.
    """

    path: Path
    owner: str

    @classmethod
    def of(cls, spool: Path, options: ConvertOptions) -> "GatewayAcls":
        """Return the ACLs of the options, or else those in the spool."""
        if options.acls_path is not None:
            path = Path(options.acls_path).absolute()
            return cls(path, owner=path.parent.name)
        return cls(acls_in(spool), owner=f"gateway {spool.absolute()}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the state; raise BusyError if a job or another gateway has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked_state(Path(str(self.path).removesuffix(ACLS_SUFFIX))):
            yield

    def options_of(self, options: ConvertOptions) -> ConvertOptions:
        """Return the options of a conversion with these ACLs.

        A document whose content cannot be held is forwarded without it: it would hold back all
        later deliveries.
        """
        accepted = options.accept_loss | {"content"}
        return replace(options, kept_acls=str(self.path), accept_loss=accepted)

    def signature(self) -> str:
        """Return a text that differs when the ACLs have changed."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return ""
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"

    def remember(self, work: Path) -> None:
        """Replace the ACLs by those after a delivery, once; this may be repeated.

        A part of the delivery that could not be read may have been a newer ACL, so parents before
        it are unknown. A job would stop instead.
        """
        after = work / _AFTER
        if (work / _REMEMBERED).exists():
            return
        if after.exists() or self._write_after(work, after):
            remember_acls(after, self.path)
        write_whole(work / _REMEMBERED, b"")

    def doubt(self, delivery: Delivery) -> None:
        """Make unknown what a delivery that is set aside may have replaced; this may be repeated.

        A later delivery would show documents by older ACLs, or have members in older groups.
        """
        if by_name(delivery.format).holds_only_memberships:
            doubt_groups(self.path, delivery.datasource)
        else:
            doubt_kept(self.path)

    def has_remembered(self, work: Path) -> bool:
        """Whether the ACLs of a delivery are kept."""
        after = work / _AFTER
        if (work / _REMEMBERED).exists():
            return True
        if not after.exists():
            return False
        if not self.path.exists():
            return not (has_kept(after) or has_stated(after))
        return filecmp.cmp(after, self.path, shallow=False)

    def _write_after(self, work: Path, after: Path) -> bool:
        """Write the ACLs after a delivery into its folder; return False if it has changed none."""
        written = work / KEPT_ACLS
        if not written.exists():
            if not (work / STATED_UPDATE).exists():
                return False
            remember_acls(upgraded(self.path, work / UPGRADED_ACLS), written)
        keep_stated(work, written)
        settle_doubts(written)
        os.replace(written, after)
        return True
