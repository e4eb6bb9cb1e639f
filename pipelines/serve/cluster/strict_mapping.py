"""The check of a document by the strict mapping of its index."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from feedferry.pipelines.serve.cluster.cluster_error import ClusterError, bad_argument, not_played

MAX_TERM_BYTES = 32_766
_PARSING = "mapper_parsing_exception"
_ONLY_ELASTICSEARCH = ("flattened",)


def check_mapping(mapping: dict[str, Any]) -> None:
    """Raise ClusterError for a mapping that is not strict, or has a type that is not played."""
    if str(mapping.get("dynamic")) != "strict":
        raise not_played("an index without a strict mapping", '"dynamic": "strict"')
    for name, held in mapping.get("properties", {}).items():
        kind = _kind_of(held)
        if kind in _ONLY_ELASTICSEARCH:
            reason = f"No handler for type [{kind}] declared on field [{name}]"
            error = ClusterError(400, _PARSING, f"Failed to parse mapping [_doc]: {reason}")
            error.cause["caused_by"] = {"type": _PARSING, "reason": reason}
            raise error
        if kind not in _CHECKS:
            raise not_played(f"the type {kind!r} of the field {name!r}", ", ".join(_CHECKS))


def with_fields(mapping: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with further fields; raise ClusterError for one with another type."""
    properties: dict[str, Any] = mapping.get("properties", {})
    for name, field in added.get("properties", {}).items():
        held = properties.get(name, field)
        if _kind_of(held) != _kind_of(field):
            raise bad_argument(
                f"mapper [{name}] cannot be changed from type [{_kind_of(held)}] to"
                f" [{_kind_of(field)}]"
            )
        properties = {**properties, name: field}
    merged = {**mapping, "properties": properties}
    check_mapping(merged)
    return merged


def check_document(document: dict[str, Any], mapping: dict[str, Any], id: str) -> None:
    """Raise ClusterError for a document that the mapping does not permit."""
    properties = mapping.get("properties", {})
    for name, stated in document.items():
        held = properties.get(name)
        if held is None:
            raise ClusterError(
                400,
                "strict_dynamic_mapping_exception",
                f"mapping set to strict, dynamic introduction of [{name}] within [_doc] is not"
                " allowed",
            )
        kind = _kind_of(held)
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


def _kind_of(field: dict[str, Any]) -> str:
    return str(field.get("type", "object" if "properties" in field else None))


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


def _check_terms(name: str, held: dict[str, Any], value: object) -> None:
    """Raise ClusterError for a value that is too long to be indexed."""
    kind = _kind_of(held)
    if kind not in ("keyword", "flat_object") or held.get("index") is False:
        return
    field = name if kind == "keyword" else f"{name}._value"
    for text in _texts(value):
        if len(text) > held.get("ignore_above", len(text)):
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
