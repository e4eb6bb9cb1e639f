"""A record of each kind, and a document with each field of a record."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec.structs import asdict, replace

from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Crawl, Provenance, Record
from feedferry.transforms.formats import JSONL

DOCUMENT = "document with content"
EVERY_FIELD = "every field"
_SAMPLES = Path(__file__).with_name("samples.jsonl")


@cache
def samples() -> Mapping[str, RecordOrMembership]:
    """A record of each kind, and a document in which every field is set, by their names."""
    with _SAMPLES.open("rb") as stream:
        return {
            item.provenance.source: replace(item, provenance=Provenance())
            for item in JSONL.read(stream)
            if isinstance(item, Record | Membership)
        }


def field_samples(document: Record) -> Iterator[tuple[str, Record]]:
    """The document with one more field, for each field and each of its sample values."""
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
