"""What a conversion cannot carry, found by running the adapters on sample records.

Each sample is a document with one more field, or a record of another kind; they are in
`samples.jsonl`. Where the source is a format, the sample is first written in that format and read
again, so that only what its files can hold is examined.
"""

import enum
import io
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain

import msgspec
from msgspec.structs import asdict, replace

from schemas.errors import FormatError, RecordError
from schemas.feed import INCREMENTAL, METADATA_AND_URL, Feed
from schemas.membership import Membership, RecordOrMembership
from schemas.notice import REFUSED, Loss
from schemas.record import Crawl, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats import JSONL, Format, WriteOptions, find_format, write_all
from transforms.formats.base import Outcome
from transforms.rules.adapt import Target, adapt, adapt_membership
from transforms.rules.normalize import normalize

DOCUMENT = "document with content"
CRAWLED = "URL to be crawled"
GROUP = "group with members"
EVERY_FIELD = "every field"
"""Names of samples."""

ANY_DOCUMENT = "documents of any kind"


@cache
def samples() -> Mapping[str, RecordOrMembership]:
    """Return a record of each kind, and a document in which every field is set, by their names."""
    with files("transforms.rules").joinpath("samples.jsonl").open("rb") as stream:
        return {
            record.provenance.source: replace(record, provenance=Provenance())
            for record in _kept(JSONL.read(stream))
        }


class Effect(enum.Enum):
    """What a run does by default where the target cannot hold something."""

    STOPS = "stops the run"
    LOST = "lost and counted"
    REJECTED = "rejected"
    FILTERED = "filtered"


class LossRow(msgspec.Struct, frozen=True, kw_only=True):
    """A field or a kind of record that a conversion does not carry.

    `name` is the field of the loss, or the code of the reject or of the filter. `detail` is what
    the adapter reports about the sample. `change` is how the default is changed, empty if it cannot
    be.
    """

    item: str
    effect: Effect
    name: str
    detail: str = ""
    change: str = ""


def loss_table(source: str | None, target: Target) -> tuple[LossRow, ...]:
    """Return what a conversion cannot carry: first kinds of records, then fields of documents.

    `source` is the name of a format. Of any other source, and of `None`, all canonical records are
    examined. Raise ConfigError for a target that is only read.
    """
    rows: dict[tuple[str, str], LossRow] = {}
    for feedtype in _feedtypes(format_ := find_format(source)):
        held = _Source(format_, feedtype)
        for row in _joined(chain(_kind_rows(held, target), _field_rows(held, target))):
            rows.setdefault((row.item, row.name), row)
    return tuple(rows.values())


def _joined(rows: Iterable[LossRow]) -> Iterable[LossRow]:
    """Join rows of the same item and name: the details of all samples of a field."""
    joined: dict[tuple[str, str], LossRow] = {}
    for row in rows:
        first = joined.setdefault((row.item, row.name), row)
        if row.detail not in first.detail:
            joined[row.item, row.name] = replace(first, detail=f"{first.detail}; {row.detail}")
    return joined.values()


class _Source:
    """The records that files of a format can hold; without a format, all records."""

    def __init__(self, format_: Format | None, feedtype: str) -> None:
        keeps_everything = format_ is None or format_.keeps_everything
        self._format = None if keeps_everything else format_
        self._feed = Feed(datasource="sample", feedtype=feedtype)

    def holds(self, item: RecordOrMembership) -> bool:
        """Whether the files hold such a record without a loss."""
        _, losses = self._adapt(item)
        return not losses and [read.action for read in self.read(item)] == [item.action]

    def read(self, item: RecordOrMembership) -> list[RecordOrMembership]:
        """Return what a reader finds after the record was written, nothing if it was rejected."""
        if self._format is None:
            return [item]
        if self._format.encoder is None:
            holds = self._format.holds
            is_held = holds.memberships if isinstance(item, Membership) else bool(holds.actions)
            return [item] if is_held else []
        options = WriteOptions(feed=self._feed, memberships=isinstance(item, Membership))
        outcomes, _ = self._adapt(item)
        stream = io.BytesIO()
        try:
            write_all(self._format.make_encoder(options), _kept(outcomes), stream)
            stream.seek(0)
            return _kept(self._format.read(stream, span=Span(source="sample")))
        except (RecordError, FormatError):  # FormatError: a stream without a record is none
            return []

    def _adapt(
        self, item: RecordOrMembership
    ) -> tuple[tuple[Outcome | Membership, ...], tuple[Loss, ...]]:
        if self._format is None or self._format.encoder is None:
            return (item,), ()
        target = Target(format=self._format.name, feedtype=self._feed.feedtype, wide_deletes=True)
        return _adapt(item, target)


