"""Sidecars: small files next to a file that contain its metadata, and maybe its ACL.

`x.pdf.meta.json`, `.meta.yaml` and `.meta.yml` contain an object of names, each with a text, a
number, true or false, or a list of these; null is no metadata. Values are the text in the file:
1.10 does not become 1.1, and a date in YAML is not converted. `x.pdf.metadata.xml` contains a part
of a GSA feed: `<metadata>`, or `<record>` with `<metadata>` and `<acl>`. Metadata such as
`google:aclusers` is an ACL, as in a feed. A sidecar with any part that is not understood is
refused.
"""

import errno
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import IO, Any, NamedTuple, NoReturn

import yaml  # type: ignore[import-untyped]  # types would be one more package, for one function
from lxml import etree

from schemas.acl import Acl
from schemas.errors import RecordError, SourceError
from schemas.record import Meta
from schemas.span import ElementContext, Span
from transforms.formats.base import ReadOptions
from transforms.formats.gsa.acl import acl_of, tag_of
from transforms.formats.gsa.record_reader import FeedRecordBuilder
from transforms.formats.xml.elements import ParsedElement
from transforms.formats.xml.raw_element import RawElement
from transforms.formats.xml.serializer import shut_parser
from transforms.sources.tree.patterns import SIDECARS

MAX_BYTES = 1 << 20
"""The greatest size of a sidecar."""

_PAIRS = "names, each with a text, a number, true, false or a list of these"
_MARKUP = (
    "<metadata>, or <record> without attributes and with nothing but <metadata> and <acl> in it"
)
_NULLS = {"", "~", "null", "Null", "NULL"}
_TEXT_TAGS = {None, "!", "tag:yaml.org,2002:str"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FRAME_EVENTS = (
    *(yaml.StreamStartEvent, yaml.StreamEndEvent),
    *(yaml.DocumentStartEvent, yaml.DocumentEndEvent),
)
_EVENTS = {
    yaml.MappingStartEvent: "an object in another",
    yaml.SequenceStartEvent: "a list in another, or as a name",
    yaml.AliasEvent: "an alias",
}
_KINDS = {
    tuple: "an object",
    list: "a list",
    str: "one value",
    bool: "one value",
    type(None): "null",
}
_UNIT = RawElement("record", b"", 0, 1, is_plain=True, context=ElementContext())

Open = Callable[[str], IO[bytes]]
Value = str | list[str | None] | None


class SidecarData(NamedTuple):
    """Metadata and ACL from the sidecars of a file."""

    metadata: tuple[Meta, ...] = ()
    acl: Acl | None = None
    overwrite_acls: bool | None = None


def read_sidecars(paths: Iterable[str], open_file: Open) -> SidecarData:
    """Return the data of all sidecars of a file, JSON before YAML before XML.

    Raise RecordError for a sidecar that cannot be read or understood, and for two with an ACL.
    """
    parts = [_read_one(path, open_file) for path in sorted(paths, key=_order)]
    acls = [part.acl for part in parts if part.acl is not None]
    if len(acls) > 1:
        raise RecordError("bad-sidecar", "an ACL in two sidecars of one file; expected it in one")
    overwritten = [part.overwrite_acls for part in parts if part.overwrite_acls is not None]
    return SidecarData(
        tuple(meta for part in parts for meta in part.metadata),
        acls[0] if acls else None,
        overwritten[0] if overwritten else None,
    )


def _order(path: str) -> int:
    return next(place for place, suffix in enumerate(SIDECARS) if path.endswith(suffix))


def _read_one(path: str, open_file: Open) -> SidecarData:
    name = path.rpartition("/")[2]
    try:
        return _parse(name, _load(path, open_file))
    except (ValueError, RecordError) as exc:
        raise RecordError("bad-sidecar", f"{name}: {exc}") from exc


def _load(path: str, open_file: Open) -> bytes:
    text = b""
    try:
        with open_file(path) as stream:
            while block := stream.read(MAX_BYTES + 1 - len(text)):
                text += block
    except (OSError, SourceError) as exc:
        if isinstance(exc, OSError) and exc.errno == errno.ELOOP:
            raise ValueError("a symbolic link; expected a file, or --follow-links") from exc
        cause = (isinstance(exc, OSError) and exc.strerror) or str(exc)
        raise ValueError(f"{cause}; expected a file that can be read") from exc
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes; expected at most that")
    return text


def _parse(name: str, text: bytes) -> SidecarData:
    """Return the data of a sidecar; raise ValueError or RecordError if it is not understood."""
    if name.endswith(".xml"):
        return _of_record(_parse_xml(text))
    pairs = _parse_json if name.endswith(".json") else _parse_yaml
    acl, metadata = acl_of(tuple(_metadata(pairs(_decoded(text)))))
    return SidecarData(metadata, acl)


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ValueError(f"byte {exc.start}: not UTF-8; expected UTF-8") from exc


def _metadata(pairs: Iterable[tuple[str | None, Value]]) -> Iterator[Meta]:
    names = set()
    for name, value in pairs:
        if not name or name in names:
            found = f"{name!r} twice" if name else "a value without a name"
            raise ValueError(f"{found}; expected {_PAIRS}")
        names.add(name)
        for text in value if isinstance(value, list) else [value]:
            if text is not None:
                yield Meta(name, text)


def _parse_json(text: str) -> Iterator[tuple[str, Value]]:
    """Yield names and values; objects are tuples of pairs, so duplicate names are seen."""
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=tuple,
            parse_int=str,
            parse_float=str,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as exc:
        raise ValueError(f"line {exc.lineno}: {exc.msg.lower()}; expected JSON") from exc
    except RecursionError as exc:
        raise ValueError(f"objects or lists in others, too deep; expected {_PAIRS}") from exc
    if not isinstance(parsed, tuple):
        raise ValueError(f"{_KINDS[type(parsed)]}; expected {_PAIRS}")
    for name, value in parsed:
        is_many = isinstance(value, list)
        texts = [_json_text(name, one) for one in (value if is_many else [value])]
        yield _json_text(name, name) or "", texts if is_many else texts[0]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}; expected a number")


