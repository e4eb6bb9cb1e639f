"""Damage that crosses records: sections, tags of the frame, damaged headers, zeroed stretches.

Each record of a document has a mark in its content and its number in its URL. Damage may cost
records. It must not bring the content of one under the URL of another, change the feed or the
action of any, or lose one that is not in the bytes of a reject.
"""

import io
import re
from collections.abc import Iterator
from random import Random

from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.testing.reader_properties import Violation
from kits import Kit

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


def damaged_documents(kit: Kit, random: Random) -> Iterator[bytes]:
    """Yield documents without end, each with one to three places of damage."""
    while True:
        records = [_record(kit, number, random) for number in range(random.choice((3, 6, 12)))]
        for at in random.sample(range(len(records)), random.randint(1, 3)):
            records[at] = _with_insertion(records[at], kit, random)
        document = kit.start.decode() + "".join(records) + kit.tail.decode()
        if random.random() < 0.2:
            document = _with_zeros(document, random)
        elif random.random() < 0.2:
            document = _with_damaged_head(document, kit, random)
        yield document.encode()


def check_containment(kit: Kit, document: bytes) -> None:
    """Raise Violation if damage costs more than rejects say, or changes what records mean."""
    written: set[int] = set()
    rejected = b""
    for item in kit.format.read(io.BytesIO(document), span=Span(source="f")):
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
    if feed[0] not in (None, "wiki") or feed[1] not in (None, "incremental"):
        raise Violation("other feed", f"{record.url} is in {feed}")
    if record.action is Action.DELETE:
        raise Violation("deleted", record.url)


def _marks(text: str) -> set[int]:
    return {int(number) for number in _MARK.findall(text)}


def _record(kit: Kit, number: int, random: Random) -> str:
    mark = f"MARK{number:03}X"
    content = random.choice(
        (
            f"{mark} a text",
            f"<![CDATA[<p>{mark}</p>]]>",
            f"<![CDATA[{mark} a ]]]]><![CDATA[> b]]>",
            f"{mark} &lt;!-- &amp; more",
        )
    )
    return kit.record_of(str(number), content).decode()


def _with_insertion(record: str, kit: Kit, random: Random) -> str:
    """Insert a mark of a section or a tag between the URL and the end tag of a record.

    A section without its end mark, in a record without its end tag, cannot be told from a document
    that quotes the start of a record.
    """
    first = max(record.find(">"), record.find("</Url>") + 5) + 1
    at = random.randint(first, max(first, record.rfind("</")))
    for mark in _MARK.finditer(record):
        at = mark.end() if mark.start() < at < mark.end() else at
    return record[:at] + random.choice((*SECTIONS, *kit.frame)) + record[at:]


def _with_zeros(document: str, random: Random) -> str:
    begin = random.randint(document.index("MARK"), len(document))
    end = min(len(document), begin + random.choice((1, 20, 300, 2000)))
    return document[:begin] + "\0" * (end - begin) + document[end:]


def _with_damaged_head(document: str, kit: Kit, random: Random) -> str:
    """Remove a stretch of the header, or of the text after it up to the first URL.

    The values of the header stay: another name that is valid is no damage that can be seen.
    """
    head = kit.start.decode()
    begin = document.find("<header>") if "<header>" in head else len(head)
    at = random.randint(begin, len(head) + 8)
    damaged = document[:at] + document[at + random.choice((1, 2, 9, 40)) :]
    has_values = ">wiki<" in damaged[: len(head)] and ">incremental<" in damaged[: len(head)]
    return damaged if has_values or "<header>" not in head else document
