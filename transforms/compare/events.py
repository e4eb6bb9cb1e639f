"""The events of a history: its records, without their contents.

An event is stored as its number in the history and its *state*, the bytes of everything else. Equal
states are equal events, so that most of two inputs are compared without decoding them. Batches of
records that are alike become states by columns, with the plan of their shape.
"""

from collections.abc import Iterator
from functools import lru_cache, partial
from hashlib import sha256
from itertools import count
from struct import Struct
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import identity
from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FULL, is_web
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Action, Arrival, Content, Encoding, Provenance, Record
from feedferry.transforms.formats.fast_path.columns.cells import (
    Cells,
    plain,
    unescaped,
    unescaped_utf8,
)
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    ENCODINGS,
    TEXT_KINDS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.marks import stated
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.plans.batch_plan import BatchPlan, encode_rows, learn
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.rules.normalize import normalize

_OF_ONE_URL = (Action.ADD, Action.UPDATE, Action.DELETE)
_HEAD = Struct(">Q?")
"""The number of an event, and whether it is a deletion."""


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One record of a history without its content, or one membership.

    `size` and `digest` (SHA-256) are those of the decoded content, or of a body text; None without
    either. With a `fault`, it is not known whether the target has the document, and why.
    """

    record: Record | None = None
    size: int | None = None
    digest: bytes | None = None
    membership: Membership | None = None
    fault: str | None = None

    @property
    def key(self) -> bytes:
        """The URL in UTF-8, or a text that is no URL for a group."""
        if self.record is not None:
            return self.record.url.encode()
        if self.membership is None:
            raise AssertionError("an event without a record")
        return _group_key(self.membership)

    @property
    def datasource(self) -> str | None:
        item = self.record or self.membership
        return item.provenance.datasource if item else None


_pack = msgspec.msgpack.Encoder(enc_hook=stated).encode  # of the holes of a model
_unpack = msgspec.msgpack.Decoder(Event).decode


def _group_key(membership: Membership) -> bytes:
    """Return a key that is no URL, the same for all memberships of a group."""
    namespace, name = identity(membership.group.namespace, membership.group.name)
    return f"group {namespace} {name}".encode()


def event_of(item: RecordOrMembership) -> Event:
    """Return the event of a record; raise RecordError if it has none."""
    at = _feed_of(item.provenance.datasource, item.provenance.feedtype)
    if isinstance(item, Membership):
        return Event(membership=replace(item, provenance=at))
    record = normalize(item)
    is_ignored = record.arrival is Arrival.CRAWLED and is_web(at.datasource, at.feedtype)
    if is_ignored:
        record = replace(record, content=None, body=None, mimetype=None)
    content = record.content
    if content is None and record.body is not None:
        content = Content(record.body.encode())
    if at.feedtype == FULL and record.metadata and content is None and not is_ignored:
        raise RecordError("update-in-full-feed", "metadata without content in a full feed")
    size, digest = (None, None) if content is None else _size_and_digest(content)
    return Event(replace(record, content=None, body=None, size=None, provenance=at), size, digest)


@lru_cache(maxsize=64)
def _feed_of(datasource: str | None, feedtype: str | None) -> Provenance:
    return Provenance(datasource=datasource, feedtype=feedtype)


def _size_and_digest(content: Content) -> tuple[int, bytes]:
    data = decode(content, max_bytes=CHECKED)
    return len(data), sha256(data).digest()


def encoded(event: Event, number: int) -> tuple[bytes, bytes]:
    """Return the key and the stored form of an event; raise RecordError for a lone surrogate."""
    try:
        is_deletion = event.record is not None and event.record.action is Action.DELETE
        return event.key, _HEAD.pack(number, is_deletion) + _pack(event)
    except UnicodeEncodeError as exc:
        raise RecordError("not-unicode", "a lone surrogate; expected Unicode text") from exc


def decoded(data: bytes) -> tuple[int, Event]:
    """Return the number of a stored event, and the event."""
    return number_of(data), _unpack(state_of(data))


def number_of(data: bytes) -> int:
    return int(_HEAD.unpack_from(data)[0])


def state_of(data: bytes) -> bytes:
    return data[_HEAD.size :]


def is_deletion(data: bytes) -> bool:
    return bool(_HEAD.unpack_from(data)[1])


def encoded_batch(batch: RecordBatch, number: int) -> Iterator[tuple[bytes, bytes]] | None:
    """Return the keys and the stored forms of a batch; the first record has the number.

    None if its records must be encoded one by one.
    """
    plans = [plan for group in batch.groups if (plan := _plan(group.shape)) is not None]
    if len(plans) < len(batch.groups):
        return None
    try:
        states = encode_rows(batch, plans)
    except InspectedError:  # values that the plan does not write
        return None
    keys = [iter(unescaped_utf8(group.column(group.shape.url_at))) for group in batch.groups]
    are_deletions = [plan.counted.written == Action.DELETE.value for plan in plans]
    return (
        (next(keys[group]), _HEAD.pack(place, are_deletions[group]) + state)
        for place, group, state in zip(count(number), batch.order, states, strict=False)
    )


def _plan(shape: Shape) -> BatchPlan | None:
    if (Event,) not in shape.plans:
        shape.plans[(Event,)] = learn(shape, _held, _StateEncoder())
    plan = shape.plans[(Event,)]
    return plan if isinstance(plan, BatchPlan) else None


def _held(record: Record) -> tuple[Record, tuple[Loss, ...]] | None:
    return (record, ()) if record.action in _OF_ONE_URL else None


@lru_cache(maxsize=65_536)
def _date(text: str) -> bytes:
    return _pack(parse_date(text))


def _contents(kind: ColumnKind, values: Column) -> list[bytes]:
    encoding = ENCODINGS.get(kind, Encoding.NONE)
    contents = (_size_and_digest(Content(value, encoding)) for value in plain(kind, values))
    return [_pack(size) + _pack(digest) for size, digest in contents]


class _StateEncoder:
    """Writes states of records by columns."""

    cells: ClassVar[Cells] = {
        **dict.fromkeys(TEXT_KINDS, (lambda values: [*map(_pack, unescaped(values))],)),
        **dict.fromkeys(
            (ColumnKind.TIME, ColumnKind.NUMBER), (lambda values: [*map(_pack, values)],)
        ),
        ColumnKind.DATE: (lambda values: [*map(_date, values)],),
        ColumnKind.INTEGER: (lambda values: [_pack(int(value)) for value in values],),
        **{kind: (partial(_contents, kind),) for kind in CONTENT_KINDS},
    }

    def encode(self, record: Record) -> bytes:
        return _pack(event_of(record))
