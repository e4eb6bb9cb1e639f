"""Make feeds for measurements, with the same bytes for the same size and seed."""

import base64
import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks import verbs

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    "<gsafeed>\n<header>\n<datasource>benchmark</datasource>\n"
    "<feedtype>{feedtype}</feedtype>\n</header>\n<group>\n"
)
TAIL = b"</group>\n</gsafeed>\n"
SEED = 1911
CONTENT_BYTES = 30_000
_FEED_BYTES_OF_ITEMS = 0.75
"""Bytes of documents in a gsa-feed, by those as items, where contents are base64."""

_MOST_BYTES = 700_000_000
"""All items must be in one chunk."""

_LISTED_AT_ONCE = 10_000
_VARIANTS = 40
_ASCII_SHARE = 0.9
_SYLLABLES = ("ma", "ri", "to", "ske", "lun", "dor", "va", "pel", "ge", "hin", "so", "or", "ny")


def documents(path: Path, size_bytes: int) -> int:
    """Write a feed of documents of about `size_bytes`; return the number of records.

    Text, HTML in CDATA, base64 and compressed base64 take turns. Each record has five metadata
    pairs and an ACL of three principals.
    """
    return _write(path, "incremental", _documents(), size_bytes)


def small(path: Path, records: int) -> int:
    """Write a metadata-and-url feed of records with five metadata pairs each."""
    return _write(path, "metadata-and-url", map(_small, range(records)), size_bytes=None)


def texts(path: Path, records: int) -> int:
    """Write a feed of plain texts of about 1,200 bytes with three metadata pairs and no ACL."""
    chance = random.Random(SEED)
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(3000)]
    bodies = [" ".join(chance.choices(words, k=170)) for _ in range(_VARIANTS)]
    made = (_text_record(number, bodies[number % _VARIANTS]) for number in range(records))
    return _write(path, "incremental", made, size_bytes=None)


def shapes(path: Path, records: int) -> int:
    """Write a metadata-and-url feed of records with three to seven metadata pairs in turn."""
    return _write(path, "metadata-and-url", map(_shaped, range(records)), size_bytes=None)


def protected(path: Path, records: int) -> int:
    """Write a feed of short texts with ACLs that inherit, and the files of steps next to it."""
    verbs.write_steps(path.parent)
    return _write(path, "incremental", map(verbs.protected, range(records)), size_bytes=None)


def _shaped(number: int) -> bytes:
    pairs = (
        f'<meta name="Name {at}" content="value {number * at}"/>\n' for at in range(3 + number % 5)
    )
    return (
        f'<record url="http://www.example.com/dir{number % 97}/page{number}.html?a=1&amp;b=2"'
        f' mimetype="text/html" action="add"'
        f' last-modified="Tue, 06 Nov 2007 12:45:{number % 60:02d} GMT">\n<metadata>\n'
        f"{''.join(pairs)}</metadata>\n</record>\n"
    ).encode()


def items(path: Path, size_bytes: int) -> int:
    """Write Thunderstone items of about `size_bytes`, converted from documents by feedferry."""
    feed, output = path.with_name("documents.xml"), path.with_name("items")
    records = documents(feed, min(int(size_bytes * _FEED_BYTES_OF_ITEMS), _MOST_BYTES))
    words = (
        "--to",
        "thunderstone",
        "--accept-loss",
        "acl",
        "--span-bytes",
        "2GiB",
        "--fresh",
        "-q",
    )
    code = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
    command = (sys.executable, "-c", code, "convert", str(feed), "-o", str(output), *words)
    subprocess.run(command, check=True, capture_output=True)
    (output / "chunks/000001.xml").rename(path)
    shutil.rmtree(output)
    feed.unlink()
    return records


def _write(path: Path, feedtype: str, records: Iterator[bytes], size_bytes: int | None) -> int:
    written = 0
    with path.open("wb", buffering=1 << 20) as stream:
        stream.write(HEAD.format(feedtype=feedtype).encode())
        for record in records:
            stream.write(record)
            written += 1
            if size_bytes is not None and stream.tell() >= size_bytes:
                break
        stream.write(TAIL)
    return written


def _small(number: int) -> bytes:
    return (
        f'<record url="http://www.example.com/dir{number % 97}/page{number}.html?a=1&amp;b=2"'
        f' mimetype="text/html" action="add"'
        f' last-modified="Tue, 06 Nov 2007 12:45:{number % 60:02d} GMT">\n<metadata>\n'
        f'<meta name="Name" content="Jenny Wong {number}"/>\n'
        '<meta name="Title" content="Metadata Developer &amp; co"/>\n'
        f'<meta name="Phone" content="x{number}"/>\n'
        f'<meta name="Floor" content="{number % 30}"/>\n'
        f'<meta name="Department" content="Search quality {number % 1000}"/>\n'
        "</metadata>\n</record>\n"
    ).encode()


