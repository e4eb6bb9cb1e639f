"""The element names of an XML format."""

import msgspec


class ElementNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the root, the records, the group and the header of a format.

    `records` are the elements that become records. The first is the main one. The others are
    *standalone*: they may also occur inside the first. A format without groups, or without a
    header, has no name for them. `prefixes` are namespace prefixes that documents use without
    declaring them.
    """

    root: str
    records: tuple[str, ...]
    group: str = ""
    header: str = ""
    prefixes: tuple[tuple[str, str], ...] = ()
