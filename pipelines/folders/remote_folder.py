"""The folder of a run in object storage, and its mirror: a temporary folder of this machine.

The driver works on the mirror, which has all files of the run but the chunks and what workers
write. Changed files are uploaded when the work of the run may begin, when it is published, and at
its end. Paths of the mirror become the URI in files of text and in messages.
"""

import atexit
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import translate
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import msgspec

from feedferry.pipelines.folders.locks import ACCOUNT, SEAL, SEALED, STATE_UPDATE, WORK
from feedferry.pipelines.folders.manifest import MANIFEST, REPORT, read_manifest
from feedferry.schemas.account import Account
from feedferry.schemas.errors import BusyError, FatalError, FeedferryError, errors_worded
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.schemas.span import Span
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS, account_of
from feedferry.transforms.storage.run_folders.find_storage import LEASE
from feedferry.transforms.storage.run_folders.mirrors import fetch_lines, mirroring
from feedferry.transforms.storage.state import open_state
from feedferry.transforms.storage.storage import Storage, is_object, whole_in

RUN_LEASE = f"{WORK}/{LEASE}"
_TEXT_SUFFIXES = (".json", ".jsonl", ".html", ".log", ".yaml", ".txt", ".csv")
_OF_DRIVER = re.compile(
    rf"{re.escape(WORK)}/[^/]+/(?!.*/)"
    rf"({'|'.join(map(translate, (SEAL, ACCOUNT, STATE_UPDATE, *SEALED)))})"
)
_COPY_BYTES = 1 << 20
_DOWNLOADS = 32
_GENERATION = re.compile(r"\d{9}\.db")
_JOURNAL = re.compile(r"push/[^/]+/receipts-\d+\.jsonl")


class RemoteState:
    """The state of a source in object storage: a file for each generation, `STATE/000000012.db`.

    A run downloads the newest one to `path`, and puts the next one if there is none. So of two runs
    that have read one generation, the second one is refused.
    """

    def __init__(self, storage: Storage, path: Path) -> None:
        self.path = path
        self._storage = storage
        self._generations = sorted(filter(_GENERATION.fullmatch, storage.sizes()))
        if self._generations:
            with storage.open(self._generations[-1]) as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)

    def save(self) -> None:
        """Put the copy as the next generation if it was updated; raise FatalError if there is one.

        The last but one generation is kept, and those before it are removed.
        """
        with open_state(self.path) as state:
            name = f"{state.head.generation:09d}.db"
        if not self.path.exists() or name in self._generations:
            return
        if not self._storage.put_if_absent(name, self.path.read_bytes()):
            raise FatalError(
                f"{self._storage.locate(name)}: another run has updated this state; start again"
                " with ⟦fresh⟧ to compare the source with the new state"
            )
        self._storage.remove_files(self._generations[:-1])
        self._generations = [*self._generations[-1:], name]


class RemoteFolder:
    """The folder of a run in object storage.

    `check` raises BusyError if another process has the lease; without one, it is only read.
    """

    def __init__(
        self,
        storage: Storage,
        mirror: Path,
        names: dict[str, str],
        check: Callable[[], object] | None = None,
    ) -> None:
        self.uri = names[str(mirror)]
        self.mirror = mirror
        self._storage = storage
        self._is_read_only = check is None
        self._check = check or (lambda: None)
        self._names = names
        self._state: RemoteState | None = None
        self.is_finished = False
        """Whether the record of the end of the run is uploaded."""
        self._saved = self._download()

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
        from feedferry.transforms.storage.objects.lease import Lease
        from feedferry.transforms.storage.objects.object_storage import ObjectStorage

        storage = ObjectStorage.of(uri)
        folder = Path(mkdtemp(dir=self.mirror.parent))
        with Lease(storage, LEASE), mirroring(folder, storage):
            self._state = RemoteState(storage, folder / "state.db")
            self._names[str(self._state.path)] = uri
            yield str(self._state.path)

    def save_state(self) -> None:
        """Upload the state if it was updated; raise BusyError if another process has the lease."""
        self._check()
        if self._state is not None:
            self._state.save()

    def clear(self) -> None:
        """Remove all files of earlier runs."""
        self._storage.remove_files(name for name in self._storage.sizes() if name != RUN_LEASE)
        self._saved.clear()

    def save(self) -> None:
        """Upload the files of the mirror that have changed, but no new report; remove the others.

        The record of the run is the first, because a run whose record is there is complete.
        Raises BusyError if another process has the lease.
        """
        self._check()
        present = self._scan()
        for name, stamp in sorted(present.items(), key=lambda file: file[0] != RUN_RECORD):
            if self._saved.get(name) != stamp and not (name == REPORT and name not in self._saved):
                self._upload(name)
                self._saved[name] = stamp
        gone = self._saved.keys() - present.keys()
        self._storage.remove_files(gone)
        self._saved = {name: self._saved[name] for name in self._saved if name not in gone}

    def finish(self) -> None:
        """Save the folder, and remove what attempts have left; `is_finished` is set after it.

        An error after the upload of the record leaves the run complete.
        """
        try:
            self.save()
            self.clean(is_dry=False)
        finally:
            self.is_finished = self._saved.get(RUN_RECORD) == self._scan().get(RUN_RECORD)

    def publish(self) -> None:
        """Upload everything, the report last; raise BusyError if another process has done that."""
        self._check()
        if self._saved.pop(REPORT, None):  # of an interrupted attempt
            self._storage.remove(REPORT)
        self.save()
        report = self._named((self.mirror / REPORT).read_bytes())
        self._check()
        if not self._storage.put_if_absent(REPORT, report):
            raise BusyError(f"{self.uri}/{REPORT}: published by another process meanwhile")
        self._saved[REPORT] = self._scan()[REPORT]

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
        self._download_all(f"{begin}/{file.path}" for file in account.files)

    def _abandoned(self) -> list[str]:
        """Return what attempts left that no account and no manifest names, by names in the run."""
        is_published = (self.mirror / REPORT).exists()
        kept = {chunk.path for chunk in read_manifest(self.mirror)} if is_published else set()
        files = self._storage.sizes(WORK)
        accounts = [] if is_published else [name for name in files if _is_account(name)]
        for name in accounts:
            folder = name.rpartition("/")[0]
            account = account_of(self._storage.get(name)) or Account()
            kept |= {name, *(f"{folder}/{file.path}" for file in account.files)}
        kept |= {RUN_LEASE, *filter(_is_mirrored, files)}  # of a driver
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

    def _download(self) -> dict[str, tuple[int, int]]:
        names = sorted(self._storage.sizes())
        is_shown = self._is_read_only and REPORT not in names
        self._download_all(
            name
            for name in names
            if _is_mirrored(name) or (is_shown and name.endswith(SPAN_REJECTS))
        )
        fetch_lines(self.mirror, self._storage, names)
        return self._scan()

    def _download_all(self, names: Iterable[str]) -> None:
        """Download files into the mirror, many at a time: a request takes longer than a file."""
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            for _ in pool.map(self._download_one, names):
                pass

    def _download_one(self, name: str) -> None:
        path = self.mirror / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream, self._storage.open(name) as source:
            shutil.copyfileobj(source, stream, _COPY_BYTES)

    def _scan(self) -> dict[str, tuple[int, int]]:
        return {
            name: (status.st_mtime_ns, status.st_size)
            for path in self.mirror.rglob("*")
            if _is_mirrored(name := path.relative_to(self.mirror).as_posix()) and path.is_file()
            for status in (path.stat(),)
        }

    def _upload(self, name: str) -> None:
        """Upload a file; one in the folder of an unfinished run has to fit its seal."""
        with (self.mirror / name).open("rb") as source, whole_in(self._storage, name) as file:
            if name.endswith(_TEXT_SUFFIXES) and not name.startswith(f"{WORK}/"):
                for line in source:
                    file.write(self._named(line))
            else:
                shutil.copyfileobj(source, file, _COPY_BYTES)

    def _named(self, text: bytes) -> bytes:
        for local, uri in self._names.items():
            text = text.replace(local.encode(), uri.encode())
        return text


