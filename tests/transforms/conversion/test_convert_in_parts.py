"""The spans of a large file: converted in turn or from guesses, they are those of the whole."""

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.account import Account, merge
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.testing.defects import break_at
from feedferry.transforms.conversion import file_spans
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert, convert_on
from feedferry.transforms.conversion.file_spans import (
    GuessedSpans,
    begin,
    cut,
    guess,
    parts,
    survey,
)
from feedferry.transforms.conversion.span_progress import SpanProgress, progress_reader
from feedferry.transforms.formats import AVRO, ReadOptions, WriteOptions, by_name
from feedferry.transforms.formats.base import Survey
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources.files import sign_path
from feedferry.transforms.storage.atomic import read_rejects
from support.archive_damage import HEADER, SYNC, block, containers, document, line_files
from support.archives import gsa_feed, jsonl, put
from support.damage import EPILOG, PROLOG, damaged, feeds, torn

FORMATS = {"f.xml": "gsa-feed", "f.avro": "avro", "f.jsonl": "jsonl"}
HEAD = PROLOG + b"<group>\n"
RECORD = b'<record url="http://e.com/%d" mimetype="text/plain"><content>text</content></record>\n'
OTHER = b'</group>\n<group action="delete">\n'
NEXT_FEED = b"</group></gsafeed>\n" + HEAD.replace(b"made", b"other")
_CASES = (feeds() | damaged() | torn()).map(lambda case: case.markup)


def settings_in(folder: Path, format_: str = "avro") -> Settings:
    folder.mkdir(exist_ok=True)
    return Settings(
        folder=str(folder),
        target=Target(format=format_),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
        refused=frozenset(),
        progress=str(folder),
    )


def whole_of(path: Path) -> Span:
    name, signature = path.name, sign_path(str(path))
    return Span(source=name, path=str(path), format=FORMATS[name], signature=signature)


def first_of(path: Path, span_bytes: int) -> Span:
    (first,) = begin(whole_of(path), span_bytes=span_bytes, options=ReadOptions())
    return first


def guesses(first: Span) -> list[Span]:
    """The first span of a file, and the others as they seem to be, to any workers."""
    surveys = [found for part in parts(first) if (found := survey(part)) is not None]
    guessed = [first, *guess(first, surveys)]
    with tempfile.TemporaryDirectory() as folder:
        workers = [GuessedSpans(first, Path(folder)) for _ in range(2)]
        spans = [workers[part.ordinal % 2].find(part.ordinal) for part in parts(first)]
    assert [span for span in spans if span is not None] == guessed
    return guessed


def in_turn(first: Span, made: Settings) -> list[Account]:
    return list(convert_on(first, made))


def in_parallel(first: Span, made: Settings, guessed: Sequence[Span] = ()) -> list[Account]:
    attempted = {span: convert(span, made) for span in guessed or guesses(first)}
    return list(convert_on(first, made, attempted))


def cut_of(path: Path, span_bytes: int) -> list[Span]:
    """The spans of a scan, as if they were converted in turn."""
    spans = cut(whole_of(path), span_bytes=span_bytes, options=ReadOptions())
    grid = first_of(path, span_bytes).grid
    return [replace(span, length=None, grid=grid) for span in spans]


def spans_of(first: Span, accounts: Sequence[Account]) -> list[Span]:
    return [first, *(account.next for account in accounts if account.next is not None)]


def placeless(accounts: Sequence[Account]) -> list[Account]:
    """Accounts without the names and numbers of attempts and the times of files."""
    return [
        replace(
            account,
            chunks=[replace(chunk, path=Path(chunk.path).name) for chunk in account.chunks],
            files=[replace(f, path=Path(f.path).name, modified_ns=0) for f in account.files],
            stored=[name.partition(".")[0] for name in account.stored],
        )
        for account in accounts
    ]