def _json_text(name: str, value: Any) -> str | None:  # Any: all types of JSON
    if isinstance(value, tuple | list):
        raise ValueError(f"{name!r}: {_KINDS[type(value)]} in it; expected {_PAIRS}")
    if isinstance(value, str) and not _is_utf8(value):
        raise ValueError(f"{name!r}: half of a surrogate pair; expected text")
    return str(value).lower() if isinstance(value, bool) else value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_yaml(text: str) -> Iterator[tuple[str | None, Value]]:
    """Yield names and values from events: no tree is built, and aliases are refused."""
    try:
        parsed = yaml.parse(text, Loader=_LOADER)
        yield from _yaml_pairs(one for one in parsed if not isinstance(one, _FRAME_EVENTS))
    except yaml.MarkedYAMLError as exc:
        where = exc.problem_mark.line + 1
        raise ValueError(f"line {where}: {exc.problem}; expected YAML") from exc
    except yaml.YAMLError as exc:
        raise ValueError("a character that YAML does not allow; expected YAML") from exc


def _yaml_pairs(events: Iterator[Any]) -> Iterator[tuple[str | None, Value]]:
    if not isinstance(next(events, None), yaml.MappingStartEvent):
        raise ValueError(f"no object; expected {_PAIRS}")
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        yield _yaml_text(event), _yaml_value(next(events), events)
    if next(events, None) is not None:
        raise ValueError("a second document; expected one")


def _yaml_value(event: Any, events: Iterator[Any]) -> Value:
    if not isinstance(event, yaml.SequenceStartEvent):
        return _yaml_text(event)
    inside = takewhile(lambda one: not isinstance(one, yaml.SequenceEndEvent), events)
    return [_yaml_text(one) for one in inside]


def _yaml_text(event: Any) -> str | None:
    """Return the text of a scalar as it is written; a plain word may mean null."""
    if not isinstance(event, yaml.ScalarEvent) or event.tag not in _TEXT_TAGS:
        kind = "a value with a tag" if isinstance(event, yaml.ScalarEvent) else _EVENTS[type(event)]
        raise ValueError(f"line {event.start_mark.line + 1}: {kind}; expected {_PAIRS}")
    is_null = event.tag is None and event.implicit[0] and event.value in _NULLS
    return None if is_null else str(event.value)


def _parse_xml(text: bytes) -> etree._Element:
    try:
        root = etree.fromstring(text, shut_parser())
    except etree.XMLSyntaxError as exc:
        raise ValueError(f"{exc.msg}; expected well-formed XML") from exc
    if root.getroottree().docinfo.internalDTD is not None:
        raise ValueError(f"a DOCTYPE; expected none, and {_MARKUP}")
    return root


def _of_record(root: etree._Element) -> SidecarData:
    """Read a record as in a feed; parts that a feed would keep as extras are refused."""
    element = root
    if root.tag == "metadata":
        element = etree.Element("record")
        element.append(root)
    elif root.tag != "record" or root.attrib:
        found = f"<{tag_of(root)}>" if root.tag != "record" else f"{root.keys()[0]} of <record>"
        raise ValueError(f"{found}; expected {_MARKUP}")
    element.set("url", "sidecar")
    record = FeedRecordBuilder(Span(), ReadOptions()).build(ParsedElement(element, _UNIT, None))
    if record.content is not None or record.extras:
        found = record.extras[0].place if record.extras else "record/content"
        raise ValueError(f"{found}; expected {_MARKUP}")
    return SidecarData(record.metadata, record.acl, record.overwrite_acls)
