"""The rows of a table or query: where each column stands, and how a row is shown to a person."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from schemas.errors import ConfigError, RecordError
from schemas.reject import Reject
from schemas.span import Span
from schemas.spelling import did_you_mean
from transforms.sources.database.values import row_json, text_of

Row = Sequence[Any]  # Any: what a driver gives
Key = tuple[Any, ...]
_KEPT_BYTES = 1 << 20
Sides = Callable[[str, Key], Sequence[Row]]
"""Gives the rows that a query has for a key, without their key columns."""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What all rows have in common: the `names` of their columns, and which are their `key`."""

    names: tuple[str, ...]
    key: tuple[str, ...] = ()

    def at(self, key: str, name: str) -> int:
        """Return where a column stands; raise ConfigError, which names `key`, if it is not there.

        Its case matters only if there is another of that name, as in SQL.
        """
        found = _places(name, self.names) or _places(name.lower(), map(str.lower, self.names))
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(
                f"{key}: {name!r}, the name of {len(found)} columns; expected a name of its own, "
                "as AS gives one"
            )
        raise ConfigError(
            f"{key}: {name!r}; expected a column: {', '.join(self.names)}"
            f"{did_you_mean(name, self.names)}"
        )

    def key_maker(self) -> Callable[[Row], Key]:
        """Return the function that gives the key of a row."""
        ats = tuple(self.at("key", name) for name in self.key)
        return lambda row: tuple([row[at] for at in ats])

    def key_text(self, row: Row) -> str:
        """Return the key of a row as `id=7, name='Anna'`."""
        pairs = ((name, row[self.at("key", name)]) for name in self.key)
        return ", ".join(f"{name}={_shown(value)}" for name, value in pairs)

    def json(self, row: Row, *, without: Collection[int]) -> bytes:
        """Return a row as JSON, but for the columns that stand at `without`."""
        named = enumerate(zip(self.names, row, strict=True))
        return row_json({name: value for at, (name, value) in named if at not in without})


def reject_row(  # noqa: PLR0913 # what a Reject of a row is made of
    rows: Rows,
    row: Row,
    exc: RecordError,
    *,
    span: Span,
    without: Collection[int] = (),
    url: str | None = None,
    action: str | None = None,
) -> Reject:
    """Return the reject of a row: it is named by its key and kept as JSON, but for some columns."""
    kept = rows.json(row, without=without)
    return Reject(
        code=exc.code,
        reason=f"{rows.key_text(row)}: {exc.reason}",
        stage="read",
        source=span.source,
        span=span.ordinal,
        length=len(kept),
        url=url,
        action=action,
        data=kept[:_KEPT_BYTES],
        truncated=len(kept) > _KEPT_BYTES,
    )


def text_maker(key: str, name: str, rows: Rows) -> Callable[[Row], str | None]:
    """Return the function that gives the text of a column, None for NULL.

    Raise ConfigError, which names `key`, if it is not there; the function raises RecordError for
    what has no text.
    """
    at = rows.at(key, name)

    def text(row: Row) -> str | None:
        value = row[at]
        return value if type(value) is str else column_text(name, value)

    return text


def column_text(name: str, value: object) -> str | None:
    """Return the text of a value, None for NULL; raise RecordError, which names its column."""
    try:
        return text_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _places(name: str, names: Iterable[str]) -> list[int]:
    return [at for at, other in enumerate(names) if other == name]


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    try:
        text = text_of(value)
    except RecordError:
        return repr(value)
    return str(value) if type(value) is int else repr(text)
