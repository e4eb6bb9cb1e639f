"""The parts of a record that are not content: sidecars, path metadata, display URL and ACL."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import IO

import msgspec

from schemas.acl import Acl
from schemas.record import Crawl, Record
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.acl_table import load_acl_table
from transforms.sources.tree.local_folders import NOT_PUBLIC
from transforms.sources.tree.posix_acl import PosixAcls
from transforms.sources.tree.sidecars import read_sidecars
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import display_url_of, path_metadata

Describe = Callable[[ListingEntry, Record], Record]
"""Adds metadata, ACL and crawl hints to a record; raises RecordError if they cannot be read."""


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
        crawl = record.crawl
        if display_url := make_display_url(listed.key):
            crawl = msgspec.structs.replace(crawl or Crawl(), display_url=display_url)
        if sidecars.acl is None and NOT_PUBLIC in listed.fingerprint.split():
            crawl = msgspec.structs.replace(crawl or Crawl(), secure=True)
        return msgspec.structs.replace(
            record,
            metadata=record.metadata + sidecars.metadata + paths,
            acl=acl_of(listed) if sidecars.acl is None else sidecars.acl,
            overwrite_acls=sidecars.overwrite_acls,
            crawl=crawl,
        )

    return describe


def _acl_of(tree: Tree) -> Callable[[ListingEntry], Acl | None]:
    rules = tree.acl
    if rules is None:
        return lambda _listed: None
    if rules.table is not None:
        of_key = load_acl_table(rules.table)
        return lambda listed: of_key(listed.key)
    acls = PosixAcls(tree, rules)
    return lambda listed: acls.of_file(listed.path)
