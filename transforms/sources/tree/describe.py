"""The parts of a record that are not content: sidecars, path metadata, display URL and ACL."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import IO

import msgspec

from schemas.acl import Acl
from schemas.record import Crawl, Record
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.acl_table import load_acl_table
from transforms.sources.tree.posix_acl import PosixAcls
from transforms.sources.tree.sidecars import read_sidecars
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import display_url_of, folder_url_of, path_metadata
from transforms.sources.tree.walk import NOT_PUBLIC

Describe = Callable[[ListingEntry, Record], Record]
"""Adds metadata, ACL and crawl hints to a record; raises RecordError if they cannot be read."""

AclOf = Callable[[ListingEntry], Acl | None]
FolderAclOf = Callable[[ListingEntry], Acl]


def describer(tree: Tree, open_file: Callable[[str], IO[bytes]]) -> Describe:
    """Return the function that describes the files of a tree; `open_file` opens sidecars.

    The ACL of a sidecar replaces that of the tree. A file without an ACL that others may not read
    is secure: an appliance then asks who may see it, instead of showing it to everyone. Raise
    ConfigError if the table of ACLs cannot be used.
    """
    acl_of = _acl_of(tree)
    make_display_url = display_url_of(tree)
    # The members of an archive come one after the other, and have the same sidecars.
    read_once = lru_cache(maxsize=1)(partial(read_sidecars, open_file=open_file))

    def describe(listed: ListingEntry, record: Record) -> Record:
        sidecars = read_once(listed.sidecars)
        paths = path_metadata(listed.key) if tree.states_paths else ()
        is_secure = sidecars.acl is None and is_marked_not_public(listed)
        crawl = _shown_at(make_display_url(listed.key), record.crawl)
        return msgspec.structs.replace(
            record,
            metadata=record.metadata + sidecars.metadata + paths,
            acl=acl_of(listed) if sidecars.acl is None else sidecars.acl,
            overwrite_acls=sidecars.overwrite_acls,
            crawl=_secure(crawl) if is_secure else crawl,
        )

    return describe


def is_marked_not_public(listed: ListingEntry) -> bool:
    """Whether others may not read a file that has no ACL."""
    return NOT_PUBLIC in listed.fingerprint.split()


def folder_acl(tree: Tree) -> FolderAclOf:
    """Return the function that makes the ACL of a folder, from which its files inherit."""
    rules = tree.acl
    if rules is None or not rules.is_inherited:
        raise ValueError("ACLs of folders without inheritance")
    acls, make_url = PosixAcls(tree, rules), folder_url_of(tree)

    def acl_of(listed: ListingEntry) -> Acl:
        folder = listed.key.rstrip("/")
        above = make_url(_folder_of(folder)) if folder else None
        return msgspec.structs.replace(acls.of_folder(listed.path), inherit_from=above)

    return acl_of


def _acl_of(tree: Tree) -> AclOf:
    rules = tree.acl
    if rules is None:
        return lambda _listed: None
    if rules.table is not None:
        of_key = load_acl_table(rules.table)
        return lambda listed: of_key(listed.key)
    acls, make_url = PosixAcls(tree, rules), folder_url_of(tree)
    if not rules.is_inherited:
        return lambda listed: acls.of_file(listed.path)

    def inheriting(listed: ListingEntry) -> Acl:
        above = make_url(_folder_of(acls.key_of(listed.path)))
        return msgspec.structs.replace(acls.of_file(listed.path), inherit_from=above)

    return inheriting


def _folder_of(key: str) -> str:
    """Return the key of the folder above a file or a folder; that of the root is empty."""
    folder, slash, _ = key.rpartition("/")
    return folder + slash


def _shown_at(display_url: str | None, crawl: Crawl | None) -> Crawl | None:
    if display_url is None:
        return crawl
    return msgspec.structs.replace(crawl or Crawl(), display_url=display_url)


def _secure(crawl: Crawl | None) -> Crawl:
    return msgspec.structs.replace(crawl or Crawl(), secure=True)
