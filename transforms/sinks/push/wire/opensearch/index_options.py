"""The options of a search server, and the fields that users add to an index."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.own_key import OwnKey
from feedferry.transforms.config.yaml_structs import read_yaml
from feedferry.transforms.formats.opensearch.opensearch_format import PIPELINE
from feedferry.transforms.formats.search_document.document_holds import OWN_FIELDS, check_names
from feedferry.transforms.sinks.push.wire.opensearch.mapping import is_index_name

FLAT_KINDS = {"opensearch": "flat_object", "elasticsearch": "flattened"}
"""The type of a field with any names below it, by the dialect of the server."""


class IndexOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are metadata and the fields of their own that they become.

    Without a `dialect`, the server is asked.
    """

    index: Annotated[
        str | None, OwnKey(help="Name of the indexes; it follows the address in target.url.")
    ] = None
    pipeline: Annotated[str | None, PIPELINE] = None
    mapping: Annotated[
        str | None,
        OwnKey(help="YAML or JSON file with fields for an index.", metavar="FILE", is_file=True),
    ] = None
    keep_indices: Annotated[
        int, OwnKey(help="Indexes that stay when a full feed has replaced them.", unit="indexes")
    ] = 1
    groups_index: Annotated[
        str | None, OwnKey(help="Also write the groups of the users to this index.")
    ] = None
    fields: tuple[tuple[str, str], ...] = ()
    dialect: str | None = None

    def __post_init__(self) -> None:
        check_names(name for _, name in self.fields)
        name = self.groups_index
        if name is not None and not is_index_name(name):
            raise ConfigError(
                f"target.groups_index: {name!r}; expected letters in lower case, digits, `.`, `_`"
                " and `-`"
            )
        self.read_fields()

    @property
    def flat_kinds(self) -> tuple[str, ...]:
        """The types to try for a field with any names below it."""
        kinds = FLAT_KINDS
        return (kinds[self.dialect],) if self.dialect in kinds else tuple(kinds.values())

    def read_fields(self) -> dict[str, object]:
        """Return the fields that an index has besides ours; raise ConfigError for those of ours."""
        fields: dict[str, object] = {name: {"type": "keyword"} for _, name in self.fields}
        if self.mapping is None:
            return fields
        where = f"⟦target_mapping⟧ {self.mapping}"
        try:
            properties = read_yaml(Path(self.mapping), _MappingFile).properties
        except ConfigError as exc:
            raise ConfigError(f"⟦target_mapping⟧ {exc.text}") from exc
        check_names(properties, where=where)
        for name, target in _copies(properties):
            if target.partition(".")[0] in OWN_FIELDS:
                raise ConfigError(
                    f"{where}: {name!r} is copied to {target!r}, a field that feedferry has;"
                    " expected a field of the file"
                )
        return fields | properties


class _MappingFile(msgspec.Struct, frozen=True):
    """The `properties` of a mapping, as the server takes them."""

    properties: dict[str, object]


def _copies(properties: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the names of fields, at any depth, with the fields that they are copied to."""
    for name, field in properties.items():
        stated = field if isinstance(field, dict) else {}
        targets = stated.get("copy_to", [])
        yield from ((name, str(each)) for each in _listed(targets))
        for below in ("properties", "fields"):
            if isinstance(inner := stated.get(below), dict):
                yield from _copies(inner)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
