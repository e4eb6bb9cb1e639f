"""Golden pairs: each `golden/<format>/<trouble>.<ext>` and what is read from it, found by glob.

A new case is two files and no code. `pytest --accept` writes what is read; read the difference
before it is committed. A stream that cannot be read at all has its error instead of records.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from schemas.choices import NotFound
from schemas.errors import FormatError, UnavailableError
from schemas.feed import FeedHeader
from schemas.reject import Reject
from schemas.span import Span
from support.streams import opened
from transforms.formats import Mode, ReadOptions, ReadResult, StreamOptions, by_name
from transforms.formats.canonical.jsonl import line

GOLDEN = Path(__file__).parents[2] / "golden"
INPUTS = sorted(
    path
    for path in GOLDEN.glob("*/*")
    if path.suffix in {".xml", ".avro", ".json", ".csv", ".stream"}
    and path.parent.name != "convert"
)
MAX_CONTENT_BYTES = 100_000
"""Low, so that a decompression bomb can be a small file."""


def read(path: Path, text: bytes, *, source: str = "") -> Iterator[ReadResult]:
    """What is found in a file; one that is called `.strict` is read as strictly."""
    mode = Mode.STRICT if ".strict" in path.suffixes else Mode.LENIENT
    own = StreamOptions(mode=mode, not_found=NotFound.DELETE)
    options = ReadOptions(max_content_bytes=MAX_CONTENT_BYTES, own=(own,))
    reader = by_name(path.parent.name.replace("_", "-")).read
    for one in reader(opened(text), span=Span(source=source), options=options):
        if not isinstance(one, FeedHeader):  # a feed without records is a golden file without lines
            yield one


def found(path: Path, text: bytes) -> Iterator[bytes]:
    try:
        for one in read(path, text, source=path.name):
            yield line(one)
    except (FormatError, UnavailableError) as exc:
        yield msgspec.json.encode({"error": str(exc)}) + b"\n"


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_input_is_read_as_expected(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.with_suffix(".jsonl")
    lines = b"".join(found(path, path.read_bytes()))
    if request.config.getoption("accept"):
        expected.write_bytes(lines)
    assert lines.decode() == expected.read_text("utf-8")


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_input_is_accounted_for_to_the_last_byte(path: Path) -> None:
    text = path.read_bytes()
    try:
        ones = list(read(path, text))
    except (FormatError, UnavailableError):
        return
    rejects = [one for one in ones if isinstance(one, Reject)]
    assert [
        reject for reject in rejects if text[reject.offset :][: reject.length] != reject.data
    ] == []
    assert all(isinstance(one, ReadResult) for one in ones)
