"""The ACLs that a gateway keeps for a target with decisions, as a job keeps them.

They change when a delivery is forwarded, so deliveries for such a target have one queue.
"""

import filecmp
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.publication.stated_update import keep_stated
from feedferry.pipelines.folders.locks import locked_state
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX, ConvertOptions
from feedferry.pipelines.serve.forward_journal import FOLDER
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    count_kept,
    remember_acls,
    settle_doubts,
)

STATE = "state"
"""The state in the folder of a gateway, unless another is stated."""


class GatewayAcls(msgspec.Struct, frozen=True):
    """The file with the ACLs of all forwarded deliveries; it may be that of a job."""

    path: Path

    @classmethod
    def of(cls, spool: Path, options: ConvertOptions) -> "GatewayAcls":
        """Return the ACLs of the options, or else those in the spool."""
        return cls(Path(options.acls_path or f"{spool / FOLDER / STATE}{ACLS_SUFFIX}"))

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
        """Replace the ACLs by those after a delivery; this may be repeated.

        A part of the delivery that could not be read may have been a newer ACL, so parents before
        it are unknown. A job would stop instead.
        """
        written = work / KEPT_ACLS
        settle_doubts(written)
        remember_acls(written, self.path)
        keep_stated(work, self.path)

    def has_remembered(self, work: Path) -> bool:
        """Whether the ACLs are those after a delivery."""
        written = work / KEPT_ACLS
        if not written.exists():
            return False
        if not self.path.exists():
            return not sum(count_kept(written))
        return filecmp.cmp(written, self.path, shallow=False)
