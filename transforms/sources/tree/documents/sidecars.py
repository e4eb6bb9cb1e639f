"""Sidecars: small files next to a file that contain its metadata, and maybe its ACL.

`x.pdf.meta.json`, `.meta.yaml` and `.meta.yml` contain an object of names, each with a text, a
number, true or false, or a list of these; null is no metadata. Numbers, and dates in YAML, are the
text in the file: 1.10 does not become 1.1. `x.pdf.metadata.xml` contains a part of a GSA feed:
`<metadata>`, or `<record>` with `<metadata>` and `<acl>`. Metadata such as `google:aclusers` is an
ACL, as in a feed. A sidecar with any part that is not understood is refused.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple, NoReturn

import yaml  # type: ignore[import-untyped]  # it has no types
from lxml import etree

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError, SourceError
from feedferry.schemas.record import Meta
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.gsa.acl import tag_of
from feedferry.transforms.formats.gsa.record_reader import FeedRecordBuilder
from feedferry.transforms.formats.holding.acl_metadata import acl_of
from feedferry.transforms.formats.xml.elements import ParsedElement
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement
from feedferry.transforms.formats.xml.serializer import shut_parser
from feedferry.transforms.sources.remote import error_text
from feedferry.transforms.sources.tree.rules.urls import is_unicode

MAX_BYTES = 1 << 20
"""The greatest size of a sidecar."""

OpenFile = Callable[[str], IO[bytes]]
"""Opens a path or URI; raises OSError if it cannot, FileNotFoundError if the file is gone."""

_PAIRS = "an object of names, each with a text, a number, true, false or a list of these"
_MARKUP = (
    "<metadata>, or <record> without attributes and with nothing but <metadata> and <acl> in it"
)
_UNIT = RawElement("record", b"", 0, 1, ElementContext())


class SidecarData(NamedTuple):
    """Metadata and ACL from the sidecars of a file."""

    metadata: tuple[Meta, ...] = ()
    acl: Acl | None = None
    overwrite_acls: bool | None = None


def read_sidecars(paths: Iterable[str], open_file: OpenFile) -> SidecarData:
    """Return the data of all sidecars of a file, in their order.

    Raise RecordError for a sidecar that cannot be read or understood, and for two with an ACL.
    """
    parts = [_read_one(path, open_file) for path in paths]
    acls = [part.acl for part in parts if part.acl is not None]
    if len(acls) > 1:
        raise RecordError("bad-sidecar", "an ACL in two sidecars of one file; expected it in one")
    overwritten = [part.overwrite_acls for part in parts if part.overwrite_acls is not None]
    return SidecarData(
        tuple(meta for part in parts for meta in part.metadata),
        acls[0] if acls else None,
        overwritten[0] if overwritten else None,
    )


def _read_one(path: str, open_file: OpenFile) -> SidecarData:
    name = os.fsencode(path.rpartition("/")[2]).decode("utf-8", "backslashreplace")
    try:
        text = _load(path, open_file)
        if name.endswith(".xml"):
            return _of_record(_parse_xml(text))
        pairs = _parse_json if name.endswith(".json") else _parse_yaml
        acl, metadata = acl_of(tuple(_metadata(pairs(_decode(text)))))
        return SidecarData(metadata, acl)
    except (ValueError, RecordError) as exc:
        raise RecordError("bad-sidecar", f"{name}: {exc}") from exc


def _load(path: str, open_file: OpenFile) -> bytes:
    try:
        with open_file(path) as stream:
            text = stream.read(MAX_BYTES + 1)
    except (OSError, SourceError) as exc:
        if isinstance(exc, OSError) and exc.errno == errno.ELOOP:
            raise ValueError("a symbolic link; expected a file, or ⟦follow_links⟧") from exc
        raise ValueError(f"{error_text(exc)}; expected a file that can be read") from exc
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes; expected at most that")
    return text


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ValueError(f"byte {exc.start}: not UTF-8; expected UTF-8") from exc


def _parse_json(text: str) -> object:
    """Return the content; objects are tuples of pairs, so duplicate names are seen."""
    try:
        return json.loads(
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


def _parse_yaml(text: str) -> object:
    """Return the content as `_parse_json` does; scalars are not converted."""
    try:
        return _content_of(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ValueError(f"line {line}: {exc.problem}; expected YAML") from exc
    except yaml.YAMLError as exc:  # a character that YAML does not allow
        raise ValueError(f"{exc.reason}; expected YAML") from exc
    except RecursionError as exc:
        raise ValueError(f"objects or lists in others, too deep; expected {_PAIRS}") from exc


def _content_of(node: yaml.Node | None) -> object:
    """Return the content of a node. A node nested twice is refused later, and not expanded."""
    if isinstance(node, yaml.MappingNode):
        return tuple((_item_of(name), _value_of(value)) for name, value in node.value)
    return _value_of(node)


def _value_of(node: yaml.Node | None) -> object:
    if isinstance(node, yaml.SequenceNode):
        return [_item_of(item) for item in node.value]
    return _item_of(node)


def _item_of(node: yaml.Node | None) -> object:
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == "tag:yaml.org,2002:null" else node.value
    return () if isinstance(node, yaml.CollectionNode) else None


def _metadata(pairs: object) -> Iterator[Meta]:
    """Yield a metadata pair for each value of an object, which is a tuple of pairs."""
    if not isinstance(pairs, tuple):
        raise ValueError(f"no object; expected {_PAIRS}")
    names = set()
    for name, value in pairs:
        if not name or name in names:
            problem = f"{name!r} twice" if name else "a value without a name"
            raise ValueError(f"{problem}; expected {_PAIRS}")
        names.add(name)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield Meta(_text_of(name, name), _text_of(name, item))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}; expected a number")


def _text_of(name: str, value: object) -> str:
    if isinstance(value, tuple | list):
        raise ValueError(f"{name!r}: an object or a list in it; expected {_PAIRS}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_unicode(text):
        raise ValueError(f"{name!r}: half of a surrogate pair; expected text")
    return text


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
        shown = f"<{tag_of(root)}>" if root.tag != "record" else f"{root.keys()[0]} of <record>"
        raise ValueError(f"{shown}; expected {_MARKUP}")
    element.set("url", "sidecar")
    record = FeedRecordBuilder(Span(), ReadOptions()).build(ParsedElement(element, _UNIT))
    if record.content is not None or record.extras:
        shown = record.extras[0].place if record.extras else "record/content"
        raise ValueError(f"{shown}; expected {_MARKUP}")
    return SidecarData(record.metadata, record.acl, record.overwrite_acls)
