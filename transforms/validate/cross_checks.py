"""The checks of several records: repeated URLs and groups, and chains of ACLs.

What is known of each URL is on disk (`Spill`), so memory hardly depends on the number of records.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from feedferry.schemas.acl import Acl, Inheritance, identity
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats.holding.acl_metadata import parent_of
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.files.spill import Spill
from feedferry.transforms.validate.record_checks import MAX_MEMBERS
from feedferry.transforms.validate.rules import Finding, all_rules

_MAX_PARENTS = 50_000
"""The most parents whose children are counted in memory."""

_EDGES = """
CREATE TABLE edges (child BLOB PRIMARY KEY, parent BLOB NOT NULL, place BLOB NOT NULL)
    WITHOUT ROWID;
CREATE TABLE jumps (child BLOB PRIMARY KEY, parent BLOB NOT NULL) WITHOUT ROWID
"""
_JUMP = """
CREATE TABLE further (child BLOB PRIMARY KEY, parent BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO further SELECT a.child, b.parent FROM jumps a JOIN jumps b ON a.parent = b.child;
DROP TABLE jumps;
ALTER TABLE further RENAME TO jumps
"""
_ON_CYCLE = (
    "SELECT DISTINCT edges.place FROM jumps JOIN edges ON edges.child = jumps.parent"
    " ORDER BY edges.child"
)


class _Mention(msgspec.Struct, frozen=True, array_like=True):
    """A place that names a URL or a group: as that of a document or of an ACL, or as a parent.

    `feed` is the feed of the place. `child` is the URL whose ACL names the parent, the first of
    `children`.
    """

    key: bytes
    source: str
    line: int
    offset: int
    feed: str
    is_document: bool = False
    acl: Acl | None = None
    child: str | None = None
    children: int = 1


_pack = msgspec.msgpack.Encoder().encode
_mention = msgspec.msgpack.Decoder(_Mention).decode


def _row(mention: _Mention) -> tuple[bytes, bytes]:
    return mention.key, _pack(mention)


class CrossChecks:
    """Collects records and memberships in a folder of its own; then yields findings."""

    def __init__(self, folder: Path) -> None:
        self._spill = Spill(folder)
        self._database = folder / "chains.db"
        self._members = 0
        self._first_group: _Mention | None = None
        self._parents: dict[bytes, _Mention] = {}

    def add(self, item: Record | Membership) -> None:
        """Add a record or membership; a URL that is no Unicode text is left out."""
        at = item.provenance
        feed = f"{at.source} {at.datasource} {at.feedtype}"
        try:
            if isinstance(item, Membership):
                group = item.group
                key = " ".join(("group", *identity(group.namespace, group.name))).encode()
                mention = _Mention(key, at.source, at.line, at.offset, feed, is_document=True)
                self._members += len(item.members)
                self._first_group = self._first_group or mention
                self._spill.add(0, (_row(mention),))
            elif item.action in (Action.ADD, Action.UPDATE):
                self._add_record(item, feed)
        except UnicodeEncodeError:
            return  # reported by the reader or by the writer

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about all records; call it once."""
        self._spill_parents()
        with closing(scratch_database(_EDGES, self._database)) as chains:
            for key, (rows,) in self._spill.keys(1):
                mentions = [*map(_mention, rows)]
                yield from _repeated(key, mentions)
                yield from _parents(key, mentions, chains)
            yield from _cycles(chains)
        if self._members > MAX_MEMBERS and self._first_group is not None:
            detail = f"{self._members:,} members; expected at most {MAX_MEMBERS:,}"
            yield _finding("too-many-members", detail, self._first_group)

    def _add_record(self, record: Record, feed: str) -> None:
        at, acl = record.provenance, record.acl
        url = record.url.strip()
        is_alone = acl is not None and acl.alone
        place = at.source, at.line, at.offset, feed
        bare = None if acl is None else msgspec.structs.replace(acl, principals=())
        self._spill.add(0, (_row(_Mention(url.encode(), *place, not is_alone, bare)),))
        parent = None if acl is None else parent_of(acl)
        if parent:
            self._add_parent(_Mention(parent.encode(), *place, child=url))

    def _add_parent(self, mention: _Mention) -> None:
        """Add a parent; many children of one parent are one mention."""
        known = self._parents.get(mention.key)
        if known is not None:
            mention = msgspec.structs.replace(known, children=known.children + 1)
        self._parents[mention.key] = mention
        if len(self._parents) > _MAX_PARENTS:
            self._spill_parents()

    def _spill_parents(self) -> None:
        self._spill.add(0, map(_row, self._parents.values()))
        self._parents.clear()


def _repeated(key: bytes, mentions: list[_Mention]) -> Iterator[Finding]:
    """Yield a finding for each document that its feed has already, and for both forms of an ACL."""
    is_group = key.startswith(b"group ")
    name = key.decode().rpartition(" ")[2] if is_group else key.decode()
    seen: dict[str, _Mention] = {}
    with_acl: dict[str, _Mention] = {}
    for mention in mentions:
        if mention.child is not None:
            continue
        if mention.is_document:
            first = seen.setdefault(mention.feed, mention)
            if first is not mention:
                code = "group-repeated" if is_group else "url-repeated"
                kind = "group" if is_group else "url"
                detail = f"{kind} {name!r} is in line {first.line} as well; expected it once"
                yield _finding(code, detail, mention, url=name)
        if mention.acl is not None:
            other = with_acl.setdefault(mention.feed, mention)
            if other.is_document is not mention.is_document:
                detail = (
                    f"an acl of {name!r}, which has another one in line {other.line}; expected one"
                    " form in a feed"
                )
                yield _finding("acl-two-forms", detail, mention, url=name)


def _parents(key: bytes, mentions: list[_Mention], chains: sqlite3.Connection) -> Iterator[Finding]:
    """Yield a finding for a parent without an ACL, or that ends its chain; store the others."""
    children = [mention for mention in mentions if mention.child is not None]
    if not children:
        return
    url, first = key.decode(), children[0]
    others = sum(mention.children for mention in children) - 1
    more = f", and {others:,} more" if others else ""
    held = [mention for mention in mentions if mention.acl is not None]
    if not held:
        detail = f"{first.child!r}{more}: inherits from {url!r}; expected a URL with an acl"
        yield _finding("acl-parent-missing", detail, first, url=first.child)
        return
    last = held[-1]
    acl = last.acl
    if acl is None or acl.inheritance in (None, Inheritance.LEAF_NODE):
        detail = f"{url!r} is a leaf node, and {first.child!r}{more} inherits from it"
        yield _finding("acl-leaf-parent", f"{detail}; expected another type", last, url=url)
    parent = None if acl is None else parent_of(acl)
    if parent:
        place = _pack(last)
        chains.execute("INSERT INTO edges VALUES (?, ?, ?)", (key, parent.encode(), place))


def _cycles(chains: sqlite3.Connection) -> Iterator[Finding]:
    """Yield a finding for each ACL on a cycle.

    Each step doubles the way of all jumps; jumps that leave the table end. When they are longer
    than the table, those that are left have arrived on a cycle.
    """
    chains.execute("INSERT INTO jumps SELECT child, parent FROM edges")
    (count,) = chains.execute("SELECT count(*) FROM edges").fetchone()
    for _ in range(count.bit_length()):
        chains.executescript(_JUMP)
    for (place,) in chains.execute(_ON_CYCLE):
        mention = _mention(place)
        url = mention.key.decode()
        detail = f"the acl of {url!r} inherits from itself; expected a chain that ends"
        yield _finding("acl-cycle", detail, mention, url=url)


def _finding(code: str, detail: str, at: _Mention, *, url: str | None = None) -> Finding:
    return all_rules()[code].finding(
        detail, source=at.source, line=at.line, offset=at.offset, url=url
    )
