"""A reader makes progress: what it yields is bounded by the bytes that it is given."""

import io

import pytest

from feedferry.schemas.errors import ProgressError
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.scanning.markup_search import BadRange
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner
from kits import XML_KITS, Kit
from kits.base import HOST
from support.gsa_records import read_feed
from support.steps import within_lines

EACH_XML_KIT = pytest.mark.parametrize("kit", XML_KITS.values(), ids=XML_KITS)
VOCABULARY = ElementNames(root="feed", records=("record",))


def read(kit: Kit, text: bytes) -> list[ReadResult]:
    return list(kit.format.read(io.BytesIO(text)))


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0"])
@EACH_XML_KIT
def test_a_control_character_between_two_records_costs_neither(kit: Kit, blank: bytes) -> None:
    text = kit.start + kit.record_of("a") + blank + kit.record_of("b") + kit.tail
    results = read(kit, text)
    assert [item.data for item in results if isinstance(item, Reject)] == [blank]
    assert [item.url for item in results if isinstance(item, Record | Membership)] == [
        name if kit.format.holds_only_memberships else f"{HOST}/{name}" for name in "ab"
    ]
    assert [*kit.format.split(io.BytesIO(text), source="s", span_bytes=1)]


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c"])
@EACH_XML_KIT
def test_a_control_character_before_the_root_is_a_stray(kit: Kit, blank: bytes) -> None:
    assert kit.format.element_names
    root = f"<{kit.format.element_names.root}>".encode()
    rejects = [item for item in read(kit, blank + root) if isinstance(item, Reject)]
    assert [(reject.code, reject.data) for reject in rejects] == [
        ("stray", blank),
        ("torn-end", b""),
    ]


def test_a_step_that_consumes_nothing_is_an_error() -> None:
    class Stuck(RecordScanner):
        def _stray(self) -> Reject:
            return self._damage.reject(BadRange("stray", "nothing", self._buffer.position))

    stream = io.BytesIO(b"<feed>x")
    with pytest.raises(ProgressError) as caught:
        list(Stuck(stream, VOCABULARY, Span(source="f.xml"), max_unit_bytes=1 << 20))
    assert str(caught.value) == (
        "f.xml:1 (byte 6): the reader does not advance; expected at least one byte to be read: "
        "report this defect of feedferry"
    )


def test_bytes_that_only_continue_characters_are_not_held() -> None:
    text = b"<gsafeed>" + b"\x80" * 3_000_000 + b"</gsafeed>"
    (reject,) = within_lines(20_000, lambda: list(read_feed(io.BytesIO(text))))
    assert isinstance(reject, Reject)
    assert (reject.code, reject.length, reject.truncated) == ("stray", 3_000_000, True)


def test_what_is_kept_of_a_long_stretch_in_another_encoding_ends_with_a_character() -> None:
    text = ("<gsafeed>x" + "ü" * 700_000 + "<record url='a'/></gsafeed>").encode("utf-16-le")
    reject, record = read_feed(io.BytesIO(text))
    assert isinstance(reject, Reject)
    assert (len(reject.data), reject.length) == (2 + 2 * ((1 << 20) // 2 - 1), 1_400_002)
    assert isinstance(record, Record)
