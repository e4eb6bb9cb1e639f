"""The options of a run that concern its sources."""

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from feedferry.schemas.choices import Oversize, SpoolHistory
from feedferry.schemas.span_size import AUTO, auto_span_bytes


class TreeRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which files of a tree are read, and how records are made of them.

    URLs are `base_url` and the path, percent-encoded segment by segment, or `url_template` with
    `{path}` (segments encoded) or `{id}` (slashes encoded too); `display_url` is such a template.
    `name_charset` is the charset of names that are not UTF-8, in folders and archives.
    `include` and `exclude` are patterns for paths below the root. The fingerprint in a state is
    that of the encoded names.
    """

    base_url: str | None = None
    url_template: str | None = None
    display_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = msgspec.field(default=False, name="takes_hidden")
    follow_links: bool = msgspec.field(default=False, name="follows_links")
    open_archives: bool = msgspec.field(default=False, name="opens_archives")
    oversize: Oversize = Oversize.REJECT
    path_metadata: bool = msgspec.field(default=False, name="states_paths")
    charset: str | None = None
    name_charset: str | None = None


class SourceOptions(TreeRules, frozen=True, kw_only=True):
    """The options of a run that concern sources, of which `convert` has more.

    `min_records` is the least number of documents in a source with a state, `max_delete_percent`
    the largest share of deletions. `written_paths` are the paths that the run writes, each with its
    flag; a name that ends in a slash is a folder.
    """

    to_format: str
    datasource: str | None = None
    feedtype: str | None = None
    span_bytes: int = AUTO
    jobs: int = 1
    acl: str | None = None
    acl_namespace: str | None = None
    acl_everyone: str | None = None
    history: SpoolHistory = SpoolHistory.LATEST
    only: tuple[str, ...] = ()
    state: str | None = None
    min_records: int = 1
    max_delete_percent: Decimal = Decimal(20)
    refresh: bool = False
    written_paths: tuple[tuple[str, str], ...] = ()

    def span_bytes_for(self, sizes: Iterable[int]) -> int:
        """Return the size of spans for inputs of these sizes, 0 for an unknown one."""
        return self.span_bytes or auto_span_bytes(sizes)
