"""The names of the Python API."""

from feedferry.pipelines.observer.observer import Observer, Step
from feedferry.pipelines.observer.progress import Progress
from feedferry.pipelines.python_api import convert, formats, inspect, plan, push, read, run
from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    FormatError,
    SourceError,
    StoppedError,
    TargetError,
)
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import (
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
from feedferry.schemas.reject import Reject

__all__ = [
    "Access",
    "Acl",
    "Action",
    "Anchor",
    "Arrival",
    "Authmethod",
    "BusyError",
    "ConfigError",
    "Content",
    "Crawl",
    "Encoding",
    "Extra",
    "FatalError",
    "FeedferryError",
    "Field",
    "FormatError",
    "History",
    "Inheritance",
    "Loss",
    "Member",
    "Membership",
    "Meta",
    "Notice",
    "Observer",
    "Principal",
    "Progress",
    "Provenance",
    "Record",
    "Reject",
    "Scope",
    "Scoring",
    "SourceError",
    "Step",
    "StoppedError",
    "TargetError",
    "convert",
    "formats",
    "inspect",
    "plan",
    "push",
    "read",
    "run",
]
