"""The values that travel between the stages of a run."""

from schemas.account import Account, Chunk, LossCount
from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.delivery import Delivery, Door
from schemas.feed import Feed
from schemas.loss import Loss
from schemas.membership import Member, Membership, MembershipAction
from schemas.notice import Notice
from schemas.receipt import AttemptState, Receipt, Refusal
from schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
    Record,
    Scoring,
)
from schemas.reject import Filtered, Reject
from schemas.span import Span

__all__ = [
    "Access",
    "Account",
    "Acl",
    "Action",
    "Anchor",
    "Arrival",
    "AttemptState",
    "Authmethod",
    "Chunk",
    "Content",
    "Crawl",
    "Delivery",
    "Door",
    "Encoding",
    "Extra",
    "Feed",
    "Field",
    "Filtered",
    "History",
    "Inheritance",
    "Loss",
    "LossCount",
    "Member",
    "Membership",
    "MembershipAction",
    "Meta",
    "Notice",
    "Principal",
    "Provenance",
    "Receipt",
    "Record",
    "Refusal",
    "Reject",
    "Scope",
    "Scoring",
    "Span",
]
