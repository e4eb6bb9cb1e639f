"""The formats: one object each, in the order in which `feedferry formats` lists them.

A format is added by one package with its `Format`, and its object here, or by another package with
an entry point in `feedferry.formats`. `registered` adds formats for the time of a `with` block, as
a test or a program that uses this package as a library does.
"""

import re
from collections.abc import Callable
from operator import attrgetter

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.spelling import did_you_mean
from feedferry.transforms.formats.base import (
    ContentOptions,
    Encoder,
    Format,
    Holds,
    OwnOptions,
    Reader,
    ReadOptions,
    ReadResult,
    Splitter,
    Target,
    WriteOptions,
    deferred,
    write_all,
)
from feedferry.transforms.formats.canonical.canonical_formats import AVRO, JSONL
from feedferry.transforms.formats.command_stream.stream_formats import (
    AUTHORIZER_STREAM,
    LISTER_STREAM,
    RETRIEVER_STREAM,
    Docids,
    StreamOptions,
)
from feedferry.transforms.formats.discovery_engine.discovery_format import DISCOVERY_ENGINE
from feedferry.transforms.formats.gsa.gsa_formats import (
    GROUPS_CSV,
    GSA_FEED,
    GSA_GROUPS,
    FeedOptions,
)
from feedferry.transforms.formats.json_documents.json_documents_format import (
    JSON_DOCUMENTS,
    JsonDocumentsOptions,
)
from feedferry.transforms.formats.known_formats import FORMATS
from feedferry.transforms.formats.opensearch.opensearch_format import (
    OPENSEARCH,
    OpensearchOptions,
)
from feedferry.transforms.formats.places import Places
from feedferry.transforms.formats.solr.solr_format import SOLR
from feedferry.transforms.formats.thunderstone.dataload_format import THUNDERSTONE, DataloadOptions
from feedferry.transforms.formats.unknown_formats import binary_look_of, look_of
from feedferry.transforms.formats.xml.scanning.encoding import detect, is_encoding

__all__ = [
    "AUTHORIZER_STREAM",
    "AVRO",
    "DISCOVERY_ENGINE",
    "FORMATS",
    "GSA_FEED",
    "GSA_GROUPS",
    "JSONL",
    "JSON_DOCUMENTS",
    "LISTER_STREAM",
    "OPENSEARCH",
    "RETRIEVER_STREAM",
    "SOLR",
    "THUNDERSTONE",
    "ContentOptions",
    "DataloadOptions",
    "Docids",
    "Encoder",
    "FeedOptions",
    "Format",
    "Holds",
    "JsonDocumentsOptions",
    "OpensearchOptions",
    "OwnOptions",
    "Places",
    "ReadOptions",
    "ReadResult",
    "Reader",
    "Splitter",
    "StreamOptions",
    "WriteOptions",
    "binary_look_of",
    "by_name",
    "check_delimiter",
    "check_docids",
    "find_format",
    "format_of",
    "is_encoding",
    "look_of",
    "registered",
    "sniff",
    "write_all",
]

check_delimiter: Callable[[str], str] = deferred("command_stream.syntax:check_delimiter")
check_docids: Callable[[Docids], Docids] = deferred("command_stream.doc_ids:check_docids")

FORMATS.include(
    GSA_FEED,
    THUNDERSTONE,
    LISTER_STREAM,
    RETRIEVER_STREAM,
    AUTHORIZER_STREAM,
    GSA_GROUPS,
    GROUPS_CSV,
    OPENSEARCH,
    SOLR,
    DISCOVERY_ENGINE,
    JSON_DOCUMENTS,
    AVRO,
    JSONL,
)
find_format = FORMATS.find
registered = FORMATS.registered


def by_name(name: str) -> Format:
    """Return the format with a name; raise ConfigError if there is none."""
    format_ = find_format(name)
    if format_ is None:
        known = ", ".join(FORMATS.names)
        raise ConfigError(f"{name!r}; expected one of {known}{did_you_mean(name, FORMATS.names)}")
    return format_


def format_of(target: Target, *, memberships: bool) -> Format | None:
    """Return the format of the documents, or of the groups, of a run; None if they are left out."""
    format_ = by_name(target.format)
    if not memberships:
        return None if format_.holds_only_memberships else format_
    if format_.holds.memberships:
        return format_
    return find_format(format_.held_by(target).groups_feed)


def sniff(head: bytes, *, source: str = "", encoding: str = "") -> str | None:
    """Return the name of the format of a stream that begins with `head`, None if none fits.

    An XML document is read in `encoding` if it is given, whatever it declares.
    Raise EncodingError, which names the source, for a document in an unknown encoding.
    """
    for format_ in sorted(FORMATS, key=attrgetter("is_common_text")):  # these claim more
        if _matches(format_, head):
            return format_.name
    codec, mark = detect(head, source=source, encoding=encoding)
    text = head[mark:].decode(codec, "replace")
    roots: dict[str, str] = {}
    for format_ in FORMATS:  # ours are first
        if format_.element_names is not None:
            roots.setdefault(format_.element_names.root, format_.name)
    root = re.search(rf"<(?:\w+:)?({'|'.join(map(re.escape, roots))})(?=[\s/>])", text)
    return roots[root[1]] if root else None


def _matches(format_: Format, head: bytes) -> bool:
    """Ask a format whether it recognises a stream; raise ConfigError if one of others fails."""
    try:
        return format_.matches(head)
    except Exception as exc:
        if format_ in FORMATS.ours:
            raise
        raise ConfigError(
            f"the format {format_.name} of another package cannot say whether it recognises an"
            f" input: {type(exc).__name__}: {exc}; expected yes or no for any bytes;"
            " ⟦from_format⟧ states the format"
        ) from exc
