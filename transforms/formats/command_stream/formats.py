"""The command streams of GSA adaptors: listers, retrievers and authorizers."""

from transforms.formats.base import Format
from transforms.formats.command_stream import adapt, authorizer, lister, retriever
from transforms.formats.command_stream.lister_split import cut_listing
from transforms.formats.command_stream.sniff import sniff_stream
from transforms.formats.command_stream.writer import (
    AuthorizerEncoder,
    ListerEncoder,
    RetrieverEncoder,
)

LISTER_STREAM = Format(
    name="lister-stream",
    title="GSA adaptor command streams: ids, and when they changed",
    matches=lambda head: sniff_stream(head) == "lister-stream",
    read=lister.read,
    split=cut_listing,
    encoder=ListerEncoder,
    adapter=adapt.lister_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    lists_urls=True,
)

RETRIEVER_STREAM = Format(
    name="retriever-stream",
    title="GSA adaptor command streams: a document each",
    matches=lambda head: sniff_stream(head) == "retriever-stream",
    read=retriever.read,
    encoder=RetrieverEncoder,
    adapter=adapt.retriever_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    has_one_record=True,
)

AUTHORIZER_STREAM = Format(
    name="authorizer-stream",
    title="GSA adaptor command streams: who may see what",
    matches=lambda head: sniff_stream(head) == "authorizer-stream",
    read=authorizer.read,
    encoder=AuthorizerEncoder,
    adapter=adapt.authorizer_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
)
