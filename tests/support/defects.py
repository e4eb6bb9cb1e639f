"""Faults that tests put into readers: the reading of one record raises an exception of its own.

The command line has no place to hand in a reader that fails, so the function that reads one record
is replaced. The marked record has MARK in its url or name; it is the second of three.
"""

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import pytest

from schemas import avro
from schemas.record import Action, Record
from support.archives import HOST, document, gsa_feed, jsonl, thunderstone
from transforms.formats import WriteOptions, by_name

MARK = "defective"
URLS = (f"{HOST}/1", f"{HOST}/{MARK}", f"{HOST}/3")


class Fault(NamedTuple):
    """A document of three records, and the function that fails for the second of them.

    `cost` is what the reject keeps of the document.
    """

    function: str
    is_marked: Callable[..., bool]
    document: bytes
    cost: bytes


def put_in(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Let the function raise a KeyError for the marked record."""
    break_at(patch, fault.function, fault.is_marked)


def break_at(patch: pytest.MonkeyPatch, name: str, is_marked: Callable[..., bool]) -> None:
    """Let the function of that name raise a KeyError where its arguments are marked."""
    path, _, attribute = name.rpartition(".")
    module, _, holder = path.partition(":")
    owner: Any = importlib.import_module(module)
    if holder:
        owner = getattr(owner, holder)
    function = getattr(owner, attribute)

    @wraps(function)
    def broken(*args: Any, **kwargs: Any) -> Any:  # whatever the function takes and returns
        if is_marked(*args, **kwargs):
            raise KeyError("secret of the document")
        return function(*args, **kwargs)

    patch.setattr(owner, attribute, broken)


def _command_stream(cost: bytes, *lines: str) -> Fault:
    header = b"GSA Adaptor Data Version 1 [\0]\0"
    body = "".join(f"{line}\0" for line in lines).encode()
    return Fault(
        "transforms.formats.command_stream.doc_ids._under_base",
        lambda base, docid: MARK in docid,
        header + body,
        cost,
    )


def _membership(name: str) -> str:
    return (
        f'<membership><principal scope="GROUP">{name}</principal><members>'
        f'<principal scope="USER">{name}-user</principal></members></membership>'
    )


def _xml_record(name: str) -> str:
    return document(0).replace(f"{HOST}/0.txt", f"{HOST}/{name}")


def _container() -> bytes:
    encoder = by_name("avro").make_encoder(WriteOptions())
    frame = encoder.frame([avro.encode(_record(url)) for url in URLS])
    return encoder.prolog() + frame + encoder.epilog()


def _record(url: str) -> Record:
    return Record(url=url, action=Action.DELETE)


FAULTS = {
    "gsa-feed": Fault(
        "transforms.formats.gsa.record_reader:FeedRecordBuilder._record",
        lambda self, attributes, *more: MARK in attributes["url"],
        gsa_feed(_xml_record("1"), _xml_record(MARK), _xml_record("3")),
        _xml_record(MARK).encode(),
    ),
    "thunderstone": Fault(
        "transforms.formats.thunderstone.dataload.parse_item",
        lambda item, **more: MARK in "".join(item.itertext()),
        thunderstone(*URLS),
        f"<Item><Type>I</Type><Url>{URLS[1]}</Url><Body>plan</Body></Item>".encode(),
    ),
    "gsa-groups": Fault(
        "transforms.formats.gsa.groups:MembershipBuilder.build",
        lambda self, parsed: MARK.encode() in parsed.raw.text,
        f"<xmlgroups>{_membership('1')}{_membership(MARK)}{_membership('3')}</xmlgroups>".encode(),
        _membership(MARK).encode(),
    ),
    "groups-csv": Fault(
        "transforms.formats.gsa.groups_csv._member",
        lambda values: values["group"] == MARK,
        f"group,member,scope\n1,anna,user\n{MARK},anna,user\n3,anna,user\n".encode(),
        f"{MARK},anna,user\n".encode(),
    ),
    "lister-stream": _command_stream(
        f"id={MARK}\0lock\0".encode(), "id=1", f"id={MARK}", "lock", "id=3", "lock"
    ),
    "retriever-stream": _command_stream(
        f"id={MARK}\0lock=true\0".encode(), "id=1", f"id={MARK}", "lock=true", "id=3", "lock=true"
    ),
    "authorizer-stream": _command_stream(
        f"id={MARK}".encode(),
        *("id=1", "authz-status=PERMIT", f"id={MARK}", "authz-status=DENY", "id=3"),
        "authz-status=PERMIT",
    ),
    "avro": Fault(
        "schemas.avro.convert",
        lambda fields, kind: MARK in fields["url"],
        _container(),
        avro.encode(_record(URLS[1])),
    ),
    "jsonl": Fault(
        "transforms.formats.canonical.jsonl._parse_line",
        lambda line, *more: MARK.encode() in line.text,
        jsonl(*URLS),
        jsonl(URLS[1]),
    ),
}