@contextmanager
def opened_remote(uri: str, *, is_read_only: bool = False) -> Iterator[RemoteFolder]:
    """Lease a run in object storage, and yield its folder; upload what changed at the end.

    Raises BusyError if another process has leased it. A folder to read needs no lease.
    """
    from feedferry.transforms.storage.objects.lease import Lease
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    storage = ObjectStorage.of(uri)
    uri = storage.locate("").rstrip("/")
    with TemporaryDirectory(prefix="feedferry-") as temporary:
        mirror = Path(temporary).resolve() / (uri.rpartition("/")[2] or "run")
        mirror.mkdir()
        names = {str(mirror): uri}
        with errors_worded(partial(_reworded, names)):
            if is_read_only:
                folder = RemoteFolder(storage, mirror, names)
                with mirroring(mirror, storage):
                    yield folder
                return
            with Lease(storage, RUN_LEASE) as lease, mirroring(mirror, storage):
                folder = RemoteFolder(storage, mirror, names, lease.check)
                try:
                    yield folder
                except BaseException:
                    with suppress(FeedferryError):  # the first error counts
                        folder.save()
                    raise
                if not folder.is_finished:
                    folder.save()


@contextmanager
def opened_runs(names: Sequence[str], *, is_read_only: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the names of inputs, with the mirrors of those in object storage in their place."""
    with ExitStack() as opened:
        folders = {
            name: opened.enter_context(opened_remote(name, is_read_only=is_read_only)).mirror
            for name in dict.fromkeys(names)
            if is_object(name)
        }
        yield tuple(str(folders.get(name, name)) for name in names)


def runs_below(uri: str) -> list[str]:
    """Return the URIs of the runs directly below a URI in object storage, or of the run there."""
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    storage = ObjectStorage.of(uri)
    places = [storage, *map(storage.below, storage.folders())]
    return [place.locate("") for place in places if place.version(RUN_RECORD) is not None]


def mirror_to_read(uri: str) -> Path:
    """Return the mirror of a run in object storage, which is there until the process ends."""
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(opened_remote(uri, is_read_only=True)).mirror


def _reworded(names: Mapping[str, str], text: str) -> str:
    """Replace the paths of mirrors by their URI."""
    for local, uri in names.items():
        text = text.replace(local, uri)
    return text


def holds_run(name: str) -> bool:
    """Whether a name is the URI of a folder in object storage that has a manifest."""
    if not is_object(name):
        return False
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    return ObjectStorage.of(name).version(MANIFEST) is not None


def _is_account(name: str) -> bool:
    return name.rpartition(".json")[0].rpartition(".")[2].isdecimal()


def _is_mirrored(name: str) -> bool:
    """Whether a file is one of the driver; those of workers are deeper, or accounts of spans."""
    if name.startswith(f"{WORK}/"):
        return _OF_DRIVER.fullmatch(name) is not None and not _is_account(name)
    is_lock = name.endswith(("/lock", f"/{LEASE}"))
    return not (name.startswith("chunks/") or is_lock or _JOURNAL.match(name))
