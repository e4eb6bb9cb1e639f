"""What is made to break a reader: it yields records and rejects, or raises FormatError."""

import base64
import io
import signal
import tracemalloc
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NoReturn, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.errors import FormatError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.base import ReadOptions
from support.gsa_records import read_feed, write_feed
from support.streams import opened, slow

HEAD = (
    b"<gsafeed>\n<header><datasource>torn</datasource><feedtype>full</feedtype></header>\n<group>\n"
)
TAIL = b"</group>\n</gsafeed>\n"
FIRST = b'<record url="http://e.com/1" mimetype="text/plain"><content>one</content></record>\n'
LAST = b'<record url="http://e.com/9"><content><![CDATA[<record>]]></content></record>\n'
FEED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    + HEAD
    + FIRST
    + b'<!-- <record> --><acl url="http://e.com/2"/>\n'
    + LAST
    + TAIL
)
BOTH = ["http://e.com/1", "http://e.com/9"]
SMALL = ReadOptions(max_content_bytes=1 << 16)
USUAL = ReadOptions()


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End a test that hangs: by the processor's time, whatever else the machine has to do."""

    def stop(signum: int, frame: object) -> NoReturn:
        raise TimeoutError("the reader hangs")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 60)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def read(markup: bytes, options: ReadOptions = USUAL) -> list[Record | Reject]:
    return list(read_feed(opened(markup), options=options))


def between(stretch: bytes) -> list[Record | Reject]:
    return read(HEAD + FIRST + stretch + LAST + TAIL)


def urls(results: list[Record | Reject]) -> list[str]:
    return [item.url for item in results if isinstance(item, Record)]


def codes(results: list[Record | Reject]) -> list[str]:
    return [reject.code for reject in results if isinstance(reject, Reject)]


def urls_if_any(markup: bytes) -> list[str]:
    try:
        return urls(read(markup))
    except FormatError:
        return []


def record(inside: bytes) -> bytes:
    return b'<record url="http://e.com/5" mimetype="text/plain">' + inside + b"</record>\n"


class Endless(io.RawIOBase):
    """A head, `megabytes` of filling that are never held at once, and a tail."""

    def __init__(self, head: bytes, filling: bytes, megabytes: int, tail: bytes) -> None:
        block = filling * ((1 << 20) // len(filling))
        self._blocks = iter([head, *[block] * megabytes, tail])
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        self._rest = self._rest or next(self._blocks, b"")
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


def peak_megabytes(stream: io.RawIOBase, options: ReadOptions) -> int:
    """Read all of the stream; return how much memory Python held at most."""
    tracemalloc.start()
    try:
        deque(read_feed(cast("IO[bytes]", stream), options=options), maxlen=0)
        return tracemalloc.get_traced_memory()[1] >> 20
    finally:
        tracemalloc.stop()


def test_a_feed_torn_at_any_byte_gives_its_first_records() -> None:
    expected = ["http://e.com/1", "http://e.com/2", "http://e.com/9"]
    for length in range(len(FEED)):
        results = urls_if_any(FEED[:length])
        assert results == expected[: len(results)], length


@pytest.mark.parametrize("inserted", [b"", b"\0"], ids=["lost", "zero"])
def test_a_feed_with_a_wrong_byte_anywhere_raises_nothing_foreign(inserted: bytes) -> None:
    for at in range(len(FEED)):
        damaged = FEED[:at] + inserted + FEED[at + (not inserted) :]
        assert len(urls_if_any(damaged)) <= 4, at


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        (b"", ":1: no element at all; expected <gsafeed>"),
        (b" \n\n", ":3: no element at all; expected <gsafeed>"),
        (b"<html><body/></html>", ":1: root element 'html'; expected <gsafeed>"),
        (
            b'<?xml version="1.0" encoding="klingon"?><gsafeed/>',
            ":1: encoding='klingon'; expected the name of an encoding, such as 'UTF-8'",
        ),
    ],
)
def test_a_stream_that_is_no_feed_is_refused(markup: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(markup)
    assert str(caught.value) == message


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="<>/!?-[]&;'\" =recodgup\0\x80", max_size=60))
def test_markup_by_chance_takes_no_record_with_it(stretch: str) -> None:
    assert urls(between(stretch.encode()))[:1] == ["http://e.com/1"]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100))
def test_bytes_by_chance_in_a_record_take_no_other_with_them(stretch: bytes) -> None:
    results = between(record(b"<content>" + stretch.replace(b"<", b"") + b"</content>"))
    assert [url for url in urls(results) if url != "http://e.com/5"] == BOTH


def test_a_stream_that_gives_a_byte_at_a_time_is_read() -> None:
    results = urls(list(read_feed(slow(FEED, 1))))
    assert results == ["http://e.com/1", "http://e.com/2", "http://e.com/9"]


