"""ACLs from POSIX permissions: owner, group, mode and the POSIX ACL, if a file has one.

POSIX uses the first entry that applies to a user: the owner, a named user, then the groups, of
which one with the permission is enough, then others. The mask of an ACL limits all entries but the
owner and others. An appliance checks denials first. So a group is denied here only if others are
permitted; a user who is in such a group as well may be permitted less than by POSIX, never more.
Reading a file also needs permission to search the folders that lead to it. The folders from the
root of the tree down count; those above it may be bypassed by a mount or an export.
"""

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import NamedTuple

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.transforms.sources.remote import error_text
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from feedferry.transforms.sources.tree.rules.urls import decode_name, folder_url_of

READ = 4
SEARCH = 1

_ATTRIBUTE = "system.posix_acl_access"
_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _OWNERS, _GROUP, _MASK, _OTHERS = 1, 2, 4, 8, 16, 32
_ALL = 7
_NO_ACL = {errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_FOLDERS = 1 << 12


class Permissions(NamedTuple):
    """The permissions of a file: ids with bits as in a mode, limited by the mask.

    The owner is the first user, the owner's group the first group.
    """

    users: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, int], ...]
    others: int


class Decision(NamedTuple):
    """Who has one permission; True permits, False denies a user or group.

    A denial as a user or in a group wins against any permission. A user who is not named, nor in a
    named group, is permitted if `others` is.
    """

    named: dict[tuple[Scope, int], bool]
    others: bool


class LeadingFolders:
    """The folders that lead to a file of a local tree, as paths."""

    def __init__(self, tree: Tree) -> None:
        self.root = str(Path(tree.root).absolute())  # as the paths in the listing begin
        self._real_root = os.path.realpath(self.root)
        self._follows_links = tree.follow_links
        self.is_closed_in_tree = lru_cache(maxsize=1)(self._is_closed_in_tree)  # a reader clears it

    def of_links(self, path: str) -> Iterator[str]:
        """Yield the folders of the real path if links lead there; from `/` out of the tree."""
        real = os.path.realpath(path) if self._follows_links else ""
        expected = os.path.join(self._real_root, _below(self.root, path))
        if real not in ("", expected.rstrip("/") or "/"):
            is_inside = real.startswith(self._real_root.rstrip("/") + "/")
            yield from _between(self._real_root if is_inside else "/", real)

    def are_closed(self, path: str) -> bool:
        """Whether others may not search one of the folders of a path."""
        is_closed = self.is_closed_in_tree(path.rpartition("/")[0])
        return is_closed or any(map(_is_closed, self.of_links(path)))

    def _is_closed_in_tree(self, folder: str) -> bool:
        return any(map(_is_closed, _between(self.root, f"{folder}/file")))


class PosixAcls:
    """The ACLs of the files and folders of a local tree; the folders above files are cached."""

    def __init__(self, tree: Tree, rules: TreeAcl) -> None:
        self._tree = tree
        self._leading = LeadingFolders(tree)
        self._rules = rules
        self._search = lru_cache(maxsize=_FOLDERS)(_search)

    def of_file(self, path: str) -> Acl:
        """Return who may read a file; raise RecordError if its permissions cannot be read.

        If folders have ACLs of their own, only the folders that a link leads through count.
        """
        return Acl(principals=self._principals(path, READ), inherit_from=self._url_above(path))

    def of_folder(self, path: str) -> Acl:
        """Return who may search a folder; files below it need this permission and their own."""
        return Acl(
            inheritance=Inheritance.AND_BOTH_PERMIT,
            inherit_from=self._url_above(path),
            principals=self._principals(path, SEARCH),
            alone=True,
        )

    def _url_above(self, path: str) -> str | None:
        """Return the URL of the folder above, if folders have ACLs; the root has none above it."""
        key = decode_name(_below(self._leading.root, path), self._tree.name_charset)
        if not key or not self._rules.is_inherited:
            return None
        return folder_url_of(self._tree, key.rpartition("/")[0])

    def _principals(self, path: str, bit: int) -> tuple[Principal, ...]:
        permissions = read_permissions(path)
        if self._rules.everyone is None:
            permissions = permissions._replace(others=0)
        above = map(self._search, self._folders(path))
        return principals_of(reduce(both, above, decide(permissions, bit)), self._rules)

    def _folders(self, path: str) -> Iterator[str]:
        if not self._rules.is_inherited:
            yield from _between(self._leading.root, path)
        yield from self._leading.of_links(path)


