"""The names of indexes, and their mapping."""

import re
from collections.abc import Mapping

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.access.index_fields import field_names

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
MAX_NAME_LETTERS = 200


class _FieldKind(msgspec.Struct):
    type: str = ""


class Owner(msgspec.Struct):
    """The datasource of an index; or the digest of the groups in it, and their job."""

    datasource: str | None = None
    groups: str | None = None
    job: str | None = None


class _Meta(msgspec.Struct):
    feedferry: Owner = msgspec.field(default_factory=Owner)


class HeldMapping(msgspec.Struct):
    """The mapping of an index, as a cluster states it."""

    dynamic: str | bool = ""
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
    properties: dict[str, _FieldKind] = {}

    @property
    def fault(self) -> str:
        """What would show documents to the wrong people; empty if the index is ours."""
        for name in field_names():
            kind = self.properties.get(name)
            if kind is None or kind.type != "keyword":
                return f"no field {name!r} of type keyword"
        return "" if self.dynamic == "strict" else "a mapping that is not strict"


class _HeldIndex(msgspec.Struct):
    mappings: HeldMapping = msgspec.field(default_factory=HeldMapping)


def held_mappings(data: bytes) -> dict[str, HeldMapping]:
    """Return the mappings of indexes by their names, from the response to a GET of them."""
    held = msgspec.json.decode(data, type=dict[str, _HeldIndex])
    return {name: index.mappings for name, index in held.items()}


def alias_suffix(datasource: str | None) -> str:
    """Return what follows the name of all indexes in that of a datasource.

    Raise ConfigError for a datasource that no index can be named by.
    """
    name = (datasource or "").lower()
    if not is_index_name(name):
        raise ConfigError(
            f"⟦datasource⟧ {datasource!r}: no part of the name of an index; expected a letter or"
            " digit, then letters, digits, `.`, `_` and `-`"
        )
    return f"-{name}"


def is_index_name(name: str) -> bool:
    """Whether a name, with what follows it, is that of an index."""
    return _NAME.fullmatch(name) is not None and len(name) <= MAX_NAME_LETTERS


def mapping(
    datasource: str, *, flat_kind: str = "flat_object", others: Mapping[str, object] = {}
) -> dict[str, object]:
    """Return the mapping of an index; `others` are the fields that users add.

    It is strict: a document with another field is refused. With any other type, the tokens of the
    decision would be words of a text, and a denial would not count.
    """
    keyword = {"type": "keyword"}
    text = {"type": "text"}
    unsearched = {"type": "keyword", "index": False, "doc_values": False}
    properties: dict[str, object] = {
        "version": {"type": "long"},
        "url": {"type": "keyword", "ignore_above": 8191},
        "datasource": keyword,
        "display_url": unsearched,
        "title": text,
        "description": text,
        "keywords": text,
        "body": text,
        "mimetype": keyword,
        "categories": keyword,
        "data": {"type": "binary"},
        "size": {"type": "long"},
        "modified": {"type": "date"},
        "meta": {"type": flat_kind},
        "fields": {"type": flat_kind},
        **dict.fromkeys(field_names(), keyword),
        **others,
    }
    owner = {"feedferry": {"datasource": datasource}}
    return {"dynamic": "strict", "_meta": owner, "properties": properties}
