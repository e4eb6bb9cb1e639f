"""The format of `_bulk` requests: what a document of an index may have."""

import re

import msgspec

from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import Format, Holds, Kind, KindRefusal, deferred

MAX_ID_BYTES = 512
"""A longer id makes a request fail as a whole."""

PLACE_OF_VERSION = 10**18
"""The version of all documents in a chunk, of as many digits as those that are sent."""

VERSIONS_PER_MICROSECOND = 1000
"""The versions of a run begin at the time of its push, and count its records.

No push has a thousand records in a microsecond, so that those of a later one are greater.
"""


class OpensearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`pipeline` is the ingest pipeline that extracts the text of documents that are no text."""

    pipeline: str | None = None


HOLDS = Holds(
    fields=frozenset(
        {
            *("acl", "body", "categories", "charset", "content", "description", "display_url"),
            *("fields", "keywords", "metadata", "mimetype", "modified", "secure", "size", "title"),
        }
    ),
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    decisions=True,
    partly={
        "charset": "texts are decoded",
        "content": "documents that are no text, without an ingest pipeline",
        "metadata": "values that are no text or longer than 32,000 bytes",
        "secure": "without an ACL, no user finds the document",
        "fields": "values longer than 32,000 bytes",
    },
    refuses=dict.fromkeys(
        (Kind.UPDATE, Kind.UPDATE_OF_FIELDS, Kind.UPDATE_OF_NOTHING),
        KindRefusal(
            "partial-update",
            "an update of some fields; expected a whole document: the step `merge` makes one",
        ),
    )
    | {
        Kind.PATTERN: KindRefusal(
            "delete-pattern",
            "a deletion by the pattern {url!r}, whose documents stay in the index; expected one of"
            " a URL: ⟦known_urls⟧ lists the URLs that patterns are matched with",
        )
    },
)

_BEGIN = re.compile(rb'\s*\{\s*"(?:index|create|update|delete)"\s*:\s*\{')


OPENSEARCH = Format(
    name="opensearch",
    title="documents of OpenSearch and Elasticsearch (bodies of _bulk)",
    matches=lambda head: _BEGIN.match(head) is not None,
    read=deferred("opensearch.bulk_reader:read"),
    split=deferred("opensearch.bulk_reader:split"),
    places=deferred("opensearch.bulk_reader:places"),
    encoder=deferred("opensearch.bulk_writer:BulkEncoder"),
    adapter=deferred("opensearch.adapt_opensearch:adapter"),
    holds=HOLDS,
    options=(OpensearchOptions,),
    has_feedtypes=True,
    is_common_text=True,
    has_record_ends=True,
    content_type="application/x-ndjson",
    chunk_bytes=10 << 20,
)