WITH_5 = ["http://e.com/1", "http://e.com/5", "http://e.com/9"]
QUOTED = b'</content></record><record url="http://e.com/9" action="delete"/><![CDATA[ '


def nested() -> bytes:
    return b"<a>" * 100_000 + b"</a>" * 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stretch", "expected"),
    [
        (lambda: b'<record url="http://e.com/5" displayurl="%b"/>\n' % (b"a" * 10_000_000), WITH_5),
        (
            lambda: record(
                b"<metadata>%b</metadata>" % (b'<meta name="a" content="b"/>' * 100_000)
            ),
            WITH_5,
        ),
        (lambda: b'<record url="http://e.com/5' + b"a" * 10_000_000 + b"\n", BOTH),
        (lambda: record(b"<!-- " + b"words and words " * 1_250_000), BOTH),
        (lambda: record(b"<content>" + nested() + b"</content>"), BOTH),
        (lambda: record(b"<acl>" + nested() + b"</acl>"), BOTH),
        (lambda: record(b"<a>" * 100_000), BOTH),
        (lambda: b"<record>" * 100_000, BOTH),
        (lambda: record(b"<content><![CDATA[" + QUOTED + b"]]></content>"), BOTH),
    ],
    ids=range(9),
)
def test_a_hostile_record_costs_itself_only(
    stretch: Callable[[], bytes], expected: list[str]
) -> None:
    assert urls(between(stretch())) == expected


@pytest.mark.parametrize("reference", [b"&e;", b"&nbsp;", b"&#0;", b"&#x110000;", b"&#xD800;"])
def test_a_reference_to_no_character_costs_its_record_only(reference: bytes) -> None:
    assert urls(between(record(b"<content>" + reference + b"</content>"))) == BOTH


@pytest.mark.slow
def test_a_hundred_thousand_attributes_take_no_other_record_with_them() -> None:
    attributes = b" ".join(b'a%d="1"' % number for number in range(100_000))
    assert set(BOTH) <= set(urls(between(b'<record url="http://e.com/5" ' + attributes + b"/>\n")))


@pytest.mark.slow
@pytest.mark.parametrize("opened", [b"<!-- ", record(b"<content><![CDATA[")])
def test_twenty_megabytes_of_records_after_an_open_section_are_read(opened: bytes) -> None:
    records = record(b"<content>" + b"words " * 60 + b"</content>") * 45_000
    results = read(HEAD + FIRST + opened + records + TAIL)
    assert len(urls(results)) == 45_001


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [FIRST + b"<!-- ", FIRST + b"<record><content><![CDATA[", b'<record url="', b""],
    ids=["comment", "cdata", "tag", "no record"],
)
def test_markup_without_an_end_is_not_held(head: bytes) -> None:
    stream = Endless(HEAD + head, b"words ", 200, LAST + TAIL)
    assert peak_megabytes(stream, SMALL) < 120


@pytest.mark.slow
def test_a_feed_of_many_records_is_not_held() -> None:
    large = record(b"<content>" + b"words " * 9_000 + b"</content>")
    assert peak_megabytes(Endless(HEAD, large, 200, TAIL), SMALL) < 120


def test_an_entity_bomb_costs_its_record_only() -> None:
    entities = b'<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (number, b"&%c;" % (number - 1) * 10) for number in b"bcdefghijklm"
    )
    bomb = record(b"<content>&m;</content>")
    results = read(b"<!DOCTYPE gsafeed [" + entities + b"]>" + HEAD + FIRST + bomb + LAST + TAIL)
    assert (urls(results), codes(results)) == (BOTH, ["entity"])


def test_an_external_entity_is_never_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret")
    doctype = f'<!DOCTYPE gsafeed [<!ENTITY e SYSTEM "{secret.as_uri()}">]>'.encode()
    bad = record(b"<content>&e;</content>")
    results = read(doctype + HEAD + FIRST + bad + LAST + TAIL)
    assert (urls(results), codes(results)) == (BOTH, ["entity"])


def test_a_doctype_that_does_not_end_costs_no_record() -> None:
    results = read(b'<!DOCTYPE gsafeed [<!ENTITY e "' + HEAD + FIRST + LAST + TAIL)
    assert urls(results) == BOTH


@pytest.mark.slow
@pytest.mark.parametrize("stretch", [b"<!DOCTYPE a [", b"<!DOCTYPE [<!--", b"<!DOCTYPE '"])
def test_many_doctypes_that_do_not_end_cost_no_record(stretch: bytes) -> None:
    results = read(HEAD + (stretch + FIRST) * 10_000 + TAIL)
    assert sum(isinstance(item, Record) for item in results) == 10_000


@pytest.mark.slow
def test_many_cdata_sections_that_do_not_end_are_looked_through_once() -> None:
    results = read(HEAD + b'<record url="a"><![CDATA[' * 50_000 + TAIL)
    assert len(results) == 50_000


