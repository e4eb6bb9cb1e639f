"""The folder of a run in object storage.

The driver works on its mirror, which has all files of the run but the chunks and what workers
write. Changed files are uploaded when the work of the run may begin, when it is published, and at
its end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from feedferry.pipelines.folders.locks import WORK
from feedferry.pipelines.folders.manifest import REPORT, read_manifest
from feedferry.pipelines.folders.mirror import Mirror, is_account, is_mirrored
from feedferry.pipelines.folders.mirror_names import MirrorNames
from feedferry.pipelines.folders.remote_state import RemoteState, leased_state
from feedferry.schemas.account import Account
from feedferry.schemas.errors import BusyError, FatalError
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.schemas.span import Span
from feedferry.transforms.storage.run_folders.attempts import account_of
from feedferry.transforms.storage.run_folders.find_storage import LEASE
from feedferry.transforms.storage.storage import Storage

RUN_LEASE = f"{WORK}/{LEASE}"


class RemoteFolder:
    """The folder of a run in object storage.

    `check` raises BusyError if another process has the lease; without one, it is only read.
    """

    def __init__(
        self,
        storage: Storage,
        mirror: Mirror,
        names: MirrorNames,
        check: Callable[[], object] | None = None,
    ) -> None:
        self.uri = storage.locate("").rstrip("/")
        self.mirror = mirror.folder
        self._storage = storage
        self._files = mirror
        self._check = check or (lambda: None)
        self._names = names
        self._state: RemoteState | None = None
        self.is_finished = False
        """Whether the record of the end of the run is uploaded."""
        mirror.download(is_read_only=check is None)

    def work_uri(self, work: Path) -> str:
        """Return the URI of a folder of the mirror, for workers."""
        return self._storage.locate(str(work.relative_to(self.mirror)))

    def shared(self, span: Span) -> Span:
        """Return a span of a list in the mirror as one of its object, which all workers can read.

        The seal of the run has the digest of the list, so its signature is not needed.
        """
        path = Path(span.path)
        if not path.is_relative_to(self.mirror):
            return span
        uri = self._storage.locate(path.relative_to(self.mirror).as_posix())
        return msgspec.structs.replace(span, path=uri, signature=None)

    @contextmanager
    def opened_state(self, uri: str) -> Iterator[str]:
        """Lease a state in object storage, and yield the path of a copy; see `save_state`.

        Raises BusyError if another run has leased it.
        """
        folder = Path(mkdtemp(dir=self.mirror.parent))
        with leased_state(uri, folder) as self._state:
            self._names.add(self._state.path, uri)
            yield str(self._state.path)

    def save_state(self) -> None:
        """Upload the state if it was updated; raise BusyError if another process has the lease."""
        self._check()
        if self._state is not None:
            self._state.save()

    def clear(self) -> None:
        """Remove all files of earlier runs."""
        self._storage.remove_files(name for name in self._storage.sizes() if name != RUN_LEASE)
        self._files.forget_uploads()

    def save(self) -> None:
        """Upload what has changed in the mirror, but no new report.

        Raises BusyError if another process has the lease.
        """
        self._check()
        self._files.upload()

    def finish(self) -> None:
        """Save the folder, and remove what attempts have left; `is_finished` is set after it.

        An error after the upload of the record leaves the run complete.
        """
        try:
            self.save()
            self.clean(is_dry=False)
        finally:
            self.is_finished = self._files.has_uploaded(RUN_RECORD)

    def publish(self) -> None:
        """Upload everything, the report last; raise BusyError if another process has done that."""
        self._check()
        self._files.withdraw_report()  # of an interrupted attempt
        self.save()
        self._check()
        if not self._files.put_report():
            raise BusyError(f"{self.uri}/{REPORT}: published by another process meanwhile")

    def check_sizes(self, work: Path) -> Callable[[Account], None]:
        """List the files of workers once; return the check of the account of a span.

        It raises FatalError for a file that is missing or has another size.
        """
        begin = work.relative_to(self.mirror).as_posix()
        sizes = self._storage.sizes(begin)

        def check(account: Account) -> None:
            for file in account.files:
                name = f"{begin}/{file.path}"
                if sizes.get(name) != file.bytes:
                    raise FatalError(
                        f"{self._storage.locate(name)}: differs from the {file.bytes:,} bytes that"
                        " were written; start again to write it again"
                    )

        return check

    def fetch(self, work: Path, account: Account) -> None:
        """Download the files of an account, which has no chunks."""
        begin = work.relative_to(self.mirror).as_posix()
        self._files.fetch(f"{begin}/{file.path}" for file in account.files)

    def _abandoned(self) -> list[str]:
        """Return what attempts left that no account and no manifest names, by names in the run."""
        is_published = (self.mirror / REPORT).exists()
        kept = {chunk.path for chunk in read_manifest(self.mirror)} if is_published else set()
        files = self._storage.sizes(WORK)
        accounts = [] if is_published else [name for name in files if is_account(name)]
        for name in accounts:
            folder = name.rpartition("/")[0]
            account = account_of(self._storage.get(name)) or Account()
            kept |= {name, *(f"{folder}/{file.path}" for file in account.files)}
        kept |= {RUN_LEASE, *filter(is_mirrored, files)}  # of a driver
        return [name for name in files if name not in kept]

    def clean(self, *, is_dry: bool) -> list[str]:
        """Remove what attempts left, and abort their uploads; return the names in the run.

        Uploads are aborted first, so that none becomes a file meanwhile. With `is_dry`, nothing is
        removed, and at most a thousand uploads are returned.
        """
        try:
            uploads = self._storage.uploads(abort=not is_dry)
        finally:
            names = self._abandoned()
            if not is_dry:
                self._storage.remove_files(names)
        return names + uploads
