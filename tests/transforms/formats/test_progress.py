"""A reader makes progress: what it yields is bounded by the bytes that it is given."""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import FormatError, ProgressError, UnavailableError
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span
from support.gsa_records import read_feed
from support.hostile_streams import hostile
from support.steps import within_lines
from transforms.formats import FORMATS, Mode, ReadOptions, ReadResult, StreamOptions, by_name
from transforms.formats.element_names import ElementNames
from transforms.formats.xml.scanner import RecordScanner

LINES_EACH = 500
"""More lines than a reader executes for any one byte."""
LINES_AT_LEAST = 50_000
"""More lines than a reader executes for no byte."""
One = TypeVar("One")
VOCABULARY = ElementNames(root="feed", records=("record",))


def read(format: str, text: bytes, mode: Mode = Mode.LENIENT) -> list[ReadResult]:
    """What a reader yields until it ends or refuses the stream."""
    reader, options = by_name(format).read, ReadOptions(own=(StreamOptions(mode=mode),))
    return taken(text, lambda: reader(io.BytesIO(text), options=options))


def cut(format: str, text: bytes, span_bytes: int) -> list[Span]:
    """The spans that a cutter yields until it ends or refuses the stream."""
    cutter = by_name(format).split
    return taken(text, lambda: cutter(io.BytesIO(text), source="s", span_bytes=span_bytes))


def taken(text: bytes, begin: Callable[[], Iterator[One]]) -> list[One]:
    found: list[One] = []

    def take() -> None:
        with suppress(FormatError, UnavailableError):
            for one in begin():
                found.append(one)

    within_lines(LINES_AT_LEAST + LINES_EACH * len(text), take)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("format", [format_.name for format_ in FORMATS])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_reader_yields_no_more_than_its_input_can_hold(format: str, data: st.DataObject) -> None:
    text = data.draw(hostile(format))
    mode = data.draw(st.sampled_from(Mode))
    assert len(read(format, text, mode)) <= 3 * len(text) + 3


@pytest.mark.parametrize("format", [format_.name for format_ in FORMATS])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_each_span_of_a_cutter_begins_behind_the_one_before(
    format: str, data: st.DataObject
) -> None:
    text = data.draw(hostile(format))
    spans = cut(format, text, data.draw(st.sampled_from((1, 10, 200))))
    assert all(span.length is None or span.length > 0 for span in spans)
    assert [span.offset for span in spans] == sorted({span.offset for span in spans})


@pytest.mark.slow
@pytest.mark.parametrize("format", ["gsa-feed", "thunderstone", "gsa-groups"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_only_the_torn_end_of_an_xml_document_is_an_empty_reject(
    format: str, data: st.DataObject
) -> None:
    found = read(format, data.draw(hostile(format)))
    empty = [one.code for one in found if isinstance(one, Reject) and not one.length]
    assert empty in ([], ["torn-end"])


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0"])
@pytest.mark.parametrize(
    ("format", "head", "record", "tail"),
    [
        ("gsa-feed", b"<gsafeed><group>", b'<record url="a"/>', b"</group></gsafeed>"),
        (
            "thunderstone",
            b"<ThunderstoneReplication>",
            b"<Item><Type>D</Type><Url>a</Url></Item>",
            b"</ThunderstoneReplication>",
        ),
        (
            "gsa-groups",
            b"<xmlgroups>",
            b'<membership><principal scope="GROUP">g</principal><members/></membership>',
            b"</xmlgroups>",
        ),
    ],
)
def test_a_control_character_between_two_records_costs_neither(
    format: str, head: bytes, record: bytes, tail: bytes, blank: bytes
) -> None:
    text = head + record + blank + record + tail
    first, reject, second = read(format, text)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.data) == ("stray", blank)
    assert not isinstance(first, Reject)
    assert not isinstance(second, Reject)
    assert len(cut(format, text, 1)) >= 1


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c"])
@pytest.mark.parametrize("root", [b"<gsafeed>", b"<xmlgroups>", b"<ThunderstoneReplication>"])
def test_a_control_character_before_the_root_is_a_stray(blank: bytes, root: bytes) -> None:
    formats = {b"<gsafeed>": "gsa-feed", b"<xmlgroups>": "gsa-groups"}
    found = read(formats.get(root, "thunderstone"), blank + root)
    codes = [(one.code, one.data) for one in found if isinstance(one, Reject)]
    assert codes == [("stray", blank), ("torn-end", b"")]


def test_a_step_that_consumes_nothing_is_an_error() -> None:
    class Stuck(RecordScanner):
        def _stray(self) -> Reject:
            return self._reject("stray", "nothing", 0)

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
