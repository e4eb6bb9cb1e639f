"""Reading and cutting take time in proportion to the input, whatever the input is.

Steps are counted, not time: bytes that are looked at or copied.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from feedferry.schemas.avro import long
from feedferry.schemas.errors import FatalError
from feedferry.schemas.record import Action, Content, Record
from feedferry.transforms.formats.canonical import avro
from feedferry.transforms.formats.canonical.avro import our_sync
from feedferry.transforms.formats.canonical.lookahead import LookaheadReader
from kits import KITS, XML_KITS, Kit
from support.steps import CountedStream, Steps, count_in

SMALL = 8 << 10
LARGE = 4 * SMALL
MOST_GROWTH = 6
"""Four times the input may take so many times the steps: linear takes 4, quadratic takes 16."""
SPAN_BYTES = 1 << 20
pytestmark = pytest.mark.slow

PATTERNS = (
    *(b"<@>", b'<@ url="a">\n', b"<@>a</~>", b'<@ url="a">a</~>\n', b"</@>", b"<@/>", b"<@>a</@>"),
    *(b"<@ ", b'<@ a="', b"<@ a='", b'<@ a="b>', b" a='b'", b"<", b">", b"&", b"/", b"</", b"</@ "),
    *(b"<@><!--", b"<@><?", b"<@><![CDATA[", b"<!--", b"<?", b"<![CDATA[", b"-->", b"?>", b"]]>"),
    *(b"<@><!--a</@>", b"<@><?a</@>", b"<@><![CDATA[a</@>", b"<@><!--a--></@>", b"<@><?a?></@>"),
    *(b"<@><![CDATA[a]]></@>", b"<!---->", b"<??>", b"<@><!--<!----></@>", b"<!-- -- "),
    *(b"<@><![CDATA[<![CDATA[</@><@> ]]>", b"<@><![CDATA[<![CDATA[</@><@><!-- ]]>"),
    *(b"<@><?</@><@/><@>?></@>", b"<@><!--</@><@/><@>--></@>", b"<@><?</@><@/><@>", b"<?<@/>"),
    *(b"<@><!--</@><@/><@>", b"<!--<@/><@>-->", b"</@><![CDATA[<![CDATA[]]>", b"<@></@", b"]"),
    *(b"<group>", b"</group>", b"<group></group>", b"<header>", b"<header></header>"),
    *(b"<acl>", b"<acl/>", b'<acl url="a">', b"</acl>", b"<@><acl>", b"<@><acl url='a'></@>"),
    *(b"<acl url ", b"<@><acl url='a'>", b"<@><acl>a</@>", b"<acl><![CDATA[<acl url='a'>"),
    *(b" ", b"\n", b"\x0b", b"\x0b<@/>", b"\0", b"\x80", b"\xff", b"a", b"<a>", b"</a>"),
    *(b"</@" + b" " * 1200, b"<acl " + b" " * 1200, b"<acl " + b"url " * 300),
)
"""Markup that is repeated; `@` stands for the name of a record, `~` for the name in wrong case."""
AROUND = {
    "between records": (b"", b""),
    "in a record": (b"<@>", b"</@>"),
    "in a comment": (b"<@><!--", b"--></@>"),
    "in an instruction": (b"<@><?", b"?></@>"),
    "in a CDATA section": (b"<@><![CDATA[", b"]]></@>"),
}
COMMANDS = (
    *(b"id=a|", b"id-list|", b"id-list|a|", b"id-list|a||", b"|", b"lock|", b"id=a|lock|", b"id="),
    *(b"id=a|x|", b"a", b"a|", b"foo=bar|", b"content|", b"id=\xff|", b"id=\xc0\x80|", b"\r\n"),
    *(b"id=a|last-modified=1|", b"acl-permit-user=a|", b"meta-name=a|meta-value=b|", b"*", b"*a"),
    *(b"id=a|authz-status=PERMIT|", b"username=u|id=a|", b"meta-name=a|", b"id=a|delete|"),
)
"""Commands that are repeated; `|` stands for the delimiter."""
STRETCHES = [
    (kit, stretch)
    for kit in KITS.values()
    if not kit.format.is_xml and not kit.is_loose
    for stretch in kit.repeated or (kit.record_of("a"), *kit.words)
]
RECORD = avro.AvroEncoder().encode(Record(url="a", action=Action.ADD))
SYNC = our_sync("record")


def blocks_in_blocks(size: int) -> bytes:
    """Blocks whose one record has a content that holds all blocks that follow."""
    whole = avro.AvroEncoder().encode(
        Record(url="a", action=Action.ADD, content=Content(b"QQQQQQ" + bytes(size)))
    )
    head = whole[: whole.index(b"QQQQQQ")]
    step = len(head) + 40
    return b"".join(
        long(1) + long(len(head) + size - at) + head + SYNC for at in range(0, size - step, step)
    )


BLOCKS: dict[str, Callable[[int], bytes]] = {
    "zeros": bytes,
    "markers": lambda size: SYNC * (size // 16),
    "halves of markers": lambda size: SYNC[:8] * (size // 8),
    "empty blocks": lambda size: (b"\0\0" + SYNC) * (size // 18),
    "records": lambda size: avro.AvroEncoder().frame([RECORD]) * (size // len(RECORD)),
    "blocks that reach far": lambda size: (long(1) + long(size // 2) + SYNC) * (size // 20),
    "blocks that reach over the end": lambda size: (long(1) + long(1 << 29) + SYNC) * (size // 22),
    "blocks in blocks": blocks_in_blocks,
}


class CountedLookahead(LookaheadReader):
    """Counts the bytes that it copies."""

    steps: Steps

    def look(self, distance: int, size: int) -> bytes:
        ahead = super().look(distance, size)
        self.steps.count += 1 + len(ahead)
        return ahead

    def take_past(self, mark: bytes, *, keep: int) -> tuple[bytes, int]:
        kept, length = super().take_past(mark, keep=keep)
        self.steps.count += 1 + length
        return kept, length

    def holds(self, mark: bytes) -> bool:
        at = self._ahead.find(mark, self._at)
        self.steps.count += (len(self._ahead) if at < 0 else at) - self._at
        return at >= 0

    def _fill(self, size: int) -> None:
        before = self._ahead
        super()._fill(size)
        self.steps.count += len(self._ahead) if self._ahead is not before else 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """What counts the steps of all readers and cutters."""
    counted = Steps()
    for name, module in list(sys.modules.items()):
        if name.startswith("feedferry.transforms.formats."):
            count_in(module, counted, monkeypatch.setattr)
    monkeypatch.setattr(CountedLookahead, "steps", counted, raising=False)
    monkeypatch.setattr(avro, "LookaheadReader", CountedLookahead)
    return counted


def steps_of(steps: Steps, begin: Callable[[Any], Any], text: bytes, most: int) -> int:
    before = steps.count
    try:
        for _ in begin(CountedStream(text, steps, most=most)):
            pass
    except FatalError:
        pass  # the stream is refused, in so many steps
    return steps.count - before


def growths(
    steps: Steps, kit: Kit, make: Callable[[int], bytes], *, most: int = 1 << 30
) -> dict[str, float]:
    """How many times the steps a reader and a cutter take for four times the bytes."""
    factors = {}
    actions: dict[str, Callable[[Any], Any]] = {
        "read": kit.format.read,
        "cut": lambda stream: kit.format.split(stream, source="", span_bytes=SPAN_BYTES),
    }
    for name, action in actions.items():
        small, large = (steps_of(steps, action, make(size), most) for size in (SMALL, LARGE))
        factors[name] = large / max(small, SMALL)
    return factors


def check(factors: dict[str, float]) -> None:
    assert {name: factor for name, factor in factors.items() if factor > MOST_GROWTH} == {}


@pytest.mark.parametrize(
    ("format", "around"),
    [(name, "between records") for name in XML_KITS] + [("gsa-feed", name) for name in AROUND][1:],
)
@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_markup_over_and_over_takes_linear_steps(
    steps: Steps, format: str, pattern: bytes, around: str
) -> None:
    before, after = AROUND[around]
    kit = XML_KITS[format]
    check(growths(steps, kit, markup(kit, before, pattern, after)))


@pytest.mark.parametrize("pattern", [b"", b"a [", b"a>", b"'", b"a [<!--"], ids=range(5))
def test_many_doctypes_take_linear_steps(steps: Steps, pattern: bytes) -> None:
    """Each is followed for 16 KiB at most, so the documents are larger than in other tests."""
    kit = KITS["gsa-feed"]
    make = markup(kit, b"", b"<!DOCTYPE " + pattern, b"")
    check(growths(steps, kit, lambda size: make(8 * size)))


def markup(kit: Kit, before: bytes, pattern: bytes, after: bytes) -> Callable[[int], bytes]:
    """Return a function that makes a document of a size, in which a pattern is repeated."""
    assert kit.format.element_names
    name = kit.format.element_names.records[0]
    wrong = name[0].swapcase() + name[1:]

    def make(size: int) -> bytes:
        text = before + pattern * (size // len(pattern)) + after
        text = text.replace(b"@", name.encode()).replace(b"~", wrong.encode())
        return kit.start + text + kit.tail

    return make


@pytest.mark.parametrize("format", [name for name, kit in KITS.items() if kit.is_loose])
@pytest.mark.parametrize("delimiter", [b"\0", b"**", b"*" * 50])
@pytest.mark.parametrize("pattern", COMMANDS, ids=range(len(COMMANDS)))
def test_commands_over_and_over_take_linear_steps(
    steps: Steps, format: str, pattern: bytes, delimiter: bytes
) -> None:
    repeated = pattern.replace(b"|", delimiter)

    def make(size: int) -> bytes:
        return b"GSA Adaptor Data Version 1 [%b]" % delimiter + repeated * (size // len(repeated))

    check(growths(steps, KITS[format], make))


@pytest.mark.parametrize(
    ("kit", "stretch"), STRETCHES, ids=[f"{kit.name}-{stretch!r}" for kit, stretch in STRETCHES]
)
@pytest.mark.parametrize("tail", [b"", b'"x\n'])
def test_stretches_over_and_over_take_linear_steps(
    steps: Steps, kit: Kit, stretch: bytes, tail: bytes
) -> None:
    check(growths(steps, kit, lambda size: kit.start + stretch * (size // len(stretch)) + tail))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_over_and_over_take_linear_steps(steps: Steps, name: str) -> None:
    head = avro.AvroEncoder().prolog()
    check(growths(steps, KITS["avro"], lambda size: head + BLOCKS[name](size)))


@pytest.mark.parametrize("format", XML_KITS)
@pytest.mark.parametrize("pattern", [b"<@>a</~>", b"a"], ids=["many records", "one record"])
def test_a_stream_that_gives_little_at_once_takes_linear_steps(
    steps: Steps, format: str, pattern: bytes
) -> None:
    make = markup(XML_KITS[format], b"<@>", pattern, b"</@>")
    check(growths(steps, XML_KITS[format], lambda size: make(8 * size), most=4096))