def results_of(account: Account, folder: Path) -> list[Record | Reject]:
    """The records and rejects of an account, without the span that read them."""
    results: list[Record | Reject] = []
    for chunk in account.chunks:
        with (folder / chunk.path).open("rb") as stream:
            for item in AVRO.read(stream):
                if isinstance(item, Record):
                    results.append(replace(item, provenance=replace(item.provenance, span=0)))
    for file in account.files:
        if file.path.endswith(".rejects.avro"):
            results += [replace(reject, span=0) for reject in read_rejects(folder / file.path)]
    return results


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Several feeds, damaged or not, each after the other or in one."""
    first, *others = draw(st.lists(_CASES, min_size=1, max_size=4))
    if draw(st.booleans()):
        return b"".join((first, *others))
    return first.replace(EPILOG, b"") + b"".join(
        other.replace(PROLOG, b"").replace(EPILOG, b"") for other in others
    )


_FILES = st.one_of(
    st.tuples(st.just("f.xml"), files()),
    st.tuples(st.just("f.avro"), containers()),
    st.tuples(st.just("f.jsonl"), line_files()),
)


@pytest.mark.slow
@settings(max_examples=450, deadline=None)
@given(_FILES, st.integers(20, 200) | st.integers(200, 3000))
def test_spans_in_turn_and_guessed_ones_are_those_of_the_whole(
    file: tuple[str, bytes], span_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, part) for part in ("whole", "turn", "parallel")]
        path = Path(name, file[0])
        path.write_bytes(file[1])
        first = first_of(path, span_bytes)
        whole = convert(whole_of(path), settings_in(folders[0]))
        turn = in_turn(first, settings_in(folders[1]))
        parallel = in_parallel(first, settings_in(folders[2]))
        assert placeless(parallel) == placeless(turn)
        assert cut_of(path, span_bytes) == spans_of(first, turn)
        total = merge(turn)
        assert results_of(total, folders[1]) == results_of(whole, folders[0])
        counts = ("read", "written", "rejected", "reject_codes", "losses", "bytes_read")
        assert [getattr(total, count) for count in counts] == [
            getattr(whole, count) for count in counts
        ]


def many(count: int, between: bytes = b"", *, after: int = 0) -> bytes:
    """A feed of records, with markup between two of them."""
    records = [RECORD % number for number in range(count)]
    return b"".join((HEAD, *records[:after], between, *records[after:], EPILOG))


@pytest.mark.parametrize(
    "markup",
    [
        many(100),
        many(100, OTHER, after=50),
        many(100, NEXT_FEED, after=50),
        many(100, NEXT_FEED + RECORD % 1 + OTHER, after=33),
        many(100, b"<record>" + b"large " * 2000 + b"</record>", after=10),
        b"\xef\xbb\xbf" + many(20),
    ],
    ids=["one group", "two groups", "two feeds", "two feeds and a group", "large", "mark"],
)
@pytest.mark.parametrize("span_bytes", [300, 1000, 5000])
def test_a_feed_without_traps_is_guessed_right(
    tmp_path: Path, markup: bytes, span_bytes: int
) -> None:
    path = Path(put(tmp_path / "f.xml", markup))
    first = first_of(path, span_bytes)
    assert guesses(first) == spans_of(first, in_turn(first, settings_in(tmp_path)))


@pytest.mark.parametrize("distance", [*range(-12, 2), -300])
@pytest.mark.parametrize("between", [OTHER, NEXT_FEED])
def test_tags_at_the_end_of_a_block_are_surveyed(
    tmp_path: Path, between: bytes, distance: int
) -> None:
    block_bytes = 256 << 10
    padding = b"<!--" + b" " * (block_bytes + distance - len(HEAD) - 7) + b"-->"
    markup = HEAD + padding + between + RECORD % 1 + b" " * 200_000 + RECORD % 2 + EPILOG
    path = Path(put(tmp_path / "f.xml", markup))
    first = first_of(path, 300_000)
    assert guesses(first) == spans_of(first, in_turn(first, settings_in(tmp_path)))


LINES = [jsonl(f"http://e.com/{number}" + "x" * (number % 7)) for number in range(100)]
BLOCKS = [block(document(number, b"x" * (number % 7))) for number in range(100)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("f.jsonl", b"".join(LINES)),
        ("f.jsonl", b"".join(LINES)[:-1]),
        ("f.jsonl", b"\xef\xbb\xbf" + b"\r\n".join(LINES)),
        ("f.jsonl", b"\n".join((*LINES[:20], b" " * 9000, *LINES[20:], b"\n" * 20))),
        ("f.avro", HEADER + b"".join(BLOCKS)),
        ("f.avro", HEADER + b"".join((*BLOCKS[:20], block(document(0, bytes(9000))), *BLOCKS))),
        ("f.avro", HEADER + b"".join((*BLOCKS[:20], b"\x80" * 40, *BLOCKS[20:]))[:-5]),
    ],
    ids=["lines", "no last end", "editor", "empty and large", "blocks", "large block", "damaged"],
)
@pytest.mark.parametrize(
    "span_bytes", [pytest.param(1, marks=pytest.mark.slow), 77, 300, 1000, 5000, 12_000]
)
def test_an_archive_without_traps_is_guessed_right(
    tmp_path: Path, name: str, data: bytes, span_bytes: int
) -> None:
    path = Path(put(tmp_path / name, data))
    first = first_of(path, span_bytes)
    right = spans_of(first, in_turn(first, settings_in(tmp_path)))
    assert guesses(first) == right == cut_of(path, span_bytes)


@pytest.mark.parametrize("distance", range(-18, 3))
def test_marks_at_the_end_of_a_block_are_surveyed(tmp_path: Path, distance: int) -> None:
    span_bytes, block_bytes = 300_000, 256 << 10
    size = span_bytes + block_bytes + distance
    content = bytes(size - len(HEADER) - len(block(document(0, b""))))
    blocks = [block(document(0, content)), *BLOCKS]
    for name, data in (
        ("f.avro", HEADER + b"".join(blocks)),
        ("f.jsonl", b" " * size + b"\n" + b"".join(LINES)),
    ):
        path = Path(put(tmp_path / name, data))
        first = first_of(path, span_bytes)
        assert guesses(first) == cut_of(path, span_bytes)
        assert len(guesses(first)) == 2


class CountedFile:
    """Bytes that are opened at offsets, and the number of bytes that were read of them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.bytes_read = data, 0

    @contextmanager
    def open_at(self, offset: int) -> Iterator[io.BytesIO]:
        with io.BytesIO(self.data[offset:]) as stream:
            yield stream
            self.bytes_read += stream.tell() if offset else 0