def _kind_rows(source: _Source, target: Target) -> Iterator[LossRow]:
    """Yield what happens to each kind of record; documents that are all rejected are one row."""
    held = {
        name: record
        for name, record in samples().items()
        if name != EVERY_FIELD and source.holds(record)
    }
    outcomes = {
        name: _adapt(item, target) for name, record in held.items() for item in source.read(record)
    }
    codes = {getattr(outcomes[name][0][0], "code", None) for name in held.keys() - {GROUP}}
    usual: set[str] = set()
    for name, (results, losses) in outcomes.items():
        more = tuple(loss for loss in losses if loss.field not in usual)
        if name == DOCUMENT:
            usual = {loss.field for loss in losses}
        if name == GROUP or len(codes) > 1 or None in codes:
            yield from _rows(name, results, more)
        else:
            yield from (replace(row, detail="") for row in _rows(ANY_DOCUMENT, results, more))


def _field_rows(source: _Source, target: Target) -> Iterator[LossRow]:
    """Yield the fields of a document that are lost, unless its kind is not held at all."""
    bases = (samples()[name] for name in (DOCUMENT, CRAWLED))
    base = next((base for base in bases if source.holds(base)), None)
    if not isinstance(base, Record):
        return
    outcomes, losses = _adapt(base, target)
    if isinstance(outcomes[0], Reject):
        return
    usual = {loss.field for loss in losses}
    for name, record in field_samples(base):
        for item in source.read(record):
            if isinstance(item, Record) and _states(item, name):
                outcomes, losses = _adapt(item, target)
                more = tuple(loss for loss in losses if loss.field not in usual)
                yield from _rows(name, outcomes, more)


def _states(record: Record, name: str) -> bool:
    """Whether a record states a field, or a hint for the crawler."""
    field = name.replace("-", "_")
    holder = record if field in Record.__struct_fields__ else record.crawl
    return getattr(holder, field, None) not in (None, ())


def field_samples(document: Record) -> Iterator[tuple[str, Record]]:
    """Yield the document with one more field, for each field and each of its sample values."""
    usual = asdict(samples()[DOCUMENT])
    for name, value in asdict(samples()[EVERY_FIELD]).items():
        if value == usual[name]:
            continue
        if name == "crawl":
            for hint, stated in asdict(value).items():
                yield hint.replace("_", "-"), replace(document, crawl=Crawl(**{hint: stated}))
        else:
            for part in [(item,) for item in value] if isinstance(value, tuple) else [value]:
                yield name.replace("_", "-"), replace(document, **{name: part})


def _rows(
    item: str, outcomes: Iterable[Outcome | Membership], losses: Iterable[Loss]
) -> Iterator[LossRow]:
    details: dict[str, list[str]] = {}
    for loss in losses:
        details.setdefault(loss.field, []).append(loss.detail)
    for field, texts in details.items():
        stops = field in REFUSED
        yield LossRow(
            item=item,
            effect=Effect.STOPS if stops else Effect.LOST,
            name=field,
            detail="; ".join(dict.fromkeys(texts)),
            change=f"{'--accept-loss' if stops else '--fail-on-loss'} {field}",
        )
    for outcome in outcomes:
        if isinstance(outcome, Reject):
            detail, change = _parse_reason(outcome.reason)
            yield LossRow(
                item=item, effect=Effect.REJECTED, name=outcome.code, detail=detail, change=change
            )
        elif not isinstance(outcome, Record | Membership):
            yield LossRow(item=item, effect=Effect.FILTERED, name=outcome.code)


def _parse_reason(reason: str) -> tuple[str, str]:
    """Return the finding of a reason, and its clause about a flag, empty if there is none."""
    detail, _, others = reason.partition("; ")
    clauses = others.replace(": --", "; --").split("; ")
    return detail, next((clause for clause in clauses if clause.startswith("--")), "")


def _adapt(
    item: RecordOrMembership, target: Target
) -> tuple[tuple[Outcome | Membership, ...], tuple[Loss, ...]]:
    if isinstance(item, Membership):
        return (adapt_membership(item, target),), ()
    return adapt(normalize(item), target)


def _kept(results: Iterable[object]) -> list[RecordOrMembership]:
    return [result for result in results if isinstance(result, Record | Membership)]


def _feedtypes(format_: Format | None) -> tuple[str, ...]:
    has_web_feeds = format_ is not None and format_.has_web_feeds
    return (INCREMENTAL, METADATA_AND_URL) if has_web_feeds else (INCREMENTAL,)
