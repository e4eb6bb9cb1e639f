"""The memory of a process for a record that is far above the limit."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.peaks import run_measured

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
RECORD_BYTES = 150 * MEGABYTE
MOST_BYTES = 400 * MEGABYTE
HEAD = (
    b"<gsafeed><header><datasource>d</datasource><feedtype>incremental</feedtype></header><group>"
)
TAIL = b"</group></gsafeed>"
START = b'<record url="http://www.example.com/%d" mimetype="text/plain"><content>'
SMALL = START % 1 + b"text</content></record>"

Pieces = Callable[[], Iterator[bytes]]


def large(begin: bytes, end: bytes, text: bytes = b"some text to be searched ") -> Iterator[bytes]:
    """A record of RECORD_BYTES, piece by piece."""
    block = text * (MEGABYTE // len(text))
    yield begin
    for _ in range(RECORD_BYTES // len(block)):
        yield block
    yield end


def in_feed(record: Iterator[bytes]) -> Iterator[bytes]:
    yield from (HEAD, SMALL)
    yield from record
    yield from (SMALL, TAIL)


def plain() -> Iterator[bytes]:
    return in_feed(large(START % 2, b"</content></record>"))


def cdata() -> Iterator[bytes]:
    markup = b"<record url='http://www.example.com/inside'/> text"
    return in_feed(large(START % 2 + b"<![CDATA[", b"]]></content></record>", markup))


def markup() -> Iterator[bytes]:
    return in_feed(large(b'<record url="http://www.example.com/2">', b"</record>", b"<a>b</a>"))


def lines() -> Iterator[bytes]:
    yield b'{"url":"http://www.example.com/1","action":"ADD"}\n'
    yield from large(b'{"url":"http://www.example.com/2","body":"', b'"}\n')


def retriever() -> Iterator[bytes]:
    return large(b"GSA Adaptor Data Version 1 [\n]\nid=a\ncontent\n", b"")


def write(path: Path, pieces: Iterator[bytes]) -> Path:
    with path.open("wb") as stream:
        stream.writelines(pieces)
    return path


def peak_bytes(words: list[str], *, cwd: Path, codes: tuple[int, ...] = (0, 1)) -> int:
    """Run the command; return the most memory that its process had."""
    code, stderr, peak = run_measured(words, cwd=cwd)
    assert code in codes, stderr
    return peak


@pytest.mark.parametrize(
    ("name", "pieces", "code", "to_format"),
    [
        pytest.param(
            *("plain.xml", plain, "record-too-large", "thunderstone"),
            marks=pytest.mark.kind("memory"),
        ),
        ("cdata.xml", cdata, "record-too-large", "avro"),
        ("markup.xml", markup, "record-too-large", "avro"),
        ("lines.jsonl", lines, "line-too-long", "avro"),
        ("document.txt", retriever, "content-too-large", "avro"),
    ],
)
def test_a_record_above_the_limit_is_skipped_in_bounded_memory(
    tmp_path: Path, name: str, pieces: Pieces, code: str, to_format: str
) -> None:
    source = write(tmp_path / name, pieces())
    words = ["convert", str(source), "-o", "run", "--to", to_format, "--jobs", "1"]

    peak = peak_bytes([*words, "-q"], cwd=tmp_path)

    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["account"]["reject_codes"], peak < MOST_BYTES) == ({code: 1}, True)


def test_a_record_of_the_largest_size_is_converted_in_400_megabytes(tmp_path: Path) -> None:
    text = b"some text to be searched " * (20 * (1 << 20) // 25)
    end = b"</content></record>"
    records = [START % number + text + end for number in (1, 2, 3)]
    source = write(tmp_path / "feed.xml", iter([HEAD, *records, TAIL]))
    words = ["convert", str(source), "-o", "run", "--to", "thunderstone", "--jobs", "1", "-q"]

    assert peak_bytes(words, cwd=tmp_path, codes=(0,)) < MOST_BYTES
