"""The command streams of GSA adaptors: those of listers, retrievers and authorizers."""

import re
from functools import partial

import msgspec

from feedferry.schemas.choices import MAX_TOKEN_BYTES, NotFound
from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import FIELDS, Format, Holds, Kind, KindRefusal, deferred


class Docids(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that converts between the document ids of command streams and URLs.

    With a `base_url`, it is the rule of the deployed adaptor. With a `template`, which contains
    `{id}` once, the percent-encoded id takes its place. Otherwise, ids are URLs.
    """

    base_url: str | None = None
    template: str | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Conventions of command streams: `strict` reads as the deployed parser does, not with repairs.

    `max_token_bytes` is the most bytes between two delimiters that are read, `delimiter` the one
    that is written.
    """

    strict: bool = False
    docids: Docids = Docids()
    not_found: NotFound = NotFound.SKIP
    max_token_bytes: int = MAX_TOKEN_BYTES
    delimiter: str = "\0"


NO_ANSWER = KindRefusal(
    "no-authz-status",
    "a document; expected an answer of an authorizer or a question to it, with an extra at"
    " stream/authz-status or stream/username",
)
_NO_CONTENT = KindRefusal(
    "no-content",
    "a URL to be crawled, without content; expected content;"
    " ⟦to_format lister-stream⟧ lists URLs to be crawled",
)
_JAVA = "URLs that Java does not accept"

LISTING = Holds(
    fields={"arrival", "modified", "lock", "crawl_immediately", "crawl_once", "display_url"},
    extras=("stream/",),
    actions={Action.ADD, Action.DELETE},
    partly={"display_url": _JAVA, "extras": "all but unknown commands"},
)
_UNHELD = (
    *("arrival", "size", "title", "description", "keywords", "body", "categories", "fields"),
    *("visited", "next_check", "overwrite_acls", "history", "provenance"),
    *("crawl_immediately", "authmethod", "pagerank", "feedrank", "scoring"),
)
DOCUMENT = Holds(
    fields=FIELDS.difference(_UNHELD),
    extras=("stream/",),
    encodings=True,
    actions={Action.ADD, Action.DELETE},
    partly={
        "acl": "unqualified types, and the case of principals with different rules of case",
        "charset": "another than that of the MIME type",
        "metadata": "values that are no text, and repeated pairs",
        "display_url": _JAVA,
        "anchors": _JAVA,
        "extras": "all but unknown commands and params",
    },
    refuses={Kind.CRAWLED: _NO_CONTENT, Kind.EMPTY: _NO_CONTENT},
)
ANSWER = Holds(
    extras=("stream/",), actions={Action.ADD, Action.UPDATE}, refuses={Kind.ANY: NO_ANSWER}
)

_MAGIC = b"GSA Adaptor"
_MAGIC_BYTES = 1 << 13

_recognise = deferred("command_stream.syntax:is_stream")


def _is_stream(name: str, head: bytes) -> bool:
    return _MAGIC in head[:_MAGIC_BYTES] and _recognise(name, head)


LISTER_STREAM = Format(
    name="lister-stream",
    title="GSA adaptor command streams: ids, and when they changed",
    related_acls=(re.compile(rb"acl"),),
    matches=partial(_is_stream, "lister-stream"),
    read=deferred("command_stream.lister:read"),
    split=deferred("command_stream.lister:cut"),
    encoder=deferred("command_stream.writer:ListerEncoder"),
    holds=LISTING,
    adapter=deferred("command_stream.adapt_stream:lister_adapter"),
    options=(StreamOptions,),
)

RETRIEVER_STREAM = Format(
    name="retriever-stream",
    title="GSA adaptor command streams: a document each",
    related_acls=(re.compile(rb"acl"),),
    matches=partial(_is_stream, "retriever-stream"),
    read=deferred("command_stream.stream_documents:read"),
    encoder=deferred("command_stream.writer:RetrieverEncoder"),
    holds=DOCUMENT,
    adapter=deferred("command_stream.adapt_stream:retriever_adapter"),
    options=(StreamOptions,),
    has_one_record=True,
)

AUTHORIZER_STREAM = Format(
    name="authorizer-stream",
    title="GSA adaptor command streams: who may see what",
    matches=partial(_is_stream, "authorizer-stream"),
    read=deferred("command_stream.authorizer:read"),
    encoder=deferred("command_stream.writer:AuthorizerEncoder"),
    holds=ANSWER,
    adapter=deferred("command_stream.adapt_stream:authorizer_adapter"),
    options=(StreamOptions,),
)
