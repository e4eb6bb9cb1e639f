"""The storage of a folder, by its path or URI."""

from pathlib import Path

from transforms.storage.storage import LocalStorage, Storage


def storage_of(folder: str) -> Storage:
    """Return the storage of a folder: a path, or a URI of object storage.

    Raises ConfigError for a URI that cannot be written to.
    """
    if "://" not in folder:
        return LocalStorage(Path(folder))
    from transforms.storage.objects import ObjectStorage

    return ObjectStorage.of(folder)
