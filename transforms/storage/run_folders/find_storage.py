"""The storage of a folder, by its path or URI."""

from contextlib import AbstractContextManager
from pathlib import Path

from feedferry.transforms.storage.storage import LocalStorage, Storage

LEASE = "lease.json"
"""The lease of a run or a push, in its folder in object storage."""


def storage_of(folder: str) -> Storage:
    """Return the storage of a folder: a path, or a URI of object storage.

    Raises ConfigError for a URI that cannot be written to.
    """
    if "://" not in folder:
        return LocalStorage(Path(folder))
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    return ObjectStorage.of(folder)


def lease_on(folder: str) -> AbstractContextManager[object]:
    """Lease a folder in object storage; raise BusyError if another process has the lease."""
    from feedferry.transforms.storage.objects.lease import Lease
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    return Lease(ObjectStorage.of(folder), LEASE)
