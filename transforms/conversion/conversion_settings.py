"""The settings with which a run converts each of its spans."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.feed import Feed
from feedferry.schemas.notice import REFUSED
from feedferry.transforms.conversion.span_progress import ProgressLog, progress_log
from feedferry.transforms.formats import (
    Encoder,
    Format,
    ReadOptions,
    WriteOptions,
    by_name,
    format_of,
)
from feedferry.transforms.formats.base import Target
from feedferry.transforms.rules.known_rejects import load_known_rejects
from feedferry.transforms.rules.older_versions import OlderVersions, load_older_versions
from feedferry.transforms.sources import SourceConfig
from feedferry.transforms.steps import Steps
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import Storage

UP_TO_DATE = "up-to-date"
"""The code of a document that a program did not give, because it has not changed."""

BATCH_RECORDS = 1024


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run, for each of its spans.

    `folder` holds the files of an unfinished run, a path or a URI. If it is a URI, `local_folder`
    has the lists of steps; `begun` identifies the start of the run. The progress of its spans is
    written below `progress`, one of both. `sources` are
    the configurations of the sources that have one, by the names of their spans. `state` is the
    path of the state of earlier runs, and `kept_acls` that of the ACLs of its job. A datasource or
    feedtype of the `target` replaces that of the source. The loss of a field in `refused` stops the
    run. A full feed deletes everything that it leaves out, so an empty full feed, and one with
    documents known to be missing, stop the run unless they are allowed. With `verify`, the files of
    earlier attempts are hashed again; otherwise only their sizes count. `accepted_rejects` is the
    path of a list of known rejects.
    Records that are alike are converted in batches of at most `batch_records`, one by one if it is
    0; the result is the same. `steps` change records before they are normalized. `older_versions`
    is the name of the file with the versions of documents that are not to be written, in `folder`.
    With `withhold`, a target that can do so shows documents that are rejected to no user.
    """

    folder: str
    local_folder: str | None = None
    begun: str = ""
    target: Target
    reading: ReadOptions
    writing: WriteOptions
    max_chunk_bytes: int
    max_chunk_records: int | None = None
    refused: frozenset[str] = REFUSED
    max_rejects: int | None = None
    sources: dict[str, SourceConfig] = {}
    state: str | None = None
    kept_acls: str | None = None
    progress: str | None = None
    allow_empty_full: bool = False
    accept_holes: bool = False
    verify: bool = True
    accepted_rejects: str | None = None
    batch_records: int = BATCH_RECORDS
    steps: Steps = Steps()
    older_versions: str = ""
    withhold: bool = True

    @property
    def local(self) -> Path:
        """The folder of the run on this machine."""
        return Path(self.local_folder or self.folder)

    @property
    def storage(self) -> Storage:
        """The storage of the folder of the run."""
        return storage_of(self.folder)

    @property
    def target_format(self) -> Format:
        """The format of the target."""
        return by_name(self.target.format)

    @property
    def keeps_stated(self) -> bool:
        """Whether a job keeps the stated ACLs of all documents."""
        return self.kept_acls is not None and self.target_format.needs_decisions

    @property
    def known_rejects(self) -> frozenset[str]:
        """The rejects that are accepted; raises ConfigError if their list cannot be read."""
        return load_known_rejects(self.accepted_rejects)

    @property
    def versions(self) -> OlderVersions:
        """The versions of documents that are not to be written."""
        return load_older_versions(self.folder, self.older_versions)

    @property
    def progress_log(self) -> ProgressLog:
        """The log of the progress of spans."""
        return progress_log(self.progress, self.begun)


def make_encoder(settings: Settings, feed: Feed | None, *, memberships: bool) -> Encoder:
    """Return the encoder of a chunk of a feed."""
    writing = replace(settings.writing, memberships=memberships)
    if feed is not None:
        writing = replace(writing, feed=feed)
    format_ = format_of(settings.target, memberships=memberships)
    return (format_ or settings.target_format).make_encoder(writing)