@pytest.mark.parametrize("name", ["f.jsonl", "f.avro"])
def test_a_large_line_or_block_is_surveyed_once(tmp_path: Path, name: str) -> None:
    file = CountedFile(HEADER + bytes(1 << 20))
    first = first_of(Path(put(tmp_path / name, file.data)), 10_000)
    borders = by_name(first.format).borders
    assert borders is not None
    surveys = [borders().survey(file.open_at, part) for part in parts(first)]
    assert [survey for survey in surveys[5:] if survey.begin is not None] == []
    assert file.bytes_read < 1.1 * len(file.data)


QUOTED = (RECORD % 9) * 30
TRAP = (
    b'<record url="http://e.com/trap" mimetype="text/plain">'
    b"<content><![CDATA[%b]]></content></record>\n" % QUOTED
)


@pytest.mark.parametrize("format_", ["avro", "gsa-feed"])
def test_a_wrong_guess_is_dropped_and_its_span_converted_again(
    tmp_path: Path, format_: str
) -> None:
    path = Path(put(tmp_path / "f.xml", many(30, TRAP, after=10)))
    first, made = first_of(path, 700), settings_in(tmp_path / "parallel", format_)
    right = in_turn(first, settings_in(tmp_path / "turn", format_))
    wrong = [span for span in guesses(first) if span not in spans_of(first, right)]
    accounts = in_parallel(first, made)

    assert wrong
    assert placeless(accounts) == placeless(right)
    assert sum(merge(accounts).written.values()) == 31
    sums = [progress_reader(str(tmp_path / name)).sum() for name in ("parallel", "turn")]
    assert sums[0] == sums[1] != SpanProgress()


def test_a_sync_marker_in_a_content_costs_a_guess_and_no_record(tmp_path: Path) -> None:
    nested = block(document(9, HEADER + block(document(7)) * 30 + SYNC + b"\x02\x02"))
    path = Path(put(tmp_path / "f.avro", HEADER + b"".join((*BLOCKS[:10], nested, *BLOCKS[10:]))))
    first = first_of(path, 700)
    right = in_turn(first, settings_in(tmp_path / "turn"))
    accounts = in_parallel(first, settings_in(tmp_path / "parallel"))
    assert [span for span in guesses(first) if span not in spans_of(first, right)]
    assert placeless(accounts) == placeless(right)
    assert merge(accounts).written == {"ADD": 101}
    assert merge(accounts).rejected == {}


