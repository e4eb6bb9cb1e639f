"""Documents for a groups feed: refused, as it has groups and nothing else."""

from schemas.errors import RecordError
from schemas.record import Record
from transforms.formats.adapt_rules import rejected
from transforms.formats.target import Adapted, Adapter, Target


def adapter(_target: Target) -> Adapter:
    """Return the function that rejects every document."""
    return refuse_documents


def refuse_documents(record: Record) -> Adapted:
    """Return the reject of a document."""
    reason = "a document; expected a group with its members, as nothing else is in a groups feed"
    return rejected(record, RecordError("no-membership", reason))
