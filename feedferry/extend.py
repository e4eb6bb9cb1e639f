"""The names that a format, a source or an appliance of another package is made of.

docs/extend.md has the list, with an example. Everything else may change without notice, but for
`feedferry` itself and `feedferry.testing`.
"""

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.check import CheckLine, fail_of, ok, warn
from feedferry.schemas.content import decode
from feedferry.schemas.errors import (
    ConfigError,
    FormatError,
    RecordError,
    SourceError,
    TargetError,
)
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.own_key import OwnKey
from feedferry.schemas.receipt import Refusal
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from feedferry.schemas.reject import Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats import (
    Encoder,
    Format,
    Holds,
    Places,
    ReadOptions,
    ReadResult,
    WriteOptions,
)
from feedferry.transforms.formats.base import Kind, KindRefusal, Target
from feedferry.transforms.formats.places import LinePlaces
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody, multipart, urlencoded
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    RunSession,
    SendContext,
)
from feedferry.transforms.sinks.push.wire.responses import (
    describe,
    quote,
    status_verdict,
    text_of,
    verdict_on,
)
from feedferry.transforms.sources import Source, SourceOptions, SourceRun, SpanRequest

__all__ = [
    "Access",
    "Acl",
    "Action",
    "Address",
    "ApplianceProtocol",
    "ApplianceResponse",
    "Arrival",
    "CheckLine",
    "ChunkPart",
    "ConfigError",
    "Content",
    "Crawl",
    "Encoder",
    "Endpoint",
    "Format",
    "FormatError",
    "Holds",
    "Inheritance",
    "Kind",
    "KindRefusal",
    "LinePlaces",
    "Loss",
    "Member",
    "Membership",
    "Meta",
    "Notice",
    "OwnKey",
    "Place",
    "Places",
    "Principal",
    "Provenance",
    "ReadOptions",
    "ReadResult",
    "Record",
    "RecordError",
    "Refusal",
    "Reject",
    "RequestBody",
    "ResponseMeaning",
    "RunSession",
    "Scope",
    "SendContext",
    "Source",
    "SourceError",
    "SourceOptions",
    "SourceRun",
    "Span",
    "SpanRequest",
    "Target",
    "TargetError",
    "Verdict",
    "WriteOptions",
    "decode",
    "describe",
    "fail_of",
    "multipart",
    "ok",
    "quote",
    "record_error",
    "reject_bytes",
    "status_verdict",
    "text_of",
    "urlencoded",
    "verdict_on",
    "warn",
]
