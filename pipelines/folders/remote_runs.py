"""Runs in object storage: found, leased, and opened as folders of this machine."""

import atexit
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from feedferry.pipelines.folders.manifest import MANIFEST
from feedferry.pipelines.folders.mirror import Mirror
from feedferry.pipelines.folders.mirror_names import MirrorNames
from feedferry.pipelines.folders.remote_folder import RUN_LEASE, RemoteFolder
from feedferry.schemas.errors import FeedferryError, errors_worded
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.transforms.storage.run_folders.mirrors import mirroring
from feedferry.transforms.storage.storage import is_object


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
        names = MirrorNames()
        names.add(mirror, uri)
        files = Mirror(storage, mirror, names)
        with errors_worded(names.in_text):
            if is_read_only:
                folder = RemoteFolder(storage, files, names)
                with mirroring(mirror, storage):
                    yield folder
                return
            with Lease(storage, RUN_LEASE) as lease, mirroring(mirror, storage):
                folder = RemoteFolder(storage, files, names, lease.check)
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


def holds_run(name: str) -> bool:
    """Whether a name is the URI of a folder in object storage that has a manifest."""
    if not is_object(name):
        return False
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    return ObjectStorage.of(name).version(MANIFEST) is not None
