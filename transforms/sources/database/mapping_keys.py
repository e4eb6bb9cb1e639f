"""The parts of a mapping file that are keys and values themselves."""

from collections.abc import Mapping as Keys
from typing import Any, NamedTuple

from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.database.acl import ESCAPE, INHERITANCES
from transforms.sources.database.mapping import (
    AclFrom,
    ActionFrom,
    Columns,
    ContentFrom,
    Incremental,
)
from transforms.sources.database.url_templates import check_template
from transforms.sources.yaml_keys import Parser, parse_duration, parse_keys, parse_text

ALL = "all"
COMPARE = "compare"
NONE = "none"

_NO_TIME = ("0ms", "0s", "0m", "0h")
_CONTENT_WAYS = ("column", "path", "fetch", "template")
_CONTENT_BESIDE = (("folder", "folder", "path"), ("timeout_seconds", "timeout", "fetch"))
_ACL_LISTS = ("users", "groups", "deny_users", "deny_groups")


class Of(NamedTuple):
    """A column that is named where a text of its own could stand."""

    column: str


def parse_name(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if not text.strip():
        raise ConfigError(f"{key}: {text!r}; expected a name")
    return text


def parse_query(key: str, value: Any) -> str:
    """A query without the semicolon behind it, as it may become a part of another."""
    query = parse_text(key, value).strip().rstrip(";").rstrip()
    if not query:
        raise ConfigError(f"{key}: {value!r}; expected a query, SELECT …")
    return query


def parse_column(key: str, value: Any) -> Of:
    return Of(**_nested(key, value, {"column": ("column", parse_name)}, required="column"))


def parse_template_or_column(key: str, value: Any) -> str | Of:
    if isinstance(value, dict):
        return parse_column(key, value)
    return check_template(key, parse_text(key, value))


def parse_content(key: str, value: Any) -> ContentFrom:
    if value == NONE:
        return ContentFrom(is_none=True)
    if isinstance(value, str):
        raise ConfigError(f"{key}: {value!r}; expected {{column: {value}}}, or none")
    said = _nested(key, value, _CONTENT_PARSERS)
    ways = [way for way in _CONTENT_WAYS if way in said]
    if len(ways) != 1:
        found = ", ".join(ways) or "none of them"
        raise ConfigError(f"{key}: {found}; expected one of {', '.join(_CONTENT_WAYS)}")
    for field, name, way in _CONTENT_BESIDE:
        if field in said and way not in said:
            raise ConfigError(f"{key}: {name}; expected it beside {way} only")
    return ContentFrom(**said)


def parse_metadata(key: str, value: Any) -> tuple[Columns | str, ...]:
    if value == ALL:
        return (ALL,)
    if not isinstance(value, list):
        raise ConfigError(f"{key}: {value!r}; expected all, or a list of columns")
    return tuple(_parse_columns(f"{key}[{number}]", one) for number, one in enumerate(value))


def _parse_columns(key: str, value: Any) -> Columns | str:
    if value == ALL:
        return ALL
    if not isinstance(value, dict):
        name = parse_name(key, value)
        return Columns(name=name, column=name)
    said = _nested(key, value, _COLUMNS_PARSERS)
    if ("column" in said) == ("query" in said):
        raise ConfigError(f"{key}: {value!r}; expected a column or a query, and one of them")
    if "query" in said and "name" not in said:
        raise ConfigError(f"{key}: name: not given; expected it beside query")
    if "query" in said and "separator" in said:
        raise ConfigError(f"{key}: separator; expected it beside column only")
    return Columns(**{"name": said.get("column"), **said})


def _parse_separator(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if not text:
        raise ConfigError(f"{key}: ''; expected what parts the values, such as \";\"")
    return text


def parse_action(key: str, value: Any) -> ActionFrom:
    return ActionFrom(**_nested(key, value, _ACTION_PARSERS, required="column"))


def _parse_deletes(key: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, str | int) for one in values):
        raise ConfigError(f"{key}: {value!r}; expected the values that say so, such as [D, delete]")
    return tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in values)


