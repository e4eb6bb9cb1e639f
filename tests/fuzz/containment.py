"""Damage that crosses records: sections, tags of the frame, damaged headers, zeroed stretches.

Each record of a document has a mark in its content and its number in its URL. Damage may cost
records. It must not bring the content of one under the URL of another, change the feed or the
action of any, or lose one that is not in the bytes of a reject.
"""

import io
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from fuzz.properties import Violation
from schemas.record import Action, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats import by_name

SECTIONS = (
    "<![CDATA[",
    "]]>",
    "]]]]><![CDATA[>",
    "<!--",
    "<!-- todo",
    "-->",
    "<?php echo 1;",
    "?>",
)
_MARK = re.compile(r"MARK(\d{3})X")
_NUMBER = re.compile(r"/(\d+)$")


class MarkedFormat(NamedTuple):
    """How a format writes a document: its head and tail, one record, and tags of its frame."""

    name: str
    head: str
    tail: str
    record: Callable[[int, str], str]
    frame: tuple[str, ...]


MARKED_FORMATS = (
    MarkedFormat(
        name="gsa-feed",
        head='<?xml version="1.0"?>\n<gsafeed>\n<header><datasource>wiki</datasource>'
        "<feedtype>full</feedtype></header>\n<group>\n",
        tail="</group>\n</gsafeed>\n",
        record=lambda number, content: (
            f'<record url="http://www.example.com/{number}" mimetype="text/html"><metadata>'
            f'<meta name="n" content="v"/></metadata><content>{content}</content></record>\n'
        ),
        frame=(
            *("<gsafeed>", "</gsafeed>", "<group>", "</group>", '<group action="delete">'),
            *("<header>", "</header>", "<header><datasource>other</datasource></header>"),
            "<gsafeed><header><datasource>other</datasource><feedtype>full</feedtype></header>",
            *("</record>", "</content>", "<metadata>"),
        ),
    ),
    MarkedFormat(
        name="thunderstone",
        head='<?xml version="1.0"?>\n<ThunderstoneReplication>\n',
        tail="</ThunderstoneReplication>\n",
        record=lambda number, content: (
            f"<Item><Type>I</Type><Url>http://www.example.com/{number}</Url>"
            f"<Body>{content}</Body></Item>\n"
        ),
        frame=(
            *("<ThunderstoneReplication>", "</ThunderstoneReplication>"),
            *("</Item>", "</Body>", "<Url>"),
        ),
    ),
)


def damaged_documents(format_: MarkedFormat, random: Random) -> Iterator[bytes]:
    """Yield documents without end, each with one to three places of damage."""
    while True:
        records = [_record(format_, number, random) for number in range(random.choice((3, 6, 12)))]
        for at in random.sample(range(len(records)), random.randint(1, 3)):
            records[at] = _with_insertion(records[at], format_, random)
        document = format_.head + "".join(records) + format_.tail
        if random.random() < 0.2:
            document = _with_zeros(document, random)
        elif random.random() < 0.2:
            document = _with_damaged_head(document, format_, random)
        yield document.encode()


def check_containment(format_: MarkedFormat, document: bytes) -> None:
    """Raise Violation if damage costs more than rejects say, or changes what records mean."""
    written: set[int] = set()
    rejected = b""
    for item in by_name(format_.name).read(io.BytesIO(document), span=Span(source="f")):
        if isinstance(item, Record):
            marks = _marks((item.content.data.decode() if item.content else "") + (item.body or ""))
            number = _NUMBER.search(item.url)
            if marks - {int(number[1]) if number else -1}:
                raise Violation("merged", f"{item.url} has the content of {sorted(marks)}")
            _check_context(item)
            written |= marks
        elif isinstance(item, Reject):
            rejected += item.data
    lost = _marks(document.decode()) - written - _marks(rejected.decode("utf-8", "replace"))
    if lost:
        raise Violation("lost", f"{sorted(lost)} are in no record and in no reject")


def _check_context(record: Record) -> None:
    feed = record.provenance.datasource, record.provenance.feedtype
    if feed[0] not in (None, "wiki") or feed[1] not in (None, "full"):
        raise Violation("other feed", f"{record.url} is in {feed}")
    if record.action is Action.DELETE:
        raise Violation("deleted", record.url)


def _marks(text: str) -> set[int]:
    return {int(number) for number in _MARK.findall(text)}


def _record(format_: MarkedFormat, number: int, random: Random) -> str:
    mark = f"MARK{number:03}X"
    content = random.choice(
        (
            f"{mark} a text",
            f"<![CDATA[<p>{mark}</p>]]>",
            f"<![CDATA[{mark} a ]]]]><![CDATA[> b]]>",
            f"{mark} &lt;!-- &amp; more",
        )
    )
    return format_.record(number, content)


def _with_insertion(record: str, format_: MarkedFormat, random: Random) -> str:
    """Insert a mark of a section or a tag between the URL and the end tag of a record.

    A section without its end mark, in a record without its end tag, cannot be told from a document
    that quotes the start of a record.
    """
    first = max(record.find(">"), record.find("</Url>") + 5) + 1
    at = random.randint(first, max(first, record.rfind("</")))
    for mark in _MARK.finditer(record):
        at = mark.end() if mark.start() < at < mark.end() else at
    return record[:at] + random.choice((*SECTIONS, *format_.frame)) + record[at:]


def _with_zeros(document: str, random: Random) -> str:
    begin = random.randint(document.index("MARK"), len(document))
    end = min(len(document), begin + random.choice((1, 20, 300, 2000)))
    return document[:begin] + "\0" * (end - begin) + document[end:]


def _with_damaged_head(document: str, format_: MarkedFormat, random: Random) -> str:
    """Remove a stretch of the header, or of the text after it up to the first URL.

    The values of the header stay: another name that is valid is no damage that can be seen.
    """
    begin = document.find("<header>") if "<header>" in format_.head else len(format_.head)
    at = random.randint(begin, len(format_.head) + 8)
    damaged = document[:at] + document[at + random.choice((1, 2, 9, 40)) :]
    head = damaged[: len(format_.head)]
    has_values = ">wiki<" in head and ">full<" in head
    return damaged if has_values or format_.name != "gsa-feed" else document
