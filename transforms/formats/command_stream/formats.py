"""The command streams of GSA adaptors: listers, retrievers and authorizers."""

from transforms.formats.base import Format
from transforms.formats.command_stream import adapt, authorizer, lister, retriever
from transforms.formats.command_stream.sniff import sniff_stream


def _is_listing(head: bytes) -> bool:
    return sniff_stream(head) == LISTER_STREAM.name


def _is_retrieved(head: bytes) -> bool:
    return sniff_stream(head) == RETRIEVER_STREAM.name


def _is_authorization(head: bytes) -> bool:
    return sniff_stream(head) == AUTHORIZER_STREAM.name


LISTER_STREAM = Format(
    name="lister-stream",
    title="GSA adaptor command streams: ids, and when they changed",
    matches=_is_listing,
    read=lister.read,
    split=lister.cut,
    encoder=lister.encoder,
    adapter=adapt.adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    lists_urls=True,
)

RETRIEVER_STREAM = Format(
    name="retriever-stream",
    title="GSA adaptor command streams: a document each",
    matches=_is_retrieved,
    read=retriever.read,
    split=retriever.cut,
    encoder=retriever.encoder,
    adapter=adapt.adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    has_one_record=True,
)

AUTHORIZER_STREAM = Format(
    name="authorizer-stream",
    title="GSA adaptor command streams: who may see what",
    matches=_is_authorization,
    read=authorizer.read,
    split=authorizer.cut,
    encoder=authorizer.encoder,
    adapter=adapt.adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
)
