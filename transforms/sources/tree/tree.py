"""The options of a tree of files."""

import msgspec

from schemas.choices import Oversize


class TreeAcl(msgspec.Struct, frozen=True, kw_only=True):
    """The source of the ACLs of files.

    `table` is a CSV file of path patterns; without it, ACLs are made from POSIX permissions. With
    `is_inherited`, folders have ACLs too, and files inherit from them. `everyone` is the group for
    the others of a POSIX mode; without it, others are permitted nothing.
    """

    table: str | None = None
    is_inherited: bool = False
    namespace: str | None = None
    everyone: str | None = None


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Which files of a tree are read, and how records are made of them.

    `root` is the folder or URI without a final `/`; `only` are the names of the files of the root
    to read, if not all. URLs are `base_url` and the path, percent-encoded segment by segment, or
    `url_template` with `{path}` (segments encoded) or `{id}` (slashes encoded too); `display_url`
    is such a template. `include` and `exclude` are patterns for paths below the root. With
    `is_crawled`, records have no content: the appliance fetches it by URL. Without an `acl`, local
    files that others may not read are sent as secure, unless the tree `is_public`.
    """

    root: str
    only: tuple[str, ...] = ()
    base_url: str | None = None
    url_template: str | None = None
    display_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    takes_hidden: bool = False
    follows_links: bool = False
    opens_archives: bool = False
    is_crawled: bool = False
    oversize: Oversize = Oversize.REJECT
    states_paths: bool = False
    charset: str | None = None
    acl: TreeAcl | None = None
    is_public: bool = False