def _text_record(number: int, body: str) -> bytes:
    return (
        f'<record url="http://www.example.com/dir{number % 97}/text{number}.txt?a=1&amp;b=2"'
        f' mimetype="text/plain" last-modified="Tue, 06 Nov 2007 12:45:{number % 60:02d} GMT">\n'
        f'<metadata>\n<meta name="Author" content="Jenny Wong {number % 311}"/>\n'
        f'<meta name="Title" content="Text &amp; page {number}"/>\n'
        f'<meta name="Department" content="Search quality {number % 1000}"/>\n</metadata>\n'
        f"<content>{body} &lt;{number}&gt;</content>\n</record>\n"
    ).encode()


def _documents() -> Iterator[bytes]:
    chance = random.Random(SEED)
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(3000)]
    kinds = (_text, _html, _base64, _compressed)
    contents = [[kind(chance, words) for _ in range(_VARIANTS)] for kind in kinds]
    for number in count():
        of_kind = contents[number % len(kinds)]
        yield _start(number) + of_kind[number // len(kinds) % _VARIANTS] + b"</record>\n"


def _start(number: int) -> bytes:
    mimetype = ("text/plain", "text/html", "application/pdf", "application/msword")[number % 4]
    return (
        f'<record url="http://docs.example.com/folder{number % 113}/{number}?v=1&amp;n={number}"'
        f' mimetype="{mimetype}" last-modified="Tue, 06 Nov 2007 12:45:{number % 60:02d} GMT">\n'
        '<acl inheritance-type="leaf-node">\n'
        f'<principal scope="user" access="permit">EXAMPLE\\user{number % 977}</principal>\n'
        '<principal scope="group" access="permit" namespace="ldap">staff</principal>\n'
        '<principal scope="group" access="deny">guests</principal>\n</acl>\n<metadata>\n'
        f'<meta name="Author" content="Author {number % 311} &lt;a@example.com&gt;"/>\n'
        f'<meta name="Title" content="Document {number}"/>\n'
        f'<meta name="Version" content="{number % 9}"/>\n'
        '<meta name="Language" content="en"/>\n'
        f'<meta name="Department" content="Department {number % 40}"/>\n</metadata>\n'
    ).encode()


def _prose(chance: random.Random, words: list[str]) -> str:
    """Return text that deflates to about a third, as prose does."""
    ranks = (int(len(words) ** chance.random()) for _ in range(CONTENT_BYTES // 7))
    text = "".join(f"{words[rank - 1]} " for rank in ranks).replace("ke ", "ke.\n")
    return text if chance.random() < _ASCII_SHARE else text.replace("ske", "ß")


def _text(chance: random.Random, words: list[str]) -> bytes:
    prose = _prose(chance, words).replace("ma ", "&amp; ", 20).replace("ri ", "&lt; ", 20)
    return f"<content>{prose}</content>".encode()


def _html(chance: random.Random, words: list[str]) -> bytes:
    body = _prose(chance, words).replace(".\n", ".</p>\n<p class='a &amp; b'>")
    return f"<content><![CDATA[<html><body><p>{body}</p></body></html>]]></content>".encode()


def _base64(chance: random.Random, words: list[str]) -> bytes:
    content = b"%PDF-1.4\n" + chance.randbytes(CONTENT_BYTES)
    return b'<content encoding="base64binary">' + base64.b64encode(content) + b"</content>"


def _compressed(chance: random.Random, words: list[str]) -> bytes:
    text = base64.b64encode(zlib.compress(_prose(chance, words).encode()))
    return b'<content encoding="base64compressed">' + text + b"</content>"


def listing(path: Path, records: int) -> int:
    """Write a lister stream of ids, each with a time and a lock; return their number."""
    with path.open("wb") as stream:
        stream.write(b"GSA Adaptor Data Version 1 [\n]\n")
        for begin in range(0, records, _LISTED_AT_ONCE):
            numbers = range(begin, min(begin + _LISTED_AT_ONCE, records))
            stream.write(b"".join(map(_listed, numbers)))
    return records


def _listed(number: int) -> bytes:
    path = f"/repository/docs/{number % 997:03d}/file{number:08d}.pdf"
    return f"id={path}\nlast-modified={1_300_000_000 + 37 * number}\nlock\n".encode()
