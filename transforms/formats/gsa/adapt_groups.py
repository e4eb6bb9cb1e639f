"""Groups for targets that take them, and no documents for those that take nothing else."""

from schemas.errors import RecordError
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject, reject_record
from transforms.formats.adapt_rules import counted, rejected
from transforms.formats.target import Adapted, Target

HOLDING = ("gsa-groups", "avro", "native")
"""The formats that hold groups."""


def adapt_membership(membership: Membership, target: Target) -> Membership | Reject:
    """Return the group as it is, or the reject of one that the target has no place for."""
    if target.format in HOLDING:
        return membership
    members = counted(len(membership.members), "member")
    reason = (
        f"a group with {members}; expected a document, as {target.format} has no groups;"
        f" {', '.join(HOLDING)} take them"
    )
    return reject_record(membership, code="membership", reason=reason, stage="adapt")


def refuse_documents(record: Record) -> Adapted:
    """Return the reject of a document where only groups are taken."""
    reason = "a document; expected a group with its members, as nothing else is in a groups feed"
    return rejected(record, RecordError("no-membership", reason))
