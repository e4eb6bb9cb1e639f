"""Adapt records to a target: records that it can hold, and a loss for each field that it cannot.

The rules of a format are in its package. `docs/losses.md` compares the formats.
"""

from collections.abc import Callable, Container
from functools import partial

from schemas.errors import ConfigError, LossRefusedError, RecordError
from schemas.membership import Membership
from schemas.notice import Loss
from schemas.record import Record
from schemas.reject import Filtered, Reject, reject_record
from transforms.formats import FORMATS, by_name
from transforms.formats.adapt_rules import counted, encode_contents, filtered, hold
from transforms.formats.base import Adapted, Adapter, ContentOptions, Target

__all__ = [
    "LEFT_OUT",
    "Adapted",
    "Adapter",
    "Target",
    "adapt",
    "adapt_membership",
    "adapter",
    "check_loss",
    "leave_out_documents",
]

LEFT_OUT = {
    "groups-left-out": "a group; the target has none: --to gsa-groups takes it, in another run",
    "documents-left-out": "a document; the target has groups only: leave it to another run",
}
"""Codes of what is filtered because the target takes only documents, or only groups."""


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a target; it raises no FeedferryError.

    Raise ConfigError if there is no such format, or if it is only read.
    """
    format_ = by_name(target.format)
    if format_.encoder is None:
        raise ConfigError(
            f"⟦to_format⟧ {format_.name}: only read; expected a format that is written"
        )
    make: Callable[[Target], Adapter] = format_.adapter or partial(hold, format_.held_by(target))
    adapt = (lambda record: ((record,), ())) if format_.keeps_everything else make(target)
    return encode_contents(adapt, target) if ContentOptions in format_.options else adapt


def adapt(record: Record, target: Target) -> Adapted:
    """Return the adapted form of one record; for many records, `adapter` is faster."""
    return adapter(target)(record)


def leave_out_documents(record: Record) -> Adapted:
    """The adapter of a source with documents and groups, for a target that holds groups only."""
    return filtered(record, "documents-left-out"), ()


def adapt_membership(
    membership: Membership, target: Target, *, is_mixed: bool = False
) -> Membership | Reject | Filtered:
    """Return the group as it is, or what becomes of it if the target does not hold groups.

    Groups of a source with documents and groups (`is_mixed`) are filtered, others rejected.
    """
    if by_name(target.format).holds.memberships:
        return membership
    if is_mixed:
        action = membership.action.value
        return Filtered(code="groups-left-out", url=membership.url, action=action)
    members = counted(len(membership.members), "member")
    with_groups = [
        format_.name for format_ in FORMATS if format_.holds.memberships and format_.encoder
    ]
    reason = (
        f"a group with {members}; expected a document, as {target.format} has no groups;"
        f" {', '.join(with_groups)} take them"
    )
    return reject_record(membership, RecordError("membership", reason), stage="adapt")


def check_loss(loss: Loss, refused: Container[str], *, source: str) -> None:
    """Raise LossRefusedError for the loss of a field that must not be lost."""
    if loss.field in refused:
        raise LossRefusedError(
            f"{source}: {loss.url}: {loss.field}: {loss.detail}; "
            f"⟦accept_loss {loss.field}⟧ goes on without it"
        )
