"""What describes a file beside its content: sidecars, its path, its display url and its ACL."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import IO

import msgspec

from schemas.acl import Acl
from schemas.record import Crawl, Record
from transforms.sources.listing import Listed
from transforms.sources.tree.acl_table import load_acl_table
from transforms.sources.tree.posix_acl import PosixAcls
from transforms.sources.tree.sidecars import read_sidecars
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import display_url_of, folder_url_of, path_metadata
from transforms.sources.tree.walk import NOT_PUBLIC

Describe = Callable[[Listed, Record], Record]
"""Adds to a record what describes its file; raises RecordError where that cannot be told."""

AclOf = Callable[[Listed], Acl | None]
FolderAclOf = Callable[[Listed], Acl]


def describer(tree: Tree, open_file: Callable[[str], IO[bytes]]) -> Describe:
    """Return the function that describes the files of a tree; `open_file` takes their paths.

    An ACL that a sidecar states stands before those that the tree has. Without any, what others may
    not read is secure: an appliance then asks who may see it, rather than show it to everyone.
    Raise ConfigError where the table of ACLs cannot be used.
    """
    acl_of = _acl_of(tree)
    make_display_url = display_url_of(tree)
    # The members of an archive come one behind the other, and have the same sidecars.
    read_once = lru_cache(maxsize=1)(partial(read_sidecars, open_file=open_file))

    def describe(listed: Listed, record: Record) -> Record:
        said = read_once(listed.sidecars)
        paths = path_metadata(listed.key) if tree.states_paths else ()
        crawl = _shown_at(make_display_url(listed.key), record.crawl)
        return msgspec.structs.replace(
            record,
            metadata=record.metadata + said.metadata + paths,
            acl=acl_of(listed) if said.acl is None else said.acl,
            overwrite_acls=said.overwrite_acls,
            crawl=_secure(crawl) if said.acl is None and is_marked_shut(listed) else crawl,
        )

    return describe


def is_marked_shut(listed: Listed) -> bool:
    """Whether others may not read a file of which no ACL tells who may."""
    return NOT_PUBLIC in listed.fingerprint.split()


def folder_acl(tree: Tree) -> FolderAclOf:
    """Return the function that makes the ACL of a folder, which those below it inherit from."""
    rules = tree.acl
    if rules is None or not rules.is_inherited:
        raise ValueError("ACLs of folders, which nothing inherits from")
    acls, make_url = PosixAcls(tree, rules), folder_url_of(tree)

    def acl_of(listed: Listed) -> Acl:
        folder = listed.key.rstrip("/")
        above = make_url(_folder_of(folder)) if folder else None
        return msgspec.structs.replace(acls.of_folder(listed.path), inherit_from=above)

    return acl_of


def _acl_of(tree: Tree) -> AclOf:
    rules = tree.acl
    if rules is None:
        return _nothing
    if rules.table is not None:
        of_key = load_acl_table(rules.table)
        return lambda listed: of_key(listed.key)
    acls, make_url = PosixAcls(tree, rules), folder_url_of(tree)
    if not rules.is_inherited:
        return lambda listed: acls.of_file(listed.path)

    def inheriting(listed: Listed) -> Acl:
        above = make_url(_folder_of(acls.key_of(listed.path)))
        return msgspec.structs.replace(acls.of_file(listed.path), inherit_from=above)

    return inheriting


def _nothing(_listed: Listed) -> None:
    return None


def _folder_of(key: str) -> str:
    """The key of the folder that a file or a folder stands in; the root's is empty."""
    folder, slash, _ = key.rpartition("/")
    return folder + slash


def _shown_at(display_url: str | None, crawl: Crawl | None) -> Crawl | None:
    if display_url is None:
        return crawl
    return msgspec.structs.replace(crawl or Crawl(), display_url=display_url)


def _secure(crawl: Crawl | None) -> Crawl:
    return msgspec.structs.replace(crawl or Crawl(), secure=True)
