"""The command streams of GSA adaptors: those of listers, retrievers and authorizers."""

from functools import partial

from schemas.record import Action
from transforms.formats.base import FIELDS, Format, Holds, deferred

LISTING = Holds(
    fields={"arrival", "modified", "lock", "crawl_immediately", "crawl_once", "display_url"},
    extras=("stream/",),
    actions={Action.ADD, Action.DELETE},
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
)
ANSWER = Holds(extras=("stream/",), actions={Action.ADD, Action.UPDATE})

_MAGIC = b"GSA Adaptor"
_MAGIC_BYTES = 1 << 13

_recognise = deferred("command_stream.recognition:is_stream")


def _is_stream(name: str, head: bytes) -> bool:
    return _MAGIC in head[:_MAGIC_BYTES] and _recognise(name, head)


LISTER_STREAM = Format(
    name="lister-stream",
    title="GSA adaptor command streams: ids, and when they changed",
    matches=partial(_is_stream, "lister-stream"),
    read=deferred("command_stream.lister:read"),
    split=deferred("command_stream.lister:cut"),
    encoder=deferred("command_stream.writer:ListerEncoder"),
    holds=LISTING,
    adapter=deferred("command_stream.adapt:lister_adapter"),
    is_command_stream=True,
    lists_urls=True,
)

RETRIEVER_STREAM = Format(
    name="retriever-stream",
    title="GSA adaptor command streams: a document each",
    matches=partial(_is_stream, "retriever-stream"),
    read=deferred("command_stream.documents:read"),
    encoder=deferred("command_stream.writer:RetrieverEncoder"),
    holds=DOCUMENT,
    adapter=deferred("command_stream.adapt:retriever_adapter"),
    is_command_stream=True,
    has_one_record=True,
)

AUTHORIZER_STREAM = Format(
    name="authorizer-stream",
    title="GSA adaptor command streams: who may see what",
    matches=partial(_is_stream, "authorizer-stream"),
    read=deferred("command_stream.authorizer:read"),
    encoder=deferred("command_stream.writer:AuthorizerEncoder"),
    holds=ANSWER,
    adapter=deferred("command_stream.adapt:authorizer_adapter"),
    is_command_stream=True,
)
