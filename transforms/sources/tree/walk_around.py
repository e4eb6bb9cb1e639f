"""What decides over the record of a local file beside its content, as one text to compare."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterable
from typing import NamedTuple

from transforms.sources.tree.patterns import SIDECARS
from transforms.sources.tree.rules import Tree

_ACL = "system.posix_acl_access"


class Sidecar(NamedTuple):
    """A file that describes another one, with its status in words."""

    path: str
    mark: str


def decides_by_posix(tree: Tree) -> bool:
    """Whether it is POSIX that tells who may see the files of a tree."""
    return tree.acl is not None and tree.acl.table is None


def sidecars_of(path: str, *, follows_links: bool) -> list[Sidecar]:
    """Return the sidecars that a file has."""
    sidecars = []
    for suffix in SIDECARS:
        try:
            status = os.stat(path + suffix, follow_symlinks=follows_links)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            mark = f"{suffix}={status.st_size}:{status.st_mtime_ns}"
            sidecars.append(Sidecar(path + suffix, mark))
    return sidecars


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
