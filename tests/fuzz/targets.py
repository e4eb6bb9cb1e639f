"""What is fuzzed: each reader, with the words of its format and the documents to begin with."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from schemas.membership import Membership
from schemas.record import Record
from transforms.formats import FORMATS, Docids, Mode, ReadOptions, WriteOptions, by_name

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
GOLDEN = HERE.parent / "golden"
MAX_SEED_BYTES = 16 << 10

_XML = (
    *(b"<", b">", b"/>", b"</", b'"', b"'", b"=", b"&", b";", b"&amp;", b"&lt;", b"&#0;", b"&#xD;"),
    *(b"&x;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?", b"?>", b"<?xml version='1.0'?>"),
    *(b"<!DOCTYPE", b"<!DOCTYPE x [", b"]>", b"<!ENTITY x 'y'>", b" xmlns='u'", b" xmlns:n='u'"),
    *(b'<?xml version="1.0" encoding="latin-1"?>', b' encoding="utf-16"', b"\xef\xbb\xbf", b"n:"),
)
_GSA = (
    *(b"<gsafeed>", b"</gsafeed>", b"<group>", b"</group>", b"<record", b"<record url='u'/>"),
    *(b"</record>", b"<content>", b"</content>", b'<content encoding="base64binary">', b"QUJD"),
    *(b'<content encoding="base64compressed">', b"eJwDAAAAAAE=", b"<metadata>", b"</metadata>"),
    *(b"<meta", b' name="n"', b' content="c"', b'<meta name="google:aclusers" content="a"/>'),
    *(
        b"<acl>",
        b"</acl>",
        b"<acl",
        b' url="http://a.example.com/"',
        b"<principal",
        b"</principal>",
    ),
    *(b' scope="user"', b' access="deny"', b' action="delete"', b' action="add"', b' lock="true"'),
    *(b"<header>", b"</header>", b"<datasource>web</datasource>", b"<feedtype>full</feedtype>"),
    *(b' last-modified="Tue, 06 Nov 2007 12:45:26 GMT"', b' pagerank="99"', b' feedrank="3"'),
    *(b' authmethod="httpbasic"', b' crawl-immediately="true"', b' overwrite-acls="false"'),
    *(b' inherit-from="http://a.example.com/"', b' inheritance-type="and-both-permit"'),
)
_THUNDERSTONE = (
    *(
        b"<ThunderstoneReplication>",
        b"</ThunderstoneReplication>",
        b"<Item>",
        b"</Item>",
        b"<Item/>",
    ),
    *(b"<Type>I</Type>", b"<Type>D</Type>", b"<Type>DP</Type>", b"<Type>U</Type>"),
    *(b"<Type>UI</Type>", b"<Url>http://a.example.com/</Url>", b"<Body>", b"</Body>", b"<Title/>"),
    *(b'<RawData dt:dt="bin.base64">', b"</RawData>", b"QUJD", b"<Charset>latin-1</Charset>"),
    *(b"<Meta>a: b\nc</Meta>", b"<Category>x</Category>", b"<u:f>1</u:f>", b"<value>2</value>"),
    *(b"<Modified>2026-01-31 12:00:00</Modified>", b"<Refs>", b"</Refs>", b"<Pop>7</Pop>"),
    *(b' xmlns:dt="urn:schemas-microsoft-com:datatypes"', b' dt:dt="bin.base64"', b"<CTR>.5</CTR>"),
)
_GROUPS = (
    *(b"<xmlgroups>", b"</xmlgroups>", b"<membership>", b"</membership>", b"<members>"),
    *(b"</members>", b"<members/>", b"<principal", b"</principal>", b' scope="GROUP"'),
    *(b' scope="USER"', b' namespace="n"', b' principal-type="unqualified"', b' source="s"'),
    *(b' case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE"', b"anna", b"<x/>"),
)
_COMMANDS = (
    *(b"GSA Adaptor Data Version 1 [\0]\0", b"GSA Adaptor Data Version 1 [\n]\n", b"\0", b"\n"),
    *(b"\r\n", b"id=", b"id-list", b"\0\0", b"id=a", b"content\0", b"content=", b"lock=true"),
    *(b"mime-type=text/html", b"meta-name=n", b"meta-value=v", b"param-name=p", b"param-value=q"),
    *(b"acl", b"acl-permit-user=u", b"acl-deny-group=g", b"acl-inherit-from=b", b"namespace=n"),
    *(b"acl-inheritance-type=CHILD_OVERRIDES", b"acl-case-insensitive", b"last-modified=1300000"),
    *(b"last-modified=99999999999999", b"delete", b"up-to-date", b"not-found", b"crawl-once"),
    *(b"repository-unavailable=x", b"authz-status=PERMIT", b"authz-status=DENY", b"username=u"),
    *(b"group=g", b"password=p", b"anchor-uri=http://b", b"anchor-text=t", b"display-url=http://c"),
    *(b"no-index=true", b"secure=false", b"\xc0\x80", b"\xc0\x8a", b"[", b"]", b"**", b"=", b"-e "),
)
_CSV = (
    *(
        b"group,member,scope\n",
        b"group,member,scope,namespace\n",
        b",",
        b"\n",
        b"\r\n",
        b'"',
        b'""',
    ),
    *(b"staff,anna,user\n", b"staff,,\n", b"user", b"GROUP", b"case_sensitive", b"true", b" "),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b'"a\nb"', b"\r", b"namespace"),
)
_JSON = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b'"',
        b"\\",
        b"null",
        b"true",
        b"1e400",
        b"-0",
        b"\\ud800",
    ),
    *(b'{"url":"http://a.example.com/","action":"ADD"}\n', b'"group"', b'"content"', b'"data"'),
    *(b'"encoding":"BASE64"', b'"modified":"2026-01-31T12:00:00+01:00"', b'"provenance":{}'),
    *(b'"metadata":[{"name":"n","value":"v"}]', b'"acl":{"principals":[]}', b"\n", b"\xef\xbb\xbf"),
    *(b'"size":9223372036854775808', b'"modified":"0001-01-01T00:00:00+23:59"', b'"QUJD"'),
)
_AVRO = (
    *(b"Obj\x01", b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff" * 9 + b"\x01"),
    *(
        b"\x80" * 9 + b"\x01",
        b"avro.codec",
        b"\x08null",
        b"\x0edeflate",
        b"\x0csnappy",
        b"avro.schema",
    ),
    *(
        b"\x0ebzip2\0",
        b"\x04xz",
        b"\x12zstandard",
        b'"type":"record"',
        b'"null"',
        b'"long"',
        b'"name"',
    ),
)


class Target(NamedTuple):
    """A reader under the options that it is fuzzed with.

    `seeds` is a pattern of golden documents. `results_per_byte` bounds how many results a byte
    may have: only a compressed block of Avro has more than one. `is_placed` says that the place of
    a reject is that of its data, and that places do not overlap. `is_loose` says that the reader
    takes what its own writer refuses: the round trip is then that of what an adapter lets through.
    """

    reader: str
    seeds: str
    words: tuple[bytes, ...]
    options: tuple[ReadOptions, ...] = (ReadOptions(),)
    results_per_byte: int = 1
    is_placed: bool = True
    is_loose: bool = False


_STREAM_OPTIONS = (
    ReadOptions(),
    ReadOptions(docids=Docids(base_url="http://a.example.com/doc/")),
    ReadOptions(mode=Mode.STRICT),
    ReadOptions(max_token_bytes=64, max_content_bytes=64),
)
_OPTIONS = (ReadOptions(), ReadOptions(zone="Europe/Zurich", max_content_bytes=64))

TARGETS = {
    target.reader: target
    for target in (
        Target("gsa-feed", "gsa_feed/*", _XML + _GSA, _OPTIONS),
        Target("thunderstone", "thunderstone/*", _XML + _THUNDERSTONE, _OPTIONS),
        Target("gsa-groups", "gsa_groups/*", _XML + _GROUPS),
        Target("groups-csv", "groups_csv/*", _CSV, is_placed=False),
        Target("lister-stream", "lister_stream/*", _COMMANDS, _STREAM_OPTIONS, is_loose=True),
        Target("retriever-stream", "retriever_stream/*", _COMMANDS, _STREAM_OPTIONS, is_loose=True),
        Target(
            "authorizer-stream", "authorizer_stream/*", _COMMANDS, _STREAM_OPTIONS, is_loose=True
        ),
        Target("avro", "*/[ac]*.jsonl", _AVRO, _OPTIONS, results_per_byte=1100, is_placed=False),
        Target("native", "*/[ac]*.jsonl", _JSON, _OPTIONS),
    )
}
assert TARGETS.keys() == {format_.name for format_ in FORMATS}


def corpus(target: Target) -> list[Path]:
    """Return the files of the corpus, in the order of their names."""
    return sorted((CORPUS / target.reader).glob("*"))


def seeds(target: Target) -> list[bytes]:
    """Return the documents that mutation begins with: small golden ones, then the corpus."""
    golden = [path.read_bytes() for path in _small(target.seeds)]
    if target.reader == "avro":
        golden = list(map(_container, golden))
    return golden + [path.read_bytes() for path in corpus(target)]


def _small(pattern: str) -> Iterator[Path]:
    for path in sorted(GOLDEN.glob(pattern)):
        is_expected = path.suffix == ".jsonl" and not pattern.endswith(".jsonl")
        if not is_expected and path.is_file() and path.stat().st_size <= MAX_SEED_BYTES:
            yield path


def _container(lines: bytes) -> bytes:
    """The records or memberships of native lines, in a container."""
    found = list(by_name("native").read(io.BytesIO(lines)))
    groups = [one for one in found if isinstance(one, Membership)]
    records = [one for one in found if isinstance(one, Record)]
    encoder = by_name("avro").make_encoder(WriteOptions(memberships=bool(groups)))
    frame = encoder.frame([encoder.encode(one) for one in groups or records])
    return encoder.prolog() + frame + encoder.epilog()
