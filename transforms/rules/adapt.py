"""Adapt records to a target: records that it can hold, and a loss for each field that it cannot.

The rules of a format are in its package. `docs/losses.md` compares the formats.
"""

from collections.abc import Callable, Container
from functools import partial

from feedferry.schemas.errors import ConfigError, LossRefusedError
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Filtered
from feedferry.transforms.formats import by_name, format_of
from feedferry.transforms.formats.base import Adapted, Adapter, ContentOptions, Target
from feedferry.transforms.formats.holding.adapt_rules import filtered
from feedferry.transforms.formats.holding.hold import encode_contents, hold

__all__ = [
    "GROUPS_LEFT_OUT",
    "KEPT_GROUPS",
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

GROUPS_LEFT_OUT = "groups-left-out"
LEFT_OUT = {
    GROUPS_LEFT_OUT: "a group; the run does not send them: --to gsa-groups does, in another run",
    "documents-left-out": "a document; the target has groups only: leave it to another run",
}
"""Codes of what is filtered because the target takes only documents, or only groups."""

KEPT_GROUPS = (
    "a group; the job keeps it in state.acls, which target.groups_index and feedferry access read"
)
"""What becomes of a group in a job that keeps groups, for a target that takes documents only."""


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
    if format_.holds_only_memberships:
        return leave_out_documents
    adapt = (lambda record: ((record,), ())) if format_.keeps_everything else make(target)
    return encode_contents(adapt, target) if ContentOptions in format_.options else adapt


def adapt(record: Record, target: Target) -> Adapted:
    """Return the adapted form of one record; for many records, `adapter` is faster."""
    return adapter(target)(record)


def leave_out_documents(record: Record) -> Adapted:
    """The adapter of a target that holds groups only."""
    return filtered(record, "documents-left-out"), ()


def adapt_membership(membership: Membership, target: Target) -> Membership | Filtered:
    """Return the group as it is; filtered, if the target takes no groups."""
    if format_of(target, memberships=True) is not None:
        return membership
    action = membership.action.value
    return Filtered(code=GROUPS_LEFT_OUT, url=membership.url, action=action)


def check_loss(loss: Loss, refused: Container[str], *, source: str) -> None:
    """Raise LossRefusedError for the loss of a field that must not be lost."""
    if loss.field in refused:
        raise LossRefusedError(
            f"{source}: {loss.url}: {loss.field}: {loss.detail}; "
            f"⟦accept_loss {loss.field}⟧ goes on without it"
        )