def read_permissions(path: str) -> Permissions:
    """Return the permissions of a file or folder; raise RecordError where they cannot be read."""
    try:
        return parse_permissions(os.stat(path), read_acl(path))
    except (OSError, ValueError) as exc:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        reason = f"{shown}: {error_text(exc)}; expected permissions that can be read"
        raise RecordError("no-acl", reason) from exc


def read_acl(path: str) -> bytes | None:
    """Return the POSIX ACL of a file; None without one, or without support for them."""
    read: Callable[[str, str], bytes] | None = getattr(os, "getxattr", None)
    if read is None:
        return None
    try:
        return read(path, _ATTRIBUTE)
    except OSError as exc:
        if exc.errno in _NO_ACL:
            return None
        raise


def parse_permissions(status: os.stat_result, acl: bytes | None) -> Permissions:
    """Return the permissions of a POSIX ACL in the encoding of Linux, or of the mode without one.

    Raise ValueError for a malformed ACL.
    """
    owner, group = status.st_uid, status.st_gid
    if acl is None:
        bits = [status.st_mode >> shift & _ALL for shift in (6, 3, 0)]
        return Permissions(((owner, bits[0]),), ((group, bits[1]),), bits[2])
    if int.from_bytes(acl[:4], "little") != _VERSION or len(acl) % _ENTRY.size != 4:
        raise ValueError(f"a POSIX ACL of {len(acl)} bytes that is not of version {_VERSION}")
    entries = list(_ENTRY.iter_unpack(acl[4:]))
    by_tag = {tag: may for tag, may, _ in entries}
    if not {_OWNER, _OWNERS, _OTHERS} <= by_tag.keys():
        raise ValueError("a POSIX ACL without owner, group or others")
    mask = by_tag.get(_MASK, _ALL)
    users = ((name, may & mask) for tag, may, name in entries if tag == _USER)
    groups = ((name, may & mask) for tag, may, name in entries if tag == _GROUP)
    return Permissions(
        ((owner, by_tag[_OWNER]), *users),
        ((group, by_tag[_OWNERS] & mask), *groups),
        by_tag[_OTHERS],
    )


def decide(permissions: Permissions, bit: int) -> Decision:
    """Return who has a permission bit; a user or group without it is denied if others have it."""
    users: dict[int, bool] = {}
    for user, bits in permissions.users:
        users.setdefault(user, bool(bits & bit))
    groups: dict[int, bool] = {}
    for group, bits in permissions.groups:
        groups[group] = groups.get(group, False) or bool(bits & bit)
    others = bool(permissions.others & bit)
    is_for_more = others or any(groups.values())
    named = {(Scope.USER, user): may for user, may in users.items() if may or is_for_more}
    named |= {(Scope.GROUP, group): may for group, may in groups.items() if may or others}
    return Decision(named, others)


def both(one: Decision, other: Decision) -> Decision:
    """Return who is permitted by both decisions, by name or as one of the others.

    A user permitted by one group here and another group there is not permitted: whether the user is
    in both groups is unknown.
    """
    named = {}
    for principal in one.named | other.named:
        may = one.named.get(principal), other.named.get(principal)
        if False in may:
            named[principal] = False
        elif (may[0] or one.others) and (may[1] or other.others):
            named[principal] = True
    return Decision(named, one.others and other.others)


def principals_of(decision: Decision, rules: TreeAcl) -> tuple[Principal, ...]:
    """Return a decision as principals: users, groups, and the group for all others."""
    named = [(key[0], _name_of(*key), may) for key, may in decision.named.items()]
    groups = {name for scope, name, _ in named if scope is Scope.GROUP}
    everyone = rules.everyone
    if decision.others and everyone is not None and everyone not in groups:
        named.append((Scope.GROUP, everyone, True))
    return tuple(
        Principal(
            name=name,
            scope=scope,
            access=Access.PERMIT if may else Access.DENY,
            namespace=rules.namespace,
            case_sensitive=True,
        )
        for scope, name, may in sorted(named, key=lambda row: row[0] is Scope.GROUP)
    )


def _search(path: str) -> Decision:
    return decide(read_permissions(path), SEARCH)


def _is_closed(folder: str) -> bool:
    return not os.stat(folder).st_mode & stat.S_IXOTH


def _between(root: str, path: str) -> Iterator[str]:
    """Yield the folders from a root down to the folder of a path below it."""
    yield root
    folder = root.rstrip("/")
    for name in _below(root, path).split("/")[:-1]:
        folder = f"{folder}/{name}"
        yield folder


def _below(root: str, path: str) -> str:
    return path.removeprefix(root).strip("/")


@cache
def _name_of(scope: Scope, number: int) -> str:
    try:
        if scope is Scope.USER:
            return pwd.getpwuid(number).pw_name
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