def test_guesses_with_a_wrong_line_or_context_are_dropped(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", many(30, OTHER, after=20)))
    first = first_of(path, 700)
    right = in_turn(first, settings_in(tmp_path / "turn"))
    lines = [replace(span, line=span.line + bool(span.ordinal)) for span in guesses(first)]
    contexts = [replace(span, position=None) if span.ordinal else span for span in guesses(first)]
    late = [replace(span, offset=span.offset + bool(span.ordinal)) for span in guesses(first)]
    for number, guessed in enumerate((lines, contexts, late, [first])):
        made = settings_in(tmp_path / f"{number}")
        assert placeless(in_parallel(first, made, guessed)) == placeless(right)


def test_finished_spans_are_taken_over_whoever_converted_them(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", many(40, TRAP, after=20)))
    first, made = first_of(path, 700), settings_in(tmp_path / "work")
    begun = list(islice(convert_on(first, made), 3))  # then the run is killed
    parallel = in_parallel(first, made)
    assert parallel[:3] == begun
    assert in_turn(first, made) == parallel


def test_a_stopped_span_ends_the_file_in_turn_and_in_parallel(tmp_path: Path) -> None:
    markup = many(40, b"<record>a & b</record>\n" * 2, after=20)
    path = Path(put(tmp_path / "f.xml", markup))
    first, limit = first_of(path, 700), {"max_rejects": 1}
    turn = in_turn(first, replace(settings_in(tmp_path / "turn"), **limit))
    parallel = in_parallel(first, replace(settings_in(tmp_path / "parallel"), **limit))
    assert placeless(parallel) == placeless(turn)
    assert [account.stopped is None for account in turn][-2:] == [True, False]
    assert len(turn) < len(guesses(first))


def test_another_encoding_is_one_span(tmp_path: Path) -> None:
    text = many(20).decode().replace("UTF-8", "UTF-16").encode("utf-16")
    path = Path(put(tmp_path / "f.xml", text))
    first = first_of(path, 500)
    assert guesses(first) == [first]
    (account,) = in_turn(first, settings_in(tmp_path))
    assert sum(account.written.values()) == 20


def test_a_file_of_one_span_has_no_grid(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", gsa_feed()))
    assert first_of(path, path.stat().st_size).grid == 0


def test_a_file_that_cannot_be_surveyed_has_no_guesses(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", many(20)))
    first = first_of(path, 500)
    path.unlink()
    assert survey(first) == Survey(begin=None)
    assert guesses(first) == [first]


def test_a_defect_of_the_survey_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(put(tmp_path / "f.xml", many(20)))
    first = first_of(path, 500)
    break_at(
        monkeypatch,
        "feedferry.transforms.formats.xml.borders.count_lines",
        lambda *args: True,
    )
    assert guesses(first) == [first]


def test_workers_of_a_machine_survey_each_part_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(put(tmp_path / "f.xml", many(40)))
    first = first_of(path, 500)
    surveyed = []

    def surveys(part: Span) -> Survey | None:
        surveyed.append(part.ordinal)
        return survey(part)

    monkeypatch.setattr(file_spans, "survey", surveys)
    late, early = (GuessedSpans(first, tmp_path) for _ in range(2))
    assert late.find(3) == early.find(3)
    assert early.find(1) == late.find(1)  # again, from the begin
    assert late.find(5) is not None
    assert surveyed == [0, 1, 2, 3, 4, 5]


def test_a_survey_that_is_lost_or_damaged_is_made_again(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", many(40)))
    first = first_of(path, 500)
    path.rename(tmp_path / "moved")
    assert GuessedSpans(first, tmp_path).find(3) is None
    (tmp_path / "moved").rename(path)
    span = GuessedSpans(first, tmp_path).find(3)
    assert span is not None
    for stored in (tmp_path / "surveys").iterdir():
        stored.write_bytes(b"\0\0")
    assert GuessedSpans(first, tmp_path).find(3) == span


def test_surveys_that_cannot_be_stored_are_used(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "f.xml", many(40)))
    first = first_of(path, 500)
    (tmp_path / "surveys").touch()
    assert GuessedSpans(first, tmp_path).find(3) in guesses(first)
