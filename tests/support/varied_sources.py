"""Items, listings, rows and files that differ in all that real ones differ in, from a seed."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from feedferry.transforms.sources.database.mapping.columns import ColumnReference
from feedferry.transforms.sources.database.mapping.row_mapping import (
    AclSource,
    ActionColumn,
    ContentSource,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.tree.rules.tree import Tree
from support.dataload_items import HOSTILE, NEUTRAL, document

BASE_URL = "https://docs.example.com/"
_TEXTS, _HOSTILE_TEXTS = NEUTRAL["text"], HOSTILE["text"]
_ITEM_ELEMENTS = {
    **dict.fromkeys(("Title", "Keywords", "Description", "Category", "u:Price"), "text"),
    **dict.fromkeys(("Modified", "Visited", "NextCheck"), "date"),
    **dict.fromkeys(("Size", "Depth", "Pop"), "number"),
    **{"Body": "content", "RawData": "base64"},
}
_FIXED_ELEMENTS = (
    *("<MimeType>text/html</MimeType>", "<MimeType>~hole-0001~</MimeType>", "<MimeType/>"),
    *("<rid>7</rid>", "stray", "<!-- a -->", "<Unknown a='>'/>", "<BodyText>a</BodyText>"),
    *("<u:Set><value>a</value><value>b</value></u:Set>", "<Body><![CDATA[a]]>b</Body>"),
)
_DAMAGE = (b"<", b">", b'"', b"&", b"\x02", b"\xff", b"</Item>", b"<Item>", b"<![CDATA[", b"\0")
_COMMANDS = (
    *("last-modified=1312387643", "lock", "crawl-once", "crawl-immediately", "delete"),
    *("last-modified=99999999999", "result-link=http://www.example.com/"),
)
_HOSTILE_COMMANDS = (
    *("last-modified=-5", "last-modified=", "lock=false", "what=ever", "acl", "meta-name=a"),
    *("repository-unavailable=x", "id=", "id-list", ""),
)
_HOSTILE_IDS = (
    "",
    " ",
    "a b",
    "a:b",
    "://",
    "http://",
    "\t",
    "\udcff",
    "\udcc0\udc80",
    "..",
    "%zz",
)
_COLUMNS = ("slug", "title", "body", "tags", "at", "link", "users", "op", "kind")
_ROW_VALUES: dict[str, tuple[object, ...]] = {
    "slug": ("a", "a b", "Z\u00fcrich", 7, "x/y"),
    "title": ("a", "a & b", '<b>"x"</b>', "it's", "\u6771\u4eac", 3, None),
    "body": ("text", "<p>a & b</p>", "a\n\tb ", '"', "\u6771\u4eac" * 99, "x" * 700, "a\r\nb"),
    "tags": ("a;b", "a", "", None, "a & b; c", ";".join("defghijklmno")),
    "at": ("2026-01-31 08:30:00", "2026-01-31T08:30:00.123456Z", "2026-01-31", None),
    "link": ("http://www.example.com/a?b=1&c=2", "https://www.example.com/\u00fc"),
    "users": ("anna, ben", "anna", r"CORP\anna", "d,e,f,g", None),
    "op": ("I", "U", None),
    "kind": ("text/plain", "text/html", None),
}
_HOSTILE_VALUES: tuple[object, ...] = (
    *("", " ", "a ", "&#65;", "\t", "a\nb", "\r", "\x00", "\x07", "\u00a0", "\u2028", "\ufffe"),
    *("]]>", "\U0001f600", "~hole-0001~", ".", "..", "http://intranet/a", "doc-7", "[]", '["a"]'),
    *(b"\xff\x00", b"text", 7, -1, 1.5, "0000-00-00", "yesterday", "D", "delete", "text/html; a=b"),
)
_MAPPINGS: tuple[dict[str, Any], ...] = (
    {
        "url": "http://www.example.com/{slug}/{id}",
        "title": "title",
        "metadata": (MetadataColumn(column="kind"), MetadataColumn(column="title")),
        "modified": "at",
        "mimetype": "text/plain",
    },
    {
        "url": ColumnReference(column="link"),
        "title": "title",
        "metadata": "all",
        "modified": "at",
        "mimetype": ColumnReference(column="kind"),
        "acl": AclSource(users="users", deny_groups="op", inherit_from="http://a.example.com/"),
    },
    {
        "url": "http://www.example.com/{id}",
        "action": ActionColumn(column="op", delete=("D", "delete")),
        "metadata": (MetadataColumn(column="tags", separator=";"), MetadataColumn(column="at")),
        "acl": AclSource(users="users", inherit_from=ColumnReference(column="link")),
    },
    {
        "url": "http://www.example.com/{id}",
        "metadata": (MetadataColumn(column="title", name="~hole-0001~"),),
        "mimetype": "~hole-0002~",
        "acl": AclSource(users="users", inherit_from="http://hole-0000.example.com/~"),
    },
    {"url": "http://www.example.com/{id}", "content": ContentSource(), "title": "title"},
    {"url": ColumnReference(column="link"), "content": ContentSource(is_none=True)},
    {
        "url": "http://www.example.com/{id}",
        "title": "title",
        "keywords": "tags",
        "metadata": (
            MetadataColumn(column="tags", separator=";"),
            MetadataColumn(name="phone", query="SELECT id, phone FROM phones"),
            MetadataColumn(column="kind"),
        ),
        "acl": AclSource(
            query="SELECT id, name, scope, access, namespace FROM readers",
            inherit_from=ColumnReference(column="link"),
            inheritance="child-overrides",
        ),
    },
    {
        "url": "http://www.example.com/{id}",
        "display_url": "https://www.example.com/{slug}",
        "description": "title",
        "deleted_at": "at",
        "metadata": (MetadataColumn(column="slug"), MetadataColumn(column="slug", name="a")),
        "acl": AclSource(
            users="users",
            deny_users="tags",
            deny_groups="op",
            delimiter=";",
            namespace="Z\u00fcrich & co",
            case_sensitive=False,
        ),
    },
    {
        "url": "http://www.example.com/{id}",
        "metadata": (
            MetadataColumn(column="users", name="google:aclusers"),
            MetadataColumn(column="tags", separator=";"),
        ),
        "mimetype": ColumnReference(column="kind"),
    },
)
_READERS = (
    *("anna", r"CORP\ben", "Z\u00fcrich & co", "d.e", "anna"),
    *("", " f", '"g"', "h\x07", "\u00a0", "i" * 300, "~hole-0001~"),
)
_SCOPES, _ACCESSES = ("user", "group", "User", "user", "group"), ("permit", "deny", "permit")
_NAMESPACES = ("", None, "Default", "ldap", "a & b")
_FILE_CONTENTS = (
    b"a",
    b"two words\n",
    "Z\u00fcrich \u6771\u4eac".encode(),
    b"<p>&amp; & ]]> \"'</p>",
)
_HOSTILE_FILES = (
    *(b"", b"\0", b"a\r\nb", b"\x07", b"\xff", "\ufffe".encode(), b"\xef\xbb\xbfa", b"%PDF-1.4"),
    *(b"PK\x03\x04", b"\x1f\x8b\x08", b"<html><body>a", b"<meta charset=latin1>\xe4", b"a" * 9000),
)
_STEMS = ("a", "c d", "\u00fc\u6771", "50% & more", "a'b", '"q"', "line\nend", "~x", "\u202e")
_SUFFIXES = (".txt", ".txt", ".html", ".html", ".md", "", ".pdf", ".zip", ".tmp", ".TXT")
_TIMES = (0, 1_714_979_290_123_456_789, 1_714_979_290_000_000_000, -1_000_000_000, 1)
_TREES: tuple[dict[str, Any], ...] = (
    *({"base_url": BASE_URL},) * 4,
    {"base_url": "https://docs.example.com/a&b'/"},
    {"base_url": "http://intranet/"},
    {"url_template": "https://docs.example.com/?id={id}&x=1"},
    {"base_url": BASE_URL, "path_metadata": True},
    {"base_url": BASE_URL, "display_url": "file:///{path}"},
    {"base_url": BASE_URL, "is_public": True, "open_archives": True},
    {"base_url": BASE_URL, "is_crawled": True},
)


def damaged(random: Random, data: bytes, pieces: Sequence[bytes] = _DAMAGE) -> bytes:
    """Return bytes, in one of three cases with a place where some are lost or others are added."""
    if not data or random.randrange(3):
        return data
    at = random.randrange(len(data))
    return data[:at] + random.choice((*pieces, b"")) + data[at + random.choice((0, 0, 1, 30)) :]


def varied_items(random: Random) -> bytes:
    """Return a document of Items with elements of any number and order."""
    rarely = random.choice((0, 200, 30))
    gap = random.choice(("", "\n", "\n", " \r\n"))
    names = random.sample([*_ITEM_ELEMENTS], random.randrange(1, 8))
    items = [_item(random, names, gap, rarely) for _ in range(random.randrange(1, 40))]
    return damaged(random, document(gap.join(items)))


def _value(random: Random, kind: str, rarely: int) -> str:
    values = HOSTILE[kind] if rarely and not random.randrange(rarely) else NEUTRAL[kind]
    return random.choice(values)


def _item(random: Random, names: list[str], gap: str, rarely: int) -> str:
    types = ("I", "DP", "i") if rarely and not random.randrange(rarely) else ("I", "I", "U", "D")
    children = [f"<Url>{_value(random, 'url', rarely)}</Url>"]
    for name in random.sample(names, random.randrange(len(names) + 1)):
        attribute = ' dt:dt="bin.base64"' if name == "RawData" else ""
        value = _value(random, _ITEM_ELEMENTS[name], rarely)
        children.append(f"<{name}{attribute}>{value}</{name}>")
    pairs = random.sample(("Author", "Phone", "~hole-0002~", "a b"), random.randrange(4))
    if pairs:
        lines = "\n".join(f"{name}: {_value(random, 'text', rarely)}" for name in pairs)
        children.append(f"<Meta>{lines}</Meta>")
    if rarely and not random.randrange(rarely):
        children.append(random.choice(_FIXED_ELEMENTS))
    if not random.randrange(8):
        random.shuffle(children)
    type_ = f"<Type>{random.choice(types)}</Type>"
    return gap.join(("<Item>", type_, *children, "</Item>"))


def varied_listing(random: Random) -> bytes:
    """Return a command stream of ids, alone and in lists, with any commands."""
    delimiter = random.choice(("\0", "\n", "\0", "\n", "~", "\r\n"))
    rarely = random.choice((0, 200, 30))
    form = random.choice(
        ("docs/{} b.pdf", "/docs/Z\u00fcrich {}", "http://www.example.com/{}?a=1&b")
    )
    tokens = [f"GSA Adaptor Data Version 1 [{delimiter}]"]

    def docid() -> str:
        is_hostile = rarely and not random.randrange(rarely)
        return random.choice(_HOSTILE_IDS) if is_hostile else form.format(random.randrange(9999))

    for _ in range(random.randrange(1, 8)):
        count = random.randrange(1, 12)
        if random.randrange(4):
            for _ in range(count):
                chosen = random.sample(_COMMANDS[:5], random.randrange(3))
                tokens += [f"id={docid()}", *chosen]
        else:
            tokens += ["id-list", *(docid() for _ in range(count)), ""]
        if rarely and not random.randrange(5):
            tokens.append(random.choice((*_COMMANDS, *_HOSTILE_COMMANDS)))
    text = delimiter.join((*tokens, ""))
    return damaged(random, text.encode("utf-8", "surrogateescape"), (b"\0", b"\n", b"\xff", b"id="))


def varied_rows(random: Random, path: Path) -> RowMapping:
    """Write a table of rows into a file of SQLite; return a mapping for them."""
    rarely = random.choice((0, 300, 40))
    varying = random.sample(_COLUMNS, random.randrange(1, len(_COLUMNS)))
    usual = {name: random.choice(values) for name, values in _ROW_VALUES.items()}
    rows = [
        tuple(
            random.choice(_HOSTILE_VALUES)
            if rarely and not random.randrange(rarely)
            else random.choice(_ROW_VALUES[name])
            if name in varying
            else usual[name]
            for name in _COLUMNS
        )
        for _ in range(random.randrange(1, 50))
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})")
        values = ", ".join("?" * len(_COLUMNS))
        connection.executemany(f"INSERT INTO t ({', '.join(_COLUMNS)}) VALUES ({values})", rows)
        connection.execute("CREATE TABLE phones (id, phone)")
        connection.executemany("INSERT INTO phones VALUES (?, ?)", _phones(random, len(rows)))
        connection.execute("CREATE TABLE readers (id, name, scope, access, namespace)")
        readers = _readers(random, len(rows), rarely)
        connection.executemany("INSERT INTO readers VALUES (?, ?, ?, ?, ?)", readers)
    keys = {"table": "t", "content": ContentSource(column="body"), **random.choice(_MAPPINGS)}
    page_rows = random.choice((1, 7, 1000))
    return RowMapping(connection=f"sqlite:///{path}", page_rows=page_rows, **keys)


def _phones(random: Random, rows: int) -> list[tuple[int, object]]:
    phones = random.choices(("1", "2 & 3", None, b"4"), (6, 6, 1, 1), k=rows)
    return [(random.randrange(1, rows + 1), phone) for phone in phones]


def _readers(random: Random, rows: int, rarely: int) -> list[tuple[object, ...]]:
    """Readers of rows, in any number; a few have names and scopes that are not usual."""
    readers: list[tuple[object, ...]] = []
    for number in range(1, rows + 1):
        for _ in range(random.choice((0, 1, 2, 3, 6))):
            is_hostile = rarely and not random.randrange(rarely)
            name = random.choice(_READERS if is_hostile else _READERS[:5])
            scope = random.choice((*_SCOPES, "owner") if is_hostile else _SCOPES)
            access, namespace = random.choice(_ACCESSES), random.choice(_NAMESPACES)
            readers.append((number, name, scope, access, namespace))
    return readers


def varied_tree(random: Random, root: Path) -> Tree:
    """Write files into a folder; return the tree."""
    rarely = random.choice((0, 100, 15))
    for number in range(random.randrange(1, 40)):
        is_hostile = rarely and not random.randrange(rarely)
        folder = root / random.choice(("", "", "m", "m/n o"))
        folder.mkdir(parents=True, exist_ok=True)
        stem, suffix = random.choice(_STEMS), random.choice(_SUFFIXES)
        path = folder / f"{stem} {number}{suffix}"
        path.write_bytes(random.choice(_HOSTILE_FILES if is_hostile else _FILE_CONTENTS))
        path.chmod(0o600 if is_hostile else 0o644)
        if not random.randrange(20):
            Path(f"{path}.meta.json").write_bytes(random.choice((b'{"author": "Ann"}', b"no JSON")))
        time = random.choice(_TIMES)
        os.utime(path, ns=(time, time))
    return Tree(root=str(root), **random.choice(_TREES))
