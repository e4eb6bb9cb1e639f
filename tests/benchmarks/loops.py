"""Programs to compare with: `python loops.py NAME PATH` runs one of them as a process."""

import sys
from collections import deque
from pathlib import Path

_BLOCK_BYTES = 1 << 17


def parse_with_lxml(path: str) -> None:
    """Parse a feed with lxml; print the number of records and of characters of content."""
    from lxml import etree

    records = characters = 0
    events = etree.iterparse(path, tag="record", huge_tree=True, no_network=True, load_dtd=False)
    for _, record in events:
        records += bool(record.get("url"))
        characters += sum(len(content.text or "") for content in record.iterfind("content"))
        record.clear()
        group = record.getparent()
        while group is not None and (previous := record.getprevious()) is not None:
            group.remove(previous)
    print(records, characters)


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
    from transforms.formats import by_name

    with open(path, "rb", buffering=0) as stream:
        deque(by_name("lister-stream").read(stream), maxlen=0)


def list_tree(path: str) -> None:
    """Write the listing of a tree of files, as a conversion does first."""
    from transforms.sources.listing import write_listing
    from transforms.sources.tree.tree import Tree
    from transforms.sources.tree.walk import list_tree

    tree = Tree(root=path, base_url="https://docs.example.com/")
    write_listing(list_tree(tree), Path(path).with_suffix(".listing"))


LOOPS = {
    "lxml loop": parse_with_lxml,
    "split loop": split_lines,
    "read": read_listing,
    "walk": list_tree,
}

if __name__ == "__main__":
    LOOPS[sys.argv[1]](sys.argv[2])
