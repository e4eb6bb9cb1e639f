"""The check of a document by the strict mapping of its index."""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    not_played,
    parse_body,
)

MAX_TERM_BYTES = 32_766
_PARSING = "mapper_parsing_exception"
_ONLY_ELASTICSEARCH = ("flattened",)


class FieldMapping(msgspec.Struct, frozen=True):
    """How a field is indexed."""

    type: str = ""
    index: bool = True
    ignore_above: int | None = None
    properties: dict[str, object] = {}

    @property
    def kind(self) -> str:
        """The type; a field with others below it is an object."""
        return self.type or ("object" if self.properties else "")


class _Mapping(msgspec.Struct):
    dynamic: str | bool = ""
    properties: dict[str, FieldMapping] = {}


class _Fields(msgspec.Struct):
    properties: dict[str, object] = {}


MappedFields = dict[str, FieldMapping]


def mapped_fields(mapping: dict[str, object]) -> MappedFields:
    """Return the fields of the mapping of an index."""
    return parse_body(mapping, _Mapping).properties


def check_mapping(mapping: dict[str, object]) -> None:
    """Raise ClusterError for a mapping that is not strict, or has a type that is not played."""
    parsed = parse_body(mapping, _Mapping)
    if parsed.dynamic != "strict":
        raise not_played("an index without a strict mapping", '"dynamic": "strict"')
    for name, held in parsed.properties.items():
        kind = held.kind
        if kind in _ONLY_ELASTICSEARCH:
            reason = f"No handler for type [{kind}] declared on field [{name}]"
            error = ClusterError(400, _PARSING, f"Failed to parse mapping [_doc]: {reason}")
            error.cause["caused_by"] = {"type": _PARSING, "reason": reason}
            raise error
        if kind not in _CHECKS:
            raise not_played(f"the type {kind!r} of the field {name!r}", ", ".join(_CHECKS))


def with_fields(mapping: dict[str, object], added: dict[str, object]) -> dict[str, object]:
    """Return a mapping with further fields; raise ClusterError for one with another type."""
    held = parse_body(mapping, _Fields).properties
    for name, field in parse_body(added, _Fields).properties.items():
        stated = parse_body(field, FieldMapping).kind
        kind = parse_body(held.get(name, field), FieldMapping).kind
        if kind != stated:
            change = f"from type [{kind}] to [{stated}]"
            raise bad_argument(f"mapper [{name}] cannot be changed {change}")
        held = {**held, name: field}
    changed: dict[str, object] = {**mapping, "properties": held}
    check_mapping(changed)
    return changed


def check_document(document: dict[str, object], mapped: MappedFields, id: str) -> None:
    """Raise ClusterError for a document that the mapping does not permit."""
    for name, stated in document.items():
        held = mapped.get(name)
        if held is None:
            raise ClusterError(
                400,
                "strict_dynamic_mapping_exception",
                f"mapping set to strict, dynamic introduction of [{name}] within [_doc] is not"
                " allowed",
            )
        kind = held.kind
        for value in stated if isinstance(stated, list) else (stated,):
            cause = None if value is None else _CHECKS[kind](value)
            if cause is not None:
                raise ClusterError(
                    400,
                    _PARSING,
                    f"failed to parse field [{name}] of type [{kind}] in document with id '{id}'."
                    f" Preview of field's value: '{_preview(value)}'",
                    caused_by=cause,
                )
            _check_terms(name, held, value)


def _check_text(value: object) -> dict[str, object] | None:
    if isinstance(value, dict):
        return {"type": "illegal_state_exception", "reason": "Can't get text on a START_OBJECT"}
    return None


def _check_long(value: object) -> dict[str, object] | None:
    try:
        float(value)  # type: ignore[arg-type]  # the error is the check
    except (TypeError, ValueError):
        return {"type": "illegal_argument_exception", "reason": f'For input string: "{value}"'}
    return None


def _check_date(value: object) -> dict[str, object] | None:
    try:
        if not isinstance(value, int):
            datetime.fromisoformat(str(value))
    except ValueError:
        return {
            "type": "illegal_argument_exception",
            "reason": f"failed to parse date field [{value}] with format"
            " [strict_date_optional_time||epoch_millis]",
        }
    return None


def _check_flat(value: object) -> dict[str, object] | None:
    if isinstance(value, dict):
        return None
    return {"type": "parsing_exception", "reason": "unexpected token in flat_object field value"}


_CHECKS: dict[str, Callable[[object], dict[str, object] | None]] = {
    "keyword": _check_text,
    "text": _check_text,
    "binary": _check_text,
    "long": _check_long,
    "integer": _check_long,
    "double": _check_long,
    "date": _check_date,
    "flat_object": _check_flat,
    "object": _check_flat,
}


def _check_terms(name: str, held: FieldMapping, value: object) -> None:
    """Raise ClusterError for a value that is too long to be indexed."""
    if held.type not in ("keyword", "flat_object") or not held.index:
        return
    field = name if held.type == "keyword" else f"{name}._value"
    for text in _texts(value):
        if held.ignore_above is not None and len(text) > held.ignore_above:
            continue
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > MAX_TERM_BYTES:
            length = f"bytes can be at most {MAX_TERM_BYTES} in length; got {len(data)}"
            beginning = ", ".join(map(str, data[:30]))
            raise ClusterError(
                400,
                "illegal_argument_exception",
                f'Document contains at least one immense term in field="{field}" (whose UTF8'
                f" encoding is longer than the max length {MAX_TERM_BYTES}), all of which were"
                " skipped.  Please correct the analyzer to not produce such terms.  The prefix of"
                f" the first immense term is: '[{beginning}]...', original message: {length}",
                caused_by={"type": "max_bytes_length_exceeded_exception", "reason": length},
            )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def _preview(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={part}" for name, part in value.items()) + "}"
    return str(value)
