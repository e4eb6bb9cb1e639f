"""feedferry carries documents between search appliances: the Python API.

::

    import feedferry

    result = feedferry.convert("archive/", "out", to_format="thunderstone", accept_loss={"acl"})
    print(result.exit_code, result.folder)

Settings have the names of the flags of the command, with underscores. Apache Beam is only loaded by
`convert` and `run`.
"""

from pipelines.observer.observer import Observer, Step
from pipelines.observer.progress import Progress
from pipelines.python_api import convert, formats, inspect, plan, push, read, run
from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    FormatError,
    SourceError,
    StoppedError,
    TargetError,
)
from schemas.membership import Member, Membership
from schemas.notice import Loss, Notice
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
from schemas.reject import Reject

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
