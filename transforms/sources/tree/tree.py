"""How a tree of files becomes records, as its user says it."""

import enum

import msgspec


class Oversize(enum.Enum):
    """What becomes of a file that is larger than a document may be."""

    REJECT = "reject"
    METADATA = "metadata"


class TreeAcl(msgspec.Struct, frozen=True, kw_only=True):
    """Where the ACLs of files come from.

    `table` is the CSV file of path patterns, if that is it; else they are those of POSIX. With
    `is_inherited` folders have theirs as well, and files inherit from them. `everyone` is the group
    that stands for all others of a POSIX mode; without it, others are permitted nothing.
    """

    table: str | None = None
    is_inherited: bool = False
    namespace: str | None = None
    everyone: str | None = None


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a tree, and what its records are made of.

    `root` is the folder or uri as it is opened, without a `/` at its end; `only` are the keys to be
    read, if it is not all. Urls are `base_url` and the path, percent-encoded segment by segment, or
    `url_template` with `{path}` (segments encoded), `{id}` (all encoded, slashes too), `{name}`,
    `{stem}` and `{extension}` in it; `display_url` is such a template. `include` and `exclude` are
    globs of paths below the root, `re:` before a regular expression. `is_crawled` records have no
    content: the appliance fetches it by their urls. Without an `acl`, local files that others may
    not read are sent as secure, unless all of the tree `is_public`.
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
