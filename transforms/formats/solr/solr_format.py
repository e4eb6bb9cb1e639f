"""The format of commands for Solr: its documents, options and fields."""

import re
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from feedferry.schemas.choices import SOLR_DIALECTS
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD
from feedferry.transforms.formats.base import Adapter, Format, Target, deferred
from feedferry.transforms.formats.search_document.document_holds import HOLDS, check_names

PLACE_OF_RUN = 10**15
"""The run of all documents in a chunk, of as many digits as the time that is sent in its place."""

META, FIELD = "meta_", "field_"
"""Begin the names of the fields of metadata, and of named fields without a field of their own."""

ALLOW, DENY = "allow_token_document", "deny_token_document"
"""The fields of the dialect manifoldcf."""

_SOLR_FIELDS = ("id", "run", WITHHELD_FIELD, ALLOW, DENY)


class SolrOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are metadata and the fields of their own that they become.

    In the dialect `manifoldcf`, documents have the fields of ManifoldCF, too.
    """

    fields: tuple[tuple[str, str], ...] = ()
    dialect: str | None = None

    def __post_init__(self) -> None:
        check_names(name for _, name in self.fields)
        for _, name in self.fields:
            if name in _SOLR_FIELDS or name.startswith((META, FIELD)):
                raise ConfigError(
                    f"⟦fields⟧: {name!r}: a field that feedferry has; expected another name"
                )

    @property
    def is_manifoldcf(self) -> bool:
        return self.dialect == SOLR_DIALECTS[1]


SOLR_HOLDS = replace(HOLDS, partly={**HOLDS.partly, "content": "documents that are no text"})

_make_adapter: Callable[..., Adapter] = deferred("search_document.adapt_document:make_adapter")
_BEGIN = re.compile(rb'\s*\{\s*"(?:add|delete)"\s*:')


def _adapter(target: Target) -> Adapter:
    return _make_adapter(target, SOLR_HOLDS, target.of(SolrOptions).fields)


SOLR = Format(
    name="solr",
    title="documents of Solr (JSON commands)",
    matches=lambda head: _BEGIN.match(head) is not None,
    read=deferred("solr.command_reader:read"),
    split=deferred("solr.command_reader:split"),
    places=deferred("solr.command_reader:places"),
    find_records=deferred("solr.command_reader:find_records"),
    encoder=deferred("solr.command_writer:SolrEncoder"),
    adapter=_adapter,
    holds=SOLR_HOLDS,
    options=(SolrOptions,),
    dialects=SOLR_DIALECTS,
    has_feedtypes=True,
    is_common_text=True,
    has_record_ends=True,
    content_type="application/json",
    chunk_bytes=10 << 20,
)
