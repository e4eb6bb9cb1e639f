"""The kit of one of our formats, with its golden files, and what only our own tests use."""

import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Record
from feedferry.testing.format_kit import HOST, MARK, FormatKit, words, written_of
from feedferry.transforms.formats import JSONL, Format, ReadOptions, StreamOptions, by_name

__all__ = [
    "EXPECTED",
    "GOLDEN",
    "HOST",
    "MARK",
    "SOME",
    "Kit",
    "all_golden",
    "folder_of",
    "results_of",
    "words",
]

GOLDEN = Path(__file__).parents[1] / "golden"
SOME = "*/[ac]*.jsonl"
EXPECTED = ".jsonl"
"""The suffix of what is read from a golden input, which has any other suffix."""


class Kit(FormatKit, frozen=True, kw_only=True, eq=False):
    """The kit of one of our formats."""

    frame: tuple[str, ...] = ()
    """Tags around records, in formats where damage may cross records."""

    repeated: tuple[bytes, ...] = ()
    """Stretches that take linear time if they are repeated; by default a record, and the words."""

    golden: str = ""
    """Which golden files are seeds for mutation; by default the inputs of the format."""

    make_seed: Callable[[bytes], bytes] = lambda text: text
    """Makes a document of such a file."""

    def without_limits(self, options: ReadOptions) -> ReadOptions:
        own = options.of(StreamOptions)
        unlimited = StreamOptions(docids=own.docids, strict=own.strict)
        return ReadOptions(zone=options.zone, own=(unlimited,))

    def seeds(self, *, max_bytes: int) -> list[bytes]:
        """Return small golden documents, and one that the format writes."""
        pattern = self.golden or f"{folder_of(self.format)}/*"
        golden = [
            self.make_seed(path.read_bytes())
            for path in sorted(GOLDEN.glob(pattern))
            if (self.golden or path.suffix != EXPECTED)
            and path.is_file()
            and path.stat().st_size <= max_bytes
        ]
        return [*golden, _written(self.name)] if self.format.encoder else golden


def folder_of(format_: Format) -> str:
    """The name of the folder of a format, among golden files and in the corpus."""
    return format_.name.replace("-", "_")


def all_golden() -> list[Path]:
    """Return the golden inputs of all formats."""
    paths = sorted(GOLDEN.glob("*/*"))
    return [path for path in paths if path.is_file() and path.suffix != EXPECTED]


def results_of(lines: bytes) -> list[RecordOrMembership]:
    """The records and memberships of jsonl."""
    results = JSONL.read(io.BytesIO(lines))
    return [result for result in results if isinstance(result, Record | Membership)]


@cache
def _written(name: str) -> bytes:
    """A stream of what the format holds of some golden records of all formats."""
    return written_of(by_name(name), _golden_records())


def _golden_records() -> Iterator[RecordOrMembership]:
    for path in sorted(GOLDEN.glob(SOME)):
        yield from results_of(path.read_bytes())