@pytest.mark.parametrize("inner", [b"<!--", b"<?"])
def test_many_cdata_sections_that_quote_records_are_looked_through_once(inner: bytes) -> None:
    quoted = b"<![CDATA[<![CDATA[</record><record %b ]]>" % inner
    content = b'<record url="a"><content>%b</content></record>' % (quoted * 50_000)
    (record,) = read(HEAD + content + TAIL)
    assert isinstance(record, Record)


@pytest.mark.slow
def test_records_are_not_parsed_with_a_root_of_any_length_each() -> None:
    root = b"<gsafeed a='%b'>" % (b"x" * 500_000)
    results = read(root + b"<record url='http://e.com/1'/>stray" * 10_000 + b"</gsafeed>")
    assert isinstance(results[0], Reject)
    assert results[0].reason == "a start tag of 500014 bytes; expected at most 4096"
    assert sum(isinstance(item, Record) for item in results) == 10_000


def test_no_header_of_any_length_is_held() -> None:
    header = b"<header><datasource>a</datasource>%b</header>" % (b" " * 500_000)
    refused, record = read(b"<gsafeed>" + header + FIRST + b"</gsafeed>")
    assert isinstance(refused, Reject)
    assert refused.reason == "a header of 500043 bytes; expected at most 16384"
    assert isinstance(record, Record)


@pytest.mark.slow
def test_unknown_attributes_of_many_metadata_pairs_are_written_in_time() -> None:
    metas = b'<meta name="a" content="b" more="c"/>' * 20_000
    (record,) = read(HEAD + b'<record url="a"><metadata>%b</metadata></record>' % metas + TAIL)
    assert isinstance(record, Record)
    assert write_feed([record]).count(b' more="c"') == 20_000


ZEROS = base64.b64encode(zlib.compress(bytes(1 << 20), 9))


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (
            b'<content encoding="base64compressed">%b</content>' % ZEROS,
            "a zlib stream that inflates to more; expected at most 65536 bytes",
        ),
        (b"<content>%b</content>" % (b"a" * 65_537), "65537 bytes; expected at most 65536 bytes"),
        (
            b"<content><![CDATA[%b]]></content>" % (b"a" * 65_537),
            "65537 bytes; expected at most 65536 bytes",
        ),
        (
            b'<content encoding="base64binary">%b</content>' % base64.b64encode(bytes(65_537)),
            "65537 bytes; expected at most 65536 bytes",
        ),
    ],
    ids=["zlib", "text", "cdata", "base64"],
)
def test_content_beyond_the_limit_costs_its_record_only(content: bytes, finding: str) -> None:
    results = read(HEAD + FIRST + record(content) + LAST + TAIL, SMALL)
    (reject,) = [item for item in results if isinstance(item, Reject)]
    assert (urls(results), reject.code) == (BOTH, "content-too-large")
    assert reject.reason == finding + "; raise --max-content-bytes to read it"


@pytest.mark.slow
def test_a_zlib_bomb_is_not_inflated() -> None:
    zeros = base64.b64encode(zlib.compress(bytes(256 << 20), 9))
    bomb = record(b'<content encoding="base64compressed">' + zeros + b"</content>")
    assert peak_megabytes(Endless(HEAD, bomb, 1, TAIL), SMALL) < 120


def test_a_cdata_section_above_the_limit_brings_in_no_records() -> None:
    inside = b'<record url="inside" action="delete"/> text ' * 150_000
    large = b'<record url="large"><content><![CDATA[%b]]></content></record>' % inside

    first, reject, last = read(HEAD + FIRST + large + LAST + TAIL, SMALL)

    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.length, reject.url) == ("record-too-large", len(large), "large")
    assert (len(reject.data), reject.truncated) == (1 << 20, True)


def test_a_record_of_too_many_tags_is_not_parsed() -> None:
    large = b'<record url="large"><metadata>%b</metadata></record>' % (b"<meta/>" * 10_000)

    first, reject, last = read(HEAD + FIRST + large + LAST + TAIL, SMALL)

    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "record-too-large",
        "10004 tags; expected at most 10000; raise --max-content-bytes",
    )


@pytest.mark.parametrize(
    ("opener", "closer", "code"),
    [
        (b"<![CDATA[", b"<![CDATA[]]>", "ambiguous-cdata"),
        (b"<!--", b"-->", "ambiguous-comment"),
        (b"<?", b"?>", "ambiguous-instruction"),
    ],
)
def test_a_section_that_ends_199_records_later_is_set_aside_with_them(
    opener: bytes, closer: bytes, code: str
) -> None:
    swallowed = FIRST * 198
    torn = b'<record url="http://e.com/5"><content>%b</content></record>\n'
    results = between(torn % opener + swallowed + torn % closer)
    (reject,) = [item for item in results if isinstance(item, Reject)]
    assert (urls(results), reject.code) == (BOTH, code)
    assert reject.data == (torn % opener + swallowed + torn % closer).rstrip()
