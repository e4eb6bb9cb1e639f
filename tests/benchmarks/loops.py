"""Programs to compare with: `python loops.py NAME PATH OUTPUT` runs one of them as a process.

Loops only read. Scripts convert a feed, as a user would write it: without checks, for the feeds of
these measurements.
"""

import base64
import sqlite3
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from lxml.etree import _Element

_BLOCK_BYTES = 1 << 17
_PAGE_ROWS = 1_000
_TEXTS = ("content", "Meta", "Body", "RawData")
_FEED = (
    "<gsafeed><header><datasource>benchmark</datasource><feedtype>{}</feedtype></header><group>\n"
)
_DATALOAD = (
    '<ThunderstoneReplication xmlns:dt="urn:schemas-microsoft-com:datatypes"'
    ' xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/">\n'
)


def parse_with_lxml(path: str) -> None:
    """Parse a feed or Items with lxml; print the numbers of records and of characters of texts."""
    records = characters = 0
    for record in _elements(path, "record", "Item", "membership"):
        records += bool(record.get("url") or record.findtext("Url"))
        characters += sum(len(element.text or "") for element in record.iter(*_TEXTS))
    print(records, characters)


def _elements(path: str, *tags: str) -> Iterator["_Element"]:
    """Yield elements of a feed, each of which is removed after its use."""
    from lxml import etree

    events = etree.iterparse(path, tag=tags, huge_tree=True, no_network=True, load_dtd=False)
    for _, element in events:
        yield element
        element.clear()
        parent = element.getparent()
        while parent is not None and (previous := element.getprevious()) is not None:
            parent.remove(previous)


def split_lines(path: str) -> None:
    """Split a listing into lines; print the number of ids and of their characters."""
    count = characters = 0
    with open(path, "rb") as stream:
        tail = b""
        while block := stream.read(_BLOCK_BYTES):
            *lines, tail = (tail + block).split(b"\n")
            ids = [line[3:].decode() for line in lines if line.startswith(b"id=")]
            count += len(ids)
            characters += sum(map(len, ids))
    print(count, characters)


def read_listing(path: str) -> None:
    """Read all records of a listing with the reader of feedferry, one at a time."""
    from feedferry.transforms.formats import by_name

    with open(path, "rb", buffering=0) as stream:
        deque(by_name("lister-stream").read(stream), maxlen=0)


def read_feed(path: str, *, times: int = 1) -> None:
    """Read all records of a feed one at a time, as programs do with `feedferry.read`."""
    from feedferry import read

    for _ in range(times):
        deque(read(path), maxlen=0)


def read_rows(path: str) -> None:
    """Read the table of a mapping file with the driver; print the number of its rows."""
    keys = dict(line.partition(": ")[::2] for line in Path(path).read_text("utf-8").splitlines())
    statement = f"SELECT * FROM {keys['table']} ORDER BY id"
    scheme, place = keys["connection"].split("://", 1)
    if scheme == "sqlite":
        with closing(sqlite3.connect(place.removeprefix("/"))) as connection:
            print(sum(1 for _ in connection.execute(statement)))
        return
    import psycopg

    with psycopg.connect(f"postgresql://{place}") as server, server.cursor("rows") as cursor:
        cursor.itersize = _PAGE_ROWS
        print(sum(1 for _ in cursor.execute(statement.encode())))


def list_tree(path: str) -> None:
    """Write the listing of a tree of files, as a conversion does first."""
    from feedferry.transforms.sources.listing import write_listing
    from feedferry.transforms.sources.tree.folders.walk import list_tree
    from feedferry.transforms.sources.tree.rules.tree import Tree

    tree = Tree(root=path, base_url="https://docs.example.com/")
    write_listing(list_tree(tree), Path(path).with_suffix(".listing"))


def _write(output: str, head: str, elements: Iterator[str], tail: str) -> None:
    with open(output, "w", encoding="utf-8") as stream:
        stream.write(head)
        stream.writelines(elements)
        stream.write(tail)


def write_items(path: str, output: str) -> None:
    """Convert a gsa-feed into Thunderstone items."""
    items = map(_item, _elements(path, "record"))
    _write(output, _DATALOAD, items, "</ThunderstoneReplication>\n")


def _item(record: "_Element") -> str:
    pairs = [(meta.get("name", ""), meta.get("content", "")) for meta in record.iter("meta")]
    title = "".join(content for name, content in pairs if name == "Title")
    meta = "\n".join(f"{name}: {content}" for name, content in pairs if name != "Title")
    modified = parsedate_to_datetime(record.get("last-modified", "")).strftime("%F %T")
    content, text = record.find("content"), record.findtext("content", "")
    encoding = content.get("encoding") if content is not None else None
    if encoding is None and record.get("mimetype") == "text/plain":
        body, raw = f"<Body>{escape(text)}</Body>", ""
    else:
        if encoding != "base64binary":
            data = zlib.decompress(base64.b64decode(text)) if encoding else text.encode()
            text = base64.b64encode(data).decode()
        body, raw = "", f'<RawData dt:dt="bin.base64">{text}</RawData>'
    return (
        f"<Item><Type>I</Type><Url>{escape(record.get('url', ''))}</Url>"
        f"<Title>{escape(title)}</Title>{body}<Meta>{escape(meta)}</Meta>"
        f"<Modified>{modified}</Modified><MimeType>{record.get('mimetype')}</MimeType>{raw}"
        "</Item>\n"
    )


def write_records(path: str, output: str) -> None:
    """Convert a gsa-feed of records without a content into another one."""
    records = map(_record, _elements(path, "record"))
    _write(output, _FEED.format("metadata-and-url"), records, "</group></gsafeed>\n")


def _record(record: "_Element") -> str:
    pairs = (_meta(meta.get("name", ""), meta.get("content", "")) for meta in record.iter("meta"))
    attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in record.items())
    return f"<record {attributes}>\n<metadata>\n{''.join(pairs)}</metadata>\n</record>\n"


def _meta(name: str, content: str) -> str:
    return f"<meta name={quoteattr(name)} content={quoteattr(content)}/>"


def write_records_of_items(path: str, output: str) -> None:
    """Convert Thunderstone items into a gsa-feed."""
    records = map(_record_of_item, _elements(path, "Item"))
    _write(output, _FEED.format("incremental"), records, "</group></gsafeed>\n")


def _record_of_item(item: "_Element") -> str:
    lines = (line.partition(": ") for line in item.findtext("Meta", "").split("\n"))
    pairs = (_meta(name, content) for name, _, content in lines)
    body, raw = item.findtext("Body"), item.findtext("RawData")
    content = f"<content>{escape(body or '')}</content>"
    if raw is not None:
        content = f'<content encoding="base64binary">{raw}</content>'
    return (
        f"<record url={quoteattr(item.findtext('Url', ''))}"
        f" mimetype={quoteattr(item.findtext('MimeType', ''))}>\n"
        f"<metadata>\n{''.join(pairs)}</metadata>\n{content}\n</record>\n"
    )


LOOPS: dict[str, Callable[[str], None]] = {
    "lxml loop": parse_with_lxml,
    "split loop": split_lines,
    "read": read_listing,
    "read once": read_feed,
    "read twice": partial(read_feed, times=2),
    "walk": list_tree,
    "driver loop": read_rows,
}

SCRIPTS: dict[str, Callable[[str, str], None]] = {
    "lxml script to thunderstone": write_items,
    "lxml script to gsa-feed": write_records,
    "lxml script from thunderstone": write_records_of_items,
}

if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    if name in LOOPS:
        LOOPS[name](paths[0])
    else:
        SCRIPTS[name](*paths)
