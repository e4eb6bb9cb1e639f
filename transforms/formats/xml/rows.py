"""One row for each attribute or element of a format: its name, its field and its values.

Readers, writers, extras, doubtful values and the tests of pages and DTDs use the same rows.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Extra
from feedferry.transforms.formats.base import StatedValue

Encode = Callable[[Any], str | None]


class Codec(NamedTuple):
    """The form of a value in a text.

    `decode` returns None for a text that it does not understand, and `encode` for a value that is
    not written. `expected` describes the texts in messages. `names` are all texts of a closed set.
    """

    decode: Callable[[str], Any]  # the types of values differ from row to row
    encode: Encode
    expected: str = ""
    names: tuple[str, ...] = ()


def choices(values: Mapping[str, object], *, expected: str = "") -> Codec:
    """Return the codec of a closed set of values, by their names.

    >>> choices({"true": True, "false": False}).expected
    'true or false'
    """
    *first, last = names = tuple(values)
    expected = expected or (f"{', '.join(first)} or {last}" if first else last)
    encoded = {value: name for name, value in values.items()}
    return Codec(values.get, encoded.get, expected, names)


def names_of(kinds: Iterable[enum.Enum]) -> Codec:
    """Return the codec of an enum, in lower case and with `-`, as DTDs have it."""
    return choices({str(kind.value).lower().replace("_", "-"): kind for kind in kinds})


TEXT = Codec(str, str)


@dataclass(frozen=True)
class Row:
    """An attribute or element, and the path of the field that it fills.

    A field of a struct in a record has a path of two names, as in `crawl.lock`. `is_new` marks a
    row that release 5.0 does not have, and `old` is the codec of 5.0 if that has fewer values. A
    message does not name the owner of a value without `names_owner`.
    """

    name: str
    path: str
    codec: Codec = TEXT
    is_new: bool = False
    old: Codec | None = None
    is_required: bool = False
    names_owner: bool = True

    @cached_property
    def struct(self) -> str:
        """The field of the record that holds the struct, or ""."""
        return self.path.rpartition(".")[0]

    @cached_property
    def attribute(self) -> str:
        """The name of the field in the record or in its struct."""
        return self.path.rpartition(".")[2]

    @property
    def loss(self) -> str:
        """The name of the loss of the value."""
        return self.attribute.replace("_", "-")


_NO_ROW: tuple[None, str, Callable[[str], None]] = (None, "", lambda _text: None)


class ElementRows:
    """The rows of an element, in the order in which they are written.

    A text that is not understood is an extra. With a `code`, it is a RecordError with that code,
    which names the owner of the value.
    """

    def __init__(self, place: str, *rows: Row, code: str = "", owner: str = "") -> None:
        self.place = place
        self.rows = rows
        self._readers = {row.name: (row, row.attribute, row.codec.decode) for row in rows}
        self._code, self._owner = code, owner
        self._struct = next((row.struct for row in rows if row.struct), "")
        self._required = [row for row in rows if row.is_required and code]
        self._names = [row.name for row in rows]
        self._encoders = [row.codec.encode for row in rows]
        self._get = attrgetter(*(row.path for row in rows)) if len(rows) > 1 else None

    @cached_property
    def of_5_0(self) -> "ElementRows":
        """The rows of release 5.0."""
        rows = (replace(row, codec=row.old or row.codec) for row in self.rows if not row.is_new)
        return ElementRows(self.place, *rows, code=self._code, owner=self._owner)

    @cached_property
    def _plain(self) -> "ElementRows":
        return ElementRows(self.place, *(row for row in self.rows if not row.struct))

    def stated_values(self, mark: str = "") -> dict[str, StatedValue]:
        """Return the values of a known form, by the place of an extra that has another form.

        `mark` begins the names of the rows in places. Statistics of an appliance are left out.
        """
        return {
            f"{self.place}/{mark}{row.name}": StatedValue(
                row.attribute, row.loss, row.codec.expected
            )
            for row in self.rows
            if row.codec.expected and row.struct != "history"
        }

    def take(
        self,
        stated: Iterable[tuple[str, str]],
        extras: list[Extra],
        *,
        place: str = "",
        owner: str = "",
    ) -> dict[str, Any]:  # fields with types of their own
        """Return the values of attributes by their fields; what no row takes becomes an extra.

        `place` replaces that of the rows, and messages have the name `owner` for their owner.
        """
        values = {}
        for name, text in stated:
            row, attribute, decode = self._readers.get(name, _NO_ROW)
            value = decode(text)
            if value is not None:
                values[attribute] = value
            elif row is None or not self._code:
                extras.append(Extra(f"{place or self.place}/@{name}", text))
            else:
                raise self._error(row, f"{name}={text!r}", owner)
        for row in self._required:
            if row.attribute not in values:
                raise self._error(row, f"no {row.name}", owner)
        return values

    def stated_by(self, source: object) -> "ElementRows":
        """Return the rows for which a record has a struct."""
        return self._plain if self._struct and getattr(source, self._struct) is None else self

    def values(self, source: object) -> tuple[Any, ...]:  # of fields with types of their own
        """Return the values of a record or a struct, in the order of the rows."""
        return self._get(source) if self._get else (getattr(source, self.rows[0].path),)

    def columns(self, source: object) -> Iterator[tuple[str, Encode, object]]:
        """Return the names, encoders and values of a record or a struct, in the order of rows."""
        return zip(self._names, self._encoders, self.values(source), strict=True)

    def pairs(self, values: Iterable[object]) -> list[tuple[str, str]]:
        """Return the names and texts of values in the order of the rows."""
        return [
            (name, text)
            for name, encode, value in zip(self._names, self._encoders, values, strict=True)
            if value is not None and (text := encode(value)) is not None
        ]

    def _error(self, row: Row, found: str, owner: str) -> RecordError:
        where = (f" of {owner!r}" if owner else self._owner) if row.names_owner else ""
        return RecordError(self._code, f"{found}{where}; expected {row.codec.expected}")
