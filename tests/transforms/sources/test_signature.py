"""A file that changes while it is converted stops the run, whatever the change is."""

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from schemas.errors import SourceError
from schemas.record import Record
from schemas.span import FileSignature, Span
from support.archives import documents, gsa_feed, put
from transforms.formats import ReadResult
from transforms.sources import SpanRequest, read_span
from transforms.sources.files import cut_file, open_span, sign_path

FEED = gsa_feed(*documents(1, 2000), feedtype="full")
SECOND_NS = 1_700_000_000_000_000_000
MOMENT_NS = SECOND_NS + 500_000_000
CURE = (
    "; expected it to stay as it is; start again when nothing writes to it any more, and all of it"
    " is converted"
)


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = Path(put(tmp_path / "feed.xml", FEED))
    os.utime(path, ns=(MOMENT_NS, MOMENT_NS))
    return path


def whole(path: Path) -> Span:
    """Return the span of a file as a run lists it."""
    return Span(
        source="feed.xml", path=str(path), format="gsa-feed", signature=sign_path(str(path))
    )


def parts(path: Path) -> list[Span]:
    """Return the spans that the file is cut into."""
    return list(cut_file(whole(path), span_bytes=32 << 10))


def shrink(path: Path) -> None:
    """Let a file end after half of its records, at the end of one of them."""
    text = path.read_bytes()
    os.truncate(path, text.index(b"\n", len(text) // 2) + 1)


def grow(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"<!-- more -->\n")


def touch(path: Path) -> None:
    os.utime(path, ns=(MOMENT_NS + 1, MOMENT_NS + 1))


def replace(path: Path) -> None:
    """Put another file in its place, which is as long."""
    other = path.with_name("other")
    other.write_bytes(FEED.replace(b"plan", b"plot"))
    os.replace(other, path)


CHANGES = (shrink, grow, touch, replace)
by_change = pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])


def results_of(span: Span) -> Iterator[ReadResult]:
    return read_span(SpanRequest(span=span))


def refusal(results: Iterable[object]) -> str:
    with pytest.raises(SourceError) as caught:
        list(results)
    return str(caught.value)


def test_a_file_that_does_not_change_is_read(feed: Path) -> None:
    read = [result for part in parts(feed) for result in results_of(part)]
    assert sum(isinstance(result, Record) for result in read) == 2000


@by_change
def test_a_file_that_changed_since_the_run_began_or_it_was_cut_is_refused(
    feed: Path, change: Callable[[Path], None]
) -> None:
    span, (first, *others) = whole(feed), parts(feed)
    list(results_of(first))
    change(feed)

    assert {refusal(results_of(part)).partition(": it had")[0] for part in (span, *others)} == {
        "feed.xml: changed while it was converted"
    }


@pytest.mark.parametrize("change", [shrink, grow, touch])
@pytest.mark.parametrize("name", ["feed.xml", "feed.xml.gz"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    path = Path(put(tmp_path / name, gzip.compress(FEED) if name.endswith(".gz") else FEED))
    results = results_of(whole(path))
    next(results)
    if name.endswith(".gz") and change is shrink:
        os.truncate(path, path.stat().st_size // 2)
    else:
        change(path)

    assert refusal(results).startswith("feed.xml: changed while it was converted")


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(feed: Path) -> None:
    results = results_of(whole(feed))
    next(results)
    replace(feed)

    assert len(list(results)) == 1999


def test_a_file_that_changes_while_it_is_cut_is_refused(feed: Path) -> None:
    spans = cut_file(whole(feed), span_bytes=32 << 10)
    next(spans)
    shrink(feed)

    assert "changed while it was converted" in refusal(spans)


def test_the_message_has_both_signatures(feed: Path) -> None:
    span = whole(feed)
    os.truncate(feed, 100)
    os.utime(feed, ns=(0, MOMENT_NS + 2_000_000_000))

    assert refusal(results_of(span)) == (
        "feed.xml: changed while it was converted: it had"
        f" {len(FEED):,} bytes of 2023-11-14 22:13:20.500000+00:00, and has"
        f" 100 bytes of 2023-11-14 22:13:22.500000+00:00 now{CURE}"
    )


def test_a_file_without_a_signature_that_ends_inside_a_span_is_refused(feed: Path) -> None:
    *_, last = parts(feed)
    os.truncate(feed, last.offset + 10)
    unsigned = msgspec.structs.replace(last, signature=None, length=len(FEED) - last.offset)

    left = len(FEED) - last.offset - 10
    assert refusal(results_of(unsigned)) == (
        f"feed.xml: ends {left:,} bytes before the end of a span that was cut from it; expected it"
        " to stay as it is; start again when nothing writes to it any more"
    )


def test_a_changed_member_of_several_files_is_refused(tmp_path: Path) -> None:
    first, second = (Path(put(tmp_path / name, FEED)) for name in ("a.xml", "b.xml"))
    span = Span(members=(whole(first), whole(second)))
    grow(second)

    assert "changed while it was converted" in refusal(results_of(span))


def test_a_time_that_is_rounded_to_seconds_is_the_same_time(feed: Path) -> None:
    """A server may keep whole seconds, while the client that wrote the file has more."""
    span = whole(feed)
    os.utime(feed, ns=(0, SECOND_NS))

    assert len(list(results_of(span))) == 2000


def test_a_pipe_has_no_signature(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert sign_path(str(tmp_path / "pipe")) is None


def test_a_file_that_was_copied_for_the_run_may_have_any_time(feed: Path) -> None:
    signed = FileSignature(size=len(FEED), sha256="of the copy")

    with open_span(msgspec.structs.replace(whole(feed), signature=signed)) as stream:
        assert len(stream.read()) == len(FEED)


def test_a_file_that_was_removed_since_it_was_cut_is_refused(feed: Path) -> None:
    *_, last = parts(feed)
    feed.unlink()

    assert refusal(results_of(last)) == (
        f"feed.xml: removed while it was converted: it had {len(FEED):,} bytes of"
        " 2023-11-14 22:13:20.500000+00:00; expected it to stay as it is; start again when it is"
        " there, and all of it is converted"
    )
