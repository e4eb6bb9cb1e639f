"""The keys of a mapping file: how records become JSON documents.

The words are those of the mapping of rows, where a column is read: here, `column` is the name of a
field that is written. The keys are documented in docs/formats/json-documents.md.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.config.scalars import Text, Value, parse_text, text_where

_Column = Annotated[str, Value(parse_text, "the name of a field")]
_RESERVED = frozenset(name.casefold() for name in field_names())


def _parse_key(value: object) -> str:
    columns = value if isinstance(value, list) else []
    if len(columns) != 1:
        raise ValueError
    return parse_text(columns[0])


def _is_date_format(text: str) -> bool:
    return f"{datetime(2001, 12, 31):{text}}" not in ("", text)


class FieldReference(msgspec.Struct, frozen=True, kw_only=True):
    """The field that a value is written to: `{column: NAME}`."""

    column: _Column


class MetadataField(msgspec.Struct, frozen=True, kw_only=True):
    """A field for the metadata of a name: a list of values, or with a `separator` one text.

    `all` means metadata that the list does not mention, each in a field of its own name.
    """

    column: _Column = ""
    name: Text = ""
    separator: Annotated[str, Value(parse_text, 'a separator such as ";"')] | None = None
    is_all: bool = msgspec.field(default=False, name="_is_all")

    @classmethod
    def from_scalar(cls, value: object) -> "MetadataField":
        text = parse_text(value)
        return ALL_METADATA if text == "all" else cls(column=text)

    @property
    def label(self) -> str:
        """The name of the metadata: that of the field unless another is given."""
        return self.name or self.column

    def check(self) -> None:
        if not self.column:
            raise ValueError("no column; expected column: NAME")


ALL_METADATA = MetadataField(is_all=True)


class DateField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of texts that are times in UTC, in a `format` of `strftime`."""

    column: _Column
    format: Annotated[str, Value(text_where(_is_date_format), "a format such as %Y-%m-%d")]


class ActionField(msgspec.Struct, frozen=True, kw_only=True):
    """The field with the action of a line, and its values.

    They are those of a whole `document`, of the fields of an `acl` alone, and of a deletion.
    """

    column: _Column = "action"
    document: Text = "document"
    acl: Text = "acl"
    delete: Text = "delete"

    def check(self) -> None:
        if len({self.document, self.acl, self.delete}) < 3:
            raise ValueError("equal values; expected one for each of document, acl and delete")


class ReaderFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of those who may see a document, by name, in place of the fields of its decision.

    `public` is true if everyone may. Principals are those of the `namespace`.
    """

    users: _Column
    public: _Column
    groups: _Column | None = None
    namespace: Text | None = None


class DocumentMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a document; what has no field is lost."""

    key: Annotated[str, Value(_parse_key, "a list of one field, such as [id]")] = "id"
    url: FieldReference | None = None
    content: FieldReference | None = None
    mimetype: FieldReference | None = None
    title: _Column | None = None
    description: _Column | None = None
    keywords: _Column | None = None
    metadata: Literal["all"] | tuple[MetadataField, ...] = ()
    display_url: FieldReference | None = None
    modified: _Column | DateField | None = None
    action: ActionField = ActionField()
    acl: ReaderFields | None = None

    @property
    def metadata_fields(self) -> tuple[MetadataField, ...]:
        return (ALL_METADATA,) if isinstance(self.metadata, str) else self.metadata

    @property
    def texts(self) -> dict[str, str]:
        """The fields of texts, by the names of those of a record."""
        texts: dict[str, str] = {}
        for name in ("title", "description", "keywords", "mimetype"):
            column = getattr(self, name)
            if column is not None:
                texts[name] = column.column if isinstance(column, FieldReference) else column
        return texts

    def columns(self) -> Iterator[str]:
        """Yield the names of all fields but those of decisions."""
        yield from (self.key, self.action.column, *self.texts.values())
        references = (self.url, self.content, self.display_url)
        yield from (reference.column for reference in references if reference is not None)
        yield from (field.column for field in self.metadata_fields if not field.is_all)
        if self.modified is not None:
            yield self.modified.column if isinstance(self.modified, DateField) else self.modified
        if self.acl is not None:
            yield from filter(None, (self.acl.users, self.acl.groups, self.acl.public))

    @property
    def taken(self) -> frozenset[str]:
        """The names, in lower case, that metadata cannot have a field of; targets may ignore case.

        Otherwise metadata could replace the fields of a decision.
        """
        return _RESERVED | {column.casefold() for column in self.columns()}

    def check(self) -> None:
        counts = Counter(column.casefold() for column in self.columns())
        for name, count in counts.items():
            if name in _RESERVED:
                raise ValueError(f"{name!r} is a field of the decision; expected another name")
            if count > 1:
                raise ValueError(f"{count} fields {name!r}; expected different names")
        labels = Counter(field.label for field in self.metadata_fields)
        if repeated := [label for label, count in labels.items() if count > 1]:
            raise ValueError(f"metadata {repeated[0] or 'all'!r} twice; expected each once")


DEFAULT_MAPPING = DocumentMapping(
    url=FieldReference(column="url"),
    content=FieldReference(column="content"),
    mimetype=FieldReference(column="mimetype"),
    title="title",
    description="description",
    keywords="keywords",
    display_url=FieldReference(column="display_url"),
    modified="modified",
    metadata="all",
)
"""The fields without a mapping file."""
