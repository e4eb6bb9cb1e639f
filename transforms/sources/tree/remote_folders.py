"""The folders of remote trees, as entries of a listing.

Buckets of S3 are listed page by page, and folders of SFTP servers entry by entry. Of other object
stores, the entries of one folder are in memory.
"""

import stat
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.remote import (
    check_remote,
    connect,
    modified_ns_of,
    scheme_of,
    size_of,
    version_in,
)
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import file_entry, left_out

_SAFE = "/!$&'()*+,;=:@"


def remote_folders(tree: Tree) -> Callable[[ListingEntry], Iterator[ListingEntry]]:
    """Return the function that lists the folders of a remote tree.

    Raise ConfigError if its root is no URI of a folder that can be read.
    """
    check_remote(tree.root)
    match scheme_of(tree.root):
        case "s3":
            return lambda _root: _bucket(tree.root)
        case "sftp" | "ssh":
            return lambda folder: _sftp_folder(tree.root, folder)
        case _:
            return lambda folder: object_folder(folder, *connect(folder.path))


def object_folder(folder: ListingEntry, filesystem: Any, path: str) -> Iterator[ListingEntry]:
    """List a folder of a file system of fsspec whose names are not encoded in URIs."""
    for info in filesystem.ls(path, detail=True):
        name = info["name"].rstrip("/").rpartition("/")[2]
        uri = f"{folder.path}/{name}"
        if info["name"].strip("/") == path.strip("/"):  # the folder itself, as an object
            continue
        if info["type"] == "directory":
            yield ListingEntry(key=f"{folder.key}{name}/", kind=EntryKind.FOLDER, path=uri)
        else:
            yield _file_of(folder.key + name, uri, info)


def _bucket(root: str) -> Iterator[ListingEntry]:
    """List all objects below a prefix of S3, page by page: a request per folder takes too long."""
    bucket, _, prefix = root.partition("://")[2].partition("/")
    prefix = f"{prefix}/" if prefix else ""
    query = {"Bucket": bucket, "Prefix": prefix}
    is_empty = True
    while query:
        page = connect(root)[0].call_s3("list_objects_v2", **query)
        for info in page.get("Contents", ()):
            is_empty = False
            key, path = info["Key"].removeprefix(prefix), f"s3://{bucket}/{info['Key']}"
            if key.endswith("/"):
                yield left_out(key, path, "no-file", "an object that represents a folder")
            elif key:
                yield _file_of(key, path, info | {"size": info["Size"]})
        token = page.get("NextContinuationToken")
        query = query | {"ContinuationToken": token} if token else {}
    if is_empty:
        raise OSError("no object with this prefix")


def _file_of(key: str, path: str, info: dict[str, Any]) -> ListingEntry:
    return file_entry(key, path, size_of(info), modified_ns_of(info), version_in(info))


def _sftp_folder(root: str, folder: ListingEntry) -> Iterator[ListingEntry]:
    sftp, path = connect(folder.path)
    try:
        for attributes in sftp.ftp.listdir_iter(path):
            yield _sftp_entry(root, folder.key + attributes.filename, attributes)
    except UnicodeDecodeError as exc:
        raise OSError(f"the name {exc.object!r} in it is not UTF-8, so rename it") from exc


def _sftp_entry(root: str, key: str, attributes: Any) -> ListingEntry:
    mode = attributes.st_mode or stat.S_IFREG
    quoted = quote(key, safe=_SAFE).replace("~", "%7E")  # a ~ would be the home folder
    uri = f"{root}/{quoted}"
    if stat.S_ISLNK(mode):
        return left_out(key, uri, "symlink")
    if stat.S_ISDIR(mode):
        return ListingEntry(key=f"{key}/", kind=EntryKind.FOLDER, path=uri)
    if not stat.S_ISREG(mode):
        return left_out(key, uri, "no-file")
    modified_ns = None if attributes.st_mtime is None else attributes.st_mtime * 1_000_000_000
    return file_entry(key, uri, attributes.st_size, modified_ns)
