"""The kit of a format: what tests need to know about it next to its `Format` object."""

import io
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Action, Record
from feedferry.testing.protection import Protection
from feedferry.transforms.formats import JSONL, Encoder, Format, ReadOptions, WriteOptions, by_name
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize

HOST = "http://intranet.example.com"
MARK = "defective"
"""The name of the second record of `Kit.document`."""

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
SOME = "*/[ac]*.jsonl"
EXPECTED = ".jsonl"
"""The suffix of what is read from a golden input, which has any other suffix."""


def words(text: str) -> tuple[bytes, ...]:
    """Return the words of a text, which are separated by `¦`."""
    return tuple(text.encode("latin-1").split("¦".encode("latin-1")))


class Kit(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What tests need to know about a format. A format with an encoder needs the first two only.

    `record` is the template of a record with the places `{name}` and `{text}`; by default, the
    encoder writes it.
    """

    format: Format

    reads_record: str
    """`module.function`, or `module:Class.method`: it reads one record, and no other."""

    is_marked: Callable[..., bool] = lambda *args, **options: MARK in repr((args, options))
    """Whether these arguments of the function are the record named MARK."""

    head: bytes | None = None
    record: str = ""
    tail: bytes = b""

    beginnings: tuple[bytes, ...] = ()
    """Other first bytes of a stream, so that more of a reader runs than the check of these."""

    words: tuple[bytes, ...] = ()
    """Markup and values with a meaning in the format."""

    frame: tuple[str, ...] = ()
    """Tags around records, in formats where damage may cross records."""

    repeated: tuple[bytes, ...] = ()
    """Stretches that take linear time if they are repeated; by default a record, and the words."""

    options: tuple[ReadOptions, ...] = (
        ReadOptions(),
        ReadOptions(zone="Europe/Zurich", max_content_bytes=64),
    )

    targets: tuple[Target, ...] = ()
    """The kinds of target that differ; by default the format without choices."""

    protection_of: Callable[[bytes], Protection] = lambda _text: Protection()
    """What protects the one document of a stream, read without the code under test."""

    golden: str = ""
    """Which golden files are seeds for mutation; by default the inputs of the format."""

    make_seed: Callable[[bytes], bytes] = lambda text: text
    """Makes a document of such a file."""

    results_per_byte: int = 1
    """The most results of a byte."""

    is_placed: bool = True
    """Whether the place of a reject is that of its data, and places do not overlap."""

    is_loose: bool = False
    """Whether the reader accepts what the writer refuses.

    The round trip is then tested with records that the adapter passes without a loss.
    """

    def __repr__(self) -> str:
        return f"the kit of {self.name}"

    @property
    def name(self) -> str:
        return self.format.name

    @property
    def start(self) -> bytes:
        return self.encoder().prolog() if self.head is None else self.head

    @property
    def document(self) -> bytes:
        """A document of three records, the second of which is named MARK."""
        records = [self.record_of(name) for name in ("1", MARK, "3")]
        framed = b"".join(records) if self.record else self.encoder().frame(records)
        return self.start + framed + self.tail

    def record_of(self, name: str, text: str = "plan") -> bytes:
        if self.record:
            return self.record.replace("{name}", name).replace("{text}", text).encode()
        return self.encoder().encode(Record(url=f"{HOST}/{name}", action=Action.ADD))

    def encoder(self) -> Encoder:
        return self.format.make_encoder(
            WriteOptions(memberships=self.format.holds_only_memberships)
        )

    def all_targets(self) -> tuple[Target, ...]:
        return self.targets or (Target(format=self.name),)

    def heads(self) -> tuple[bytes, ...]:
        record = self.record_of("1")
        return (b"", self.start, self.start + record[: len(record) // 2], *self.beginnings)

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
        return [*golden, written(self.name)] if self.format.encoder else golden


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
def written(name: str) -> bytes:
    """A stream of what the format holds of some golden records of all formats."""
    format_ = by_name(name)
    is_of_groups = format_.holds_only_memberships
    encoder = format_.make_encoder(WriteOptions(memberships=is_of_groups))
    adapt = adapter(Target(format=name, feedtype="incremental", allow_wide_deletes=True))
    frames = []
    for path in sorted(GOLDEN.glob(SOME)):
        for result in results_of(path.read_bytes()):
            if isinstance(result, Membership) is not is_of_groups:
                continue
            outcomes = adapt(normalize(result))[0] if isinstance(result, Record) else (result,)
            with suppress(RecordError):
                kept = [item for item in outcomes if isinstance(item, Record | Membership)]
                frames.append(encoder.frame([encoder.encode(item) for item in kept]))
    return encoder.prolog() + b"".join(frames) + encoder.epilog()
