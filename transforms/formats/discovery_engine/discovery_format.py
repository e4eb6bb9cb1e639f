"""The format of documents of Discovery Engine: what a document of a data store may have."""

from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import (
    WHOLE_DOCUMENTS,
    Format,
    Holds,
    Kind,
    KindRefusal,
    deferred,
)

MAX_FILE_BYTES = 100_000_000
MAX_CONTENT_BYTES = 1_000_000
"""The most bytes of a content in a document; larger ones are objects of Cloud Storage."""

MAX_READERS = 100
"""The most principals of a document."""

HOLDS = Holds(
    fields=frozenset(
        {
            *("acl", "body", "categories", "charset", "content", "description", "display_url"),
            *("keywords", "metadata", "mimetype", "modified", "secure", "title"),
        }
    ),
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    decisions=True,
    partly={
        "charset": "texts are decoded",
        "content": "documents of other types",
        "metadata": "values that are no text, and names that are none of a field",
        "secure": "without an ACL, no user finds the document",
    },
    refuses={
        Kind.ALONE: KindRefusal(
            "acl-alone",
            "an ACL without a document; expected a full feed, as a data store takes whole documents"
            " only",
        )
    }
    | WHOLE_DOCUMENTS,
)

DISCOVERY_ENGINE = Format(
    name="discovery-engine",
    title="documents of Google Discovery Engine (Vertex AI Search, Gemini Enterprise)",
    encoder=deferred("discovery_engine.discovery_writer:DiscoveryEncoder"),
    adapter=deferred("discovery_engine.adapt_discovery:adapter"),
    holds=HOLDS,
    has_feedtypes=True,
    content_type="application/jsonl",
    chunk_bytes=MAX_FILE_BYTES,
)
