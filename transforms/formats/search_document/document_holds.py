"""The fields that a document of a search index may have, with their names and limits."""

from collections.abc import Iterable

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.formats.base import WHOLE_DOCUMENTS, Holds, Kind, KindRefusal

MAX_ID_BYTES = 512
"""A longer id makes a request fail as a whole."""

MAX_KEYWORD_BYTES = 32_000
"""A longer value of a keyword makes a document be refused; the limit is 32,766 with its name."""

MAX_COLUMN_CHARS = MAX_KEYWORD_BYTES // 8
"""The most characters of a value in a column, and of the name of such a value.

In UTF-8, the two are no longer than a keyword, whatever the characters are.
"""

OWN_FIELDS = frozenset(
    (
        *("version", "url", "datasource", "display_url", "title", "description"),
        *("keywords", "body", "mimetype", "categories", "data", "size", "modified", "meta"),
        *("fields", *field_names()),
    )
)
"""The names of the fields of a document, apart from those of users."""


def check_names(names: Iterable[str], *, where: str = "⟦fields⟧") -> None:
    """Raise ConfigError for the name of a field that is not a user's.

    In a name, a dot begins the name of a field below another one.
    """
    for name in names:
        if not name or name.startswith("_") or name.partition(".")[0] in OWN_FIELDS:
            raise ConfigError(
                f"{where}: {name!r}: a field that feedferry has; expected another name"
                if name.partition(".")[0] in OWN_FIELDS
                else f"{where}: {name!r}; expected a name that does not begin with _"
            )


HOLDS = Holds(
    fields=frozenset(
        {
            *("acl", "body", "categories", "charset", "content", "description", "display_url"),
            *("fields", "keywords", "metadata", "mimetype", "modified", "secure", "size", "title"),
        }
    ),
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    decisions=True,
    partly={
        "charset": "texts are decoded",
        "content": "documents that are no text, without an ingest pipeline",
        "metadata": "values that are no text or longer than 32,000 bytes",
        "secure": "without an ACL, no user finds the document",
        "fields": "values longer than 32,000 bytes",
    },
    refuses=WHOLE_DOCUMENTS
    | {
        Kind.PATTERN: KindRefusal(
            "delete-pattern",
            "a deletion by the pattern {url!r}, whose documents stay in the index; expected one of"
            " a URL: ⟦known_urls⟧ lists the URLs that patterns are matched with",
        )
    },
)
