"""The kit of a format: what tests need to know about it next to its `Format` object."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Action, Record
from feedferry.testing.protection import Protection
from feedferry.testing.record_samples import DOCUMENT, field_samples, samples
from feedferry.transforms.formats import Encoder, Format, ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize

HOST = "http://intranet.example.com"
MARK = "defective"
"""The name of the second record of `FormatKit.document`."""


def words(text: str) -> tuple[bytes, ...]:
    """Return the words of a text, which are separated by `¦`."""
    return tuple(text.encode("latin-1").split("¦".encode("latin-1")))


class FormatKit(msgspec.Struct, frozen=True, kw_only=True, eq=False):
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

    options: tuple[ReadOptions, ...] = (
        ReadOptions(),
        ReadOptions(zone="Europe/Zurich", max_content_bytes=64),
    )

    targets: tuple[Target, ...] = ()
    """The kinds of target that differ; by default the format without choices."""

    protection_of: Callable[[bytes], Protection] = lambda _text: Protection()
    """What protects the one document of a stream, read without the code under test."""

    rare_losses: frozenset[str] = frozenset()
    """Declared losses of values that no sample record has."""

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
    def is_written(self) -> bool:
        """Whether the format is a target of documents."""
        return self.format.encoder is not None and bool(self.format.holds.actions)

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

    def without_limits(self, options: ReadOptions) -> ReadOptions:
        """Return the options with which everything that is written with `options` is read."""
        return ReadOptions(zone=options.zone, own=options.own)

    def heads(self) -> tuple[bytes, ...]:
        record = self.record_of("1")
        return (b"", self.start, self.start + record[: len(record) // 2], *self.beginnings)

    def seeds(self, *, max_bytes: int) -> list[bytes]:
        """Return small documents from which damaged ones are made."""
        written = [written_of(self.format, sample_items())] if self.format.encoder else []
        return [text for text in (self.document, *written) if len(text) <= max_bytes]


def sample_items() -> list[RecordOrMembership]:
    """A record of each kind, and a document with each single field."""
    document = samples()[DOCUMENT]
    assert isinstance(document, Record)
    return [*samples().values(), *(record for _, record in field_samples(document))]


def written_of(format_: Format, items: Iterable[RecordOrMembership]) -> bytes:
    """A stream of everything that the format holds of these records or groups."""
    is_of_groups = format_.holds_only_memberships
    encoder = format_.make_encoder(WriteOptions(memberships=is_of_groups))
    adapt = adapter(Target(format=format_.name, feedtype="incremental", allow_wide_deletes=True))
    frames = []
    for item in items:
        if isinstance(item, Membership) is not is_of_groups:
            continue
        outcomes = adapt(normalize(item))[0] if isinstance(item, Record) else (item,)
        with suppress(RecordError):
            kept = [item for item in outcomes if isinstance(item, Record | Membership)]
            frames.append(encoder.frame([encoder.encode(item) for item in kept]))
    return encoder.prolog() + b"".join(frames) + encoder.epilog()
