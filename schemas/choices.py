"""Closed sets of values that options, formats and sources share.

They are here so that the help of a verb loads no codec.
"""

import enum

DIALECT_5_0 = "5.0"
DIALECTS = ("7.x", DIALECT_5_0)
SEARCH_DIALECTS = ("opensearch", "elasticsearch")
SOLR_DIALECTS = ("solr", "manifoldcf")
"""Versions of the GSA feed protocol; the first is the default."""

CONTENT_ENCODINGS = ("auto", "base64", "zlib")
"""Encodings of contents in feeds; the first is the default."""

EMPTY_METADATA = ("drop", "placeholder")
"""What to do with metadata without a value; the first is the default."""

GROUPS = ("send", "leave-out")
"""What to do with groups next to documents, for a target that takes both; the first is the default.
"""

URL_CHECKS = ("any", "strict")
"""What to do with URLs that no appliance can serve; the first is the default."""

MAX_TOKEN_BYTES = 16 << 20
"""Default of the most bytes of one token of a command stream."""


class NotFound(enum.Enum):
    """What to do with a document that a retriever reports as `not-found`."""

    SKIP = "skip"
    DELETE = "delete"


class Oversize(enum.Enum):
    """The treatment of files that are larger than a document may be."""

    REJECT = "reject"
    METADATA = "metadata"


class SpoolHistory(enum.Enum):
    """Which feeds of a spool are read: those that no later feed supersedes, or all."""

    LATEST = "latest"
    ALL = "all"