def parse_acl(key: str, value: Any) -> AclFrom:
    said = _nested(key, value, _ACL_PARSERS)
    if isinstance(said.get("inherit_from"), Of):
        said["inherit_from_column"] = said.pop("inherit_from").column
    lists = [name for name in _ACL_LISTS if name in said]
    if "query" in said and lists:
        raise ConfigError(f"{key}: query and {', '.join(lists)}; expected a query or columns")
    if not lists and not {"query", "inherit_from", "inherit_from_column"} & said.keys():
        raise ConfigError(
            f"{key}: no principals; expected query, inherit_from or one of {', '.join(_ACL_LISTS)}"
        )
    return AclFrom(**said)


def parse_incremental(key: str, value: Any) -> Incremental:
    said = _nested(key, value, _INCREMENTAL_PARSERS)
    if "timestamp" not in said and "deletes" not in said:
        raise ConfigError(f"{key}: neither of them; expected timestamp, deletes or both")
    if "lag_seconds" in said and "timestamp" not in said:
        raise ConfigError(f"{key}: lag; expected it beside timestamp only")
    compares_keys = said.get("deletes") == COMPARE
    if compares_keys:
        del said["deletes"]
    return Incremental(**said, compares_keys=compares_keys)


def _nested(
    key: str, value: Any, parsers: Keys[str, tuple[str, Parser]], *, required: str | None = None
) -> dict[str, Any]:
    try:
        found: dict[str, Any] = parse_keys(value, parsers, required=required)
    except ConfigError as exc:
        raise ConfigError(f"{key}: {exc}") from exc
    return found


def _parse_delimiter(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if not text or text == ESCAPE:
        raise ConfigError(f'{key}: {text!r}; expected what parts the names, such as ","')
    return text


def _parse_flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {value!r}; expected true or false")
    return value


def _parse_inheritance(key: str, value: Any) -> str:
    if str(value) not in INHERITANCES:
        close = did_you_mean(value, INHERITANCES)
        raise ConfigError(f"{key}: {value!r}; expected one of {', '.join(INHERITANCES)}{close}")
    return str(value)


def _parse_lag(key: str, value: Any) -> float:
    return 0.0 if value in _NO_TIME else parse_duration(key, value)


# Last, for they name what stands above.
_CONTENT_PARSERS: dict[str, tuple[str, Parser]] = {
    "column": ("column", parse_name),
    "path": ("path", parse_name),
    "folder": ("folder", parse_name),
    "fetch": ("fetch", parse_name),
    "timeout": ("timeout_seconds", parse_duration),
    "template": ("template", parse_name),
}
_COLUMNS_PARSERS: dict[str, tuple[str, Parser]] = {
    "column": ("column", parse_name),
    "query": ("query", parse_query),
    "name": ("name", parse_name),
    "separator": ("separator", _parse_separator),
}
_ACTION_PARSERS: dict[str, tuple[str, Parser]] = {
    "column": ("column", parse_name),
    "delete": ("delete", _parse_deletes),
}
_ACL_PARSERS: dict[str, tuple[str, Parser]] = {
    **{name: (name, parse_name) for name in _ACL_LISTS},
    "query": ("query", parse_query),
    "delimiter": ("delimiter", _parse_delimiter),
    "namespace": ("namespace", parse_name),
    "case_sensitive": ("case_sensitive", _parse_flag),
    "inherit_from": ("inherit_from", parse_template_or_column),
    "inheritance": ("inheritance", _parse_inheritance),
}
_INCREMENTAL_PARSERS: dict[str, tuple[str, Parser]] = {
    "timestamp": ("timestamp", parse_name),
    "lag": ("lag_seconds", _parse_lag),
    "deletes": ("deletes", parse_query),
}
