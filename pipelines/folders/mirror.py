"""The mirror of a run in object storage: its files on this machine, but those of workers."""

import re
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from fnmatch import translate
from pathlib import Path

from feedferry.pipelines.folders.locks import (
    ACCOUNT,
    SEAL,
    SEALED,
    STATE_UPDATE,
    STATED_UPDATE,
    WORK,
)
from feedferry.pipelines.folders.manifest import REPORT
from feedferry.pipelines.folders.mirror_names import MirrorNames
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS
from feedferry.transforms.storage.run_folders.find_storage import LEASE
from feedferry.transforms.storage.run_folders.mirrors import fetch_lines
from feedferry.transforms.storage.storage import Storage, whole_in

_TEXT_SUFFIXES = (".json", ".jsonl", ".html", ".log", ".yaml", ".txt", ".csv")
_OF_DRIVER = re.compile(
    rf"{re.escape(WORK)}/[^/]+/(?!.*/)"
    rf"({'|'.join(map(translate, (SEAL, ACCOUNT, STATE_UPDATE, STATED_UPDATE, *SEALED)))})"
)
_COPY_BYTES = 1 << 20
_DOWNLOADS = 32
_JOURNAL = re.compile(r"push/[^/]+/receipts-\d+\.jsonl")


class Mirror:
    """A folder with the files of a run, and the state in which they were last up- or downloaded.

    Paths of copies on this machine become their URI in files of text.
    """

    def __init__(self, storage: Storage, folder: Path, names: MirrorNames) -> None:
        self.folder = folder
        self._storage = storage
        self._names = names
        self._saved: dict[str, tuple[int, int]] = {}

    def download(self, *, is_read_only: bool) -> None:
        """Download the run; one to be read that is unfinished, with the rejects of its spans."""
        names = sorted(self._storage.sizes())
        is_shown = is_read_only and REPORT not in names
        self.fetch(
            name
            for name in names
            if is_mirrored(name) or (is_shown and name.endswith(SPAN_REJECTS))
        )
        fetch_lines(self.folder, self._storage, names)
        self._saved = self._scan()

    def fetch(self, names: Iterable[str]) -> None:
        """Download files, many at a time: a request takes longer than a file."""
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            for _ in pool.map(self._download, names):
                pass

    def upload(self) -> None:
        """Upload the files that have changed, but no new report; remove those that are gone.

        The record of the run is the first, because a run whose record is there is complete.
        """
        present = self._scan()
        for name, stamp in sorted(present.items(), key=lambda file: file[0] != RUN_RECORD):
            if self._saved.get(name) != stamp and not (name == REPORT and name not in self._saved):
                self._upload(name)
                self._saved[name] = stamp
        gone = self._saved.keys() - present.keys()
        self._storage.remove_files(gone)
        self._saved = {name: self._saved[name] for name in self._saved if name not in gone}

    def has_uploaded(self, name: str) -> bool:
        """Whether the storage has the present state of a file."""
        return self._saved.get(name) == self._scan().get(name)

    def put_report(self) -> bool:
        """Upload the report; return whether there was none."""
        report = self._names.in_bytes((self.folder / REPORT).read_bytes())
        if not self._storage.put_if_absent(REPORT, report):
            return False
        self._saved[REPORT] = self._scan()[REPORT]
        return True

    def withdraw_report(self) -> None:
        """Remove an uploaded report, which `upload` then leaves out."""
        if self._saved.pop(REPORT, None):
            self._storage.remove(REPORT)

    def forget_uploads(self) -> None:
        """Upload every file again: the storage was cleared."""
        self._saved.clear()

    def _download(self, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream, self._storage.open(name) as source:
            shutil.copyfileobj(source, stream, _COPY_BYTES)

    def _scan(self) -> dict[str, tuple[int, int]]:
        return {
            name: (status.st_mtime_ns, status.st_size)
            for path in self.folder.rglob("*")
            if is_mirrored(name := path.relative_to(self.folder).as_posix()) and path.is_file()
            for status in (path.stat(),)
        }

    def _upload(self, name: str) -> None:
        """Upload a file; one in the folder of an unfinished run has to fit its seal."""
        with (self.folder / name).open("rb") as source, whole_in(self._storage, name) as file:
            if name.endswith(_TEXT_SUFFIXES) and not name.startswith(f"{WORK}/"):
                for line in source:
                    file.write(self._names.in_bytes(line))
            else:
                shutil.copyfileobj(source, file, _COPY_BYTES)


def is_account(name: str) -> bool:
    """Whether a file is the account of a span."""
    return name.rpartition(".json")[0].rpartition(".")[2].isdecimal()


def is_mirrored(name: str) -> bool:
    """Whether a file is one of the driver; those of workers are deeper, or accounts of spans."""
    if name.startswith(f"{WORK}/"):
        return _OF_DRIVER.fullmatch(name) is not None and not is_account(name)
    is_lock = name.endswith(("/lock", f"/{LEASE}"))
    return not (name.startswith("chunks/") or is_lock or _JOURNAL.match(name))
