"""The format of `_bulk` requests: what a document of an index may have."""

import re
from collections.abc import Callable
from typing import Annotated

import msgspec

from feedferry.schemas.choices import SEARCH_DIALECTS
from feedferry.schemas.own_key import OwnKey
from feedferry.transforms.formats.base import Adapter, Format, Target, deferred
from feedferry.transforms.formats.search_document.document_holds import HOLDS, check_names

PLACE_OF_VERSION = 10**18
"""The version of all documents in a chunk, of as many digits as those that are sent."""

VERSIONS_PER_MICROSECOND = 1000
"""The versions of a run begin at the time of its push, and count its records.

No push has a thousand records in a microsecond, so that those of a later one are greater.
"""


PIPELINE = OwnKey(help="Ingest pipeline that extracts the text of documents that are no text.")


class OpensearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of documents: `fields` are metadata and the fields of their own that they become."""

    pipeline: Annotated[str | None, PIPELINE] = None
    fields: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_names(name for _, name in self.fields)


_BEGIN = re.compile(
    rb'\s*\{\s*"(?:index|create|update|delete)"\s*:\s*\{(?!\s*"(?:id|query)")'  # those of Solr
)


_make_adapter: Callable[..., Adapter] = deferred("search_document.adapt_document:make_adapter")


def _adapter(target: Target) -> Adapter:
    options = target.of(OpensearchOptions)
    has_pipeline = options.pipeline is not None
    return _make_adapter(target, HOLDS, options.fields, has_pipeline=has_pipeline)


OPENSEARCH = Format(
    name="opensearch",
    title="documents of OpenSearch and Elasticsearch (bodies of _bulk)",
    matches=lambda head: _BEGIN.match(head) is not None,
    read=deferred("opensearch.bulk_reader:read"),
    split=deferred("opensearch.bulk_reader:split"),
    places=deferred("opensearch.bulk_reader:places"),
    find_records=deferred("opensearch.bulk_search:find_records"),
    encoder=deferred("opensearch.bulk_writer:BulkEncoder"),
    adapter=_adapter,
    holds=HOLDS,
    options=(OpensearchOptions,),
    dialects=SEARCH_DIALECTS,
    has_feedtypes=True,
    is_common_text=True,
    has_record_ends=True,
    content_type="application/x-ndjson",
    chunk_bytes=10 << 20,
)
