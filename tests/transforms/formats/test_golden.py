"""Golden pairs: each `golden/<format>/<trouble>.<ext>` and what is read from it, found by glob.

A new case is two files and no code. An input has any suffix but `.jsonl`. `pytest --accept` writes
what is read; read the difference before it is committed. A stream that cannot be read at all has
its error instead of records.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from feedferry.schemas.choices import NotFound
from feedferry.schemas.errors import FormatError, UnavailableError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, ReadResult, StreamOptions, by_name
from feedferry.transforms.formats.canonical.jsonl import line
from kits.base import EXPECTED, all_golden
from support.streams import opened

EACH_INPUT = pytest.mark.parametrize(
    "path", all_golden(), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
MAX_CONTENT_BYTES = 100_000
"""Low, so that a decompression bomb can be a small file."""


def read(path: Path, text: bytes, *, source: str = "") -> Iterator[ReadResult]:
    """The results of a file; a file named `.strict` is read strictly."""
    is_strict = ".strict" in path.suffixes
    own = StreamOptions(strict=is_strict, not_found=NotFound.DELETE)
    options = ReadOptions(max_content_bytes=MAX_CONTENT_BYTES, own=(own,))
    reader = by_name(path.parent.name.replace("_", "-")).read
    for result in reader(opened(text), span=Span(source=source), options=options):
        if not isinstance(result, FeedHeader):  # a feed without records has a file without lines
            yield result


def lines_of(path: Path, text: bytes) -> Iterator[bytes]:
    try:
        for result in read(path, text, source=path.name):
            yield line(result)
    except (FormatError, UnavailableError) as exc:
        yield msgspec.json.encode({"error": str(exc)}) + b"\n"


@EACH_INPUT
def test_a_golden_input_is_read_as_expected(path: Path, accept: bool) -> None:
    expected = path.with_suffix(EXPECTED)
    lines = b"".join(lines_of(path, path.read_bytes()))
    if accept:
        expected.write_bytes(lines)
    assert lines.decode() == expected.read_text("utf-8")


@EACH_INPUT
def test_a_golden_input_is_accounted_for_to_the_last_byte(path: Path) -> None:
    text = path.read_bytes()
    try:
        results = list(read(path, text))
    except (FormatError, UnavailableError):
        return
    rejects = [result for result in results if isinstance(result, Reject)]
    assert [
        reject for reject in rejects if text[reject.offset :][: reject.length] != reject.data
    ] == []
