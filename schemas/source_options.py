"""The options of a run that concern its sources."""

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from schemas.choices import Oversize, SpoolHistory
from schemas.span_size import AUTO, auto_span_bytes


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """The least number of documents in a source, and the largest share of deletions."""

    min_records: int = 1
    max_delete_percent: Decimal = Decimal(20)


class SourceOptions(Safety, frozen=True, kw_only=True):
    """The options of a run that concern sources, of which `convert` has more.

    `written_paths` are the paths that the run writes, each with its flag; a name that ends in a
    slash is a folder.
    """

    to_format: str
    datasource: str | None = None
    feedtype: str | None = None
    span_bytes: int = AUTO
    jobs: int = 1
    base_url: str | None = None
    url_template: str | None = None
    display_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = False
    follow_links: bool = False
    open_archives: bool = False
    oversize: Oversize = Oversize.REJECT
    path_metadata: bool = False
    charset: str | None = None
    acl: str | None = None
    acl_namespace: str | None = None
    acl_everyone: str | None = None
    history: SpoolHistory = SpoolHistory.LATEST
    only: tuple[str, ...] = ()
    state: str | None = None
    refresh: bool = False
    written_paths: tuple[tuple[str, str], ...] = ()

    def span_bytes_for(self, sizes: Iterable[int]) -> int:
        """Return the size of spans for inputs of these sizes, 0 for an unknown one."""
        return self.span_bytes or auto_span_bytes(sizes)
