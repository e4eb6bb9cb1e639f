"""What flows: the public names of this floor, in one list."""

from schemas.account import Account, Chunk, LossCount
from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.delivery import Delivery, Door
from schemas.feed import Feed
from schemas.loss import Loss
from schemas.membership import Kind, Member, Membership
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
    "Kind",
    "Loss",
    "LossCount",
    "Member",
    "Membership",
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
