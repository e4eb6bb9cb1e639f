"""The options of a tree of files."""

import msgspec

from feedferry.schemas.source_options import TreeRules


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


class Tree(TreeRules, frozen=True, kw_only=True):
    """A tree, and how records are made of its files.

    `root` is the folder or URI without a final `/`; `only` are the names of the files of the root
    to read, if not all. With `is_crawled`, records have no content: the appliance fetches it by
    URL. Without an `acl`, local files that others may not read are sent as secure, unless the tree
    `is_public`.
    """

    root: str
    only: tuple[str, ...] = ()
    is_crawled: bool = False
    acl: TreeAcl | None = None
    is_public: bool = False

    @property
    def has_secure_files(self) -> bool:
        """Whether files that others may not read are sent as secure."""
        return self.acl is None and not self.is_public
