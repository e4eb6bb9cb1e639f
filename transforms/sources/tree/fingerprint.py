"""What decides over the record of a local file beside its content, as one text to compare."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterable
from typing import NamedTuple

from transforms.sources.tree.patterns import SIDECARS
from transforms.sources.tree.tree import Tree

SHUT = "shut"
"""Marks a file that others may not read, in a tree that has no ACLs."""

_ACL = "system.posix_acl_access"


class Sidecar(NamedTuple):
    """A file that describes another one, with its status in words."""

    path: str
    mark: str


def decides_by_posix(tree: Tree) -> bool:
    """Whether it is POSIX that tells who may see the files of a tree."""
    return tree.acl is not None and tree.acl.table is None


def asks_others(tree: Tree) -> bool:
    """Whether files that others may not read are to be told from those that they may."""
    return tree.acl is None and not tree.is_public


def is_shut(status: os.stat_result) -> bool:
    """Whether others may not read a file, or search a folder."""
    is_folder = stat.S_ISDIR(status.st_mode)
    return not status.st_mode & (stat.S_IXOTH if is_folder else stat.S_IROTH)


def sidecars_of(path: str, *, follows_links: bool) -> list[Sidecar]:
    """Return the sidecars that a file has, those too that nobody can read.

    A link that is not followed, or is broken, may lead to the ACL of the file: without it the file
    would be public.
    """
    sidecars = []
    for suffix in SIDECARS:
        try:
            status = _status(path + suffix, follows_links=follows_links)
        except OSError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            mark = f"{suffix}={status.st_size}:{status.st_mtime_ns}"
            sidecars.append(Sidecar(path + suffix, mark))
    return sidecars


def _status(path: str, *, follows_links: bool) -> os.stat_result:
    try:
        return os.stat(path, follow_symlinks=follows_links)
    except OSError:
        return os.lstat(path)


def around_file(status: os.stat_result, folders: str) -> str:
    """Return who may see a file, as far as it is known; any change of a POSIX ACL changes ctime."""
    owners = f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"
    return f"{owners} {folders}" if folders else owners


def around_folder(status: os.stat_result, path: str) -> str:
    """Return who may search a folder; its times tell of its files, and are left out."""
    return f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{_posix_acl(path).hex()}"


def digest(marks: Iterable[str]) -> str:
    """Return what stands for the marks of many folders."""
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _posix_acl(path: str) -> bytes:
    if sys.platform != "linux":
        return b""
    try:
        return os.getxattr(path, _ACL)
    except OSError:  # it has none, or its file system knows none
        return b""
