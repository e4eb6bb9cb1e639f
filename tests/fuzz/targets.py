"""What is fuzzed: each reader, with the words of its format and the documents to begin with."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from schemas.membership import Membership
from schemas.record import Record
from transforms.formats import (
    FORMATS,
    Docids,
    Mode,
    ReadOptions,
    StreamOptions,
    WriteOptions,
    by_name,
)

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
GOLDEN = HERE.parent / "golden"
MAX_SEED_BYTES = 16 << 10


def _words(text: str) -> tuple[bytes, ...]:
    """Return the words of a text, which are separated by `¦`."""
    return tuple(text.encode("latin-1").split("¦".encode("latin-1")))


_XML = _words(
    "<¦>¦/>¦</¦\"¦'¦=¦&¦;¦&amp;¦&lt;¦&#0;¦&#xD;¦&x;¦<!--¦-->¦<![CDATA[¦]]>¦<?¦?>¦"
    "<?xml version='1.0'?>¦<!DOCTYPE¦<!DOCTYPE x [¦]>¦<!ENTITY x 'y'>¦ xmlns='u'¦"
    ' xmlns:n=\'u\'¦<?xml version="1.0" encoding="latin-1"?>¦ encoding="utf-16"¦\xef\xbb\xbf¦n:'
)
_GSA = _words(
    "<gsafeed>¦</gsafeed>¦<group>¦</group>¦<record¦<record url='u'/>¦</record>¦<content>¦"
    '</content>¦<content encoding="base64binary">¦QUJD¦<content encoding="base64compressed">¦'
    'eJwDAAAAAAE=¦<metadata>¦</metadata>¦<meta¦ name="n"¦ content="c"¦'
    '<meta name="google:aclusers" content="a"/>¦<acl>¦</acl>¦<acl¦'
    ' url="http://a.example.com/"¦<principal¦</principal>¦ scope="user"¦ access="deny"¦'
    ' action="delete"¦ action="add"¦ lock="true"¦<header>¦</header>¦'
    "<datasource>web</datasource>¦<feedtype>full</feedtype>¦"
    ' last-modified="Tue, 06 Nov 2007 12:45:26 GMT"¦ pagerank="99"¦ feedrank="3"¦'
    ' authmethod="httpbasic"¦ crawl-immediately="true"¦ overwrite-acls="false"¦'
    ' inherit-from="http://a.example.com/"¦ inheritance-type="and-both-permit"'
)
_THUNDERSTONE = _words(
    "<ThunderstoneReplication>¦</ThunderstoneReplication>¦<Item>¦</Item>¦<Item/>¦"
    "<Type>I</Type>¦<Type>D</Type>¦<Type>DP</Type>¦<Type>U</Type>¦<Type>UI</Type>¦"
    '<Url>http://a.example.com/</Url>¦<Body>¦</Body>¦<Title/>¦<RawData dt:dt="bin.base64">¦'
    "</RawData>¦QUJD¦<Charset>latin-1</Charset>¦<Meta>a: b\nc</Meta>¦<Category>x</Category>¦"
    "<u:f>1</u:f>¦<value>2</value>¦<Modified>2026-01-31 12:00:00</Modified>¦<Refs>¦</Refs>¦"
    '<Pop>7</Pop>¦ xmlns:dt="urn:schemas-microsoft-com:datatypes"¦ dt:dt="bin.base64"¦'
    "<CTR>.5</CTR>"
)
_GROUPS = _words(
    "<xmlgroups>¦</xmlgroups>¦<membership>¦</membership>¦<members>¦</members>¦<members/>¦"
    '<principal¦</principal>¦ scope="GROUP"¦ scope="USER"¦ namespace="n"¦'
    ' principal-type="unqualified"¦ source="s"¦'
    ' case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE"¦anna¦<x/>'
)
_COMMANDS = _words(
    "GSA Adaptor Data Version 1 [\x00]\x00¦GSA Adaptor Data Version 1 [\n]\n¦\x00¦\n¦\r\n¦"
    "id=¦id-list¦\x00\x00¦id=a¦content\x00¦content=¦lock=true¦mime-type=text/html¦"
    "meta-name=n¦meta-value=v¦param-name=p¦param-value=q¦acl¦acl-permit-user=u¦"
    "acl-deny-group=g¦acl-inherit-from=b¦namespace=n¦acl-inheritance-type=CHILD_OVERRIDES¦"
    "acl-case-insensitive¦last-modified=1300000¦last-modified=99999999999999¦delete¦"
    "up-to-date¦not-found¦crawl-once¦repository-unavailable=x¦authz-status=PERMIT¦"
    "authz-status=DENY¦username=u¦group=g¦password=p¦anchor-uri=http://b¦anchor-text=t¦"
    "display-url=http://c¦no-index=true¦secure=false¦\xc0\x80¦\xc0\x8a¦[¦]¦**¦=¦-e "
)
_CSV = _words(
    'group,member,scope\n¦group,member,scope,namespace\n¦,¦\n¦\r\n¦"¦""¦staff,anna,user\n¦'
    'staff,,\n¦user¦GROUP¦case_sensitive¦true¦ ¦\xef\xbb\xbf¦\xff\xfe¦"a\nb"¦\r¦namespace'
)
_JSON = _words(
    '{¦}¦[¦]¦:¦,¦"¦\\¦null¦true¦1e400¦-0¦\\ud800¦'
    '{"url":"http://a.example.com/","action":"ADD"}\n¦"group"¦"content"¦"data"¦'
    '"encoding":"BASE64"¦"modified":"2026-01-31T12:00:00+01:00"¦"provenance":{}¦'
    '"metadata":[{"name":"n","value":"v"}]¦"acl":{"principals":[]}¦\n¦\xef\xbb\xbf¦'
    '"size":9223372036854775808¦"modified":"0001-01-01T00:00:00+23:59"¦"QUJD"'
)
_AVRO = _words(
    "Obj\x01¦\x00¦\x01¦\x02¦\x7f¦\x80¦\xff¦\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01¦"
    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01¦avro.codec¦\x08null¦\x0edeflate¦\x0csnappy¦"
    'avro.schema¦\x0ebzip2\x00¦\x04xz¦\x12zstandard¦"type":"record"¦"null"¦"long"¦"name"'
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
    ReadOptions(own=(StreamOptions(docids=Docids(base_url="http://a.example.com/doc/")),)),
    ReadOptions(own=(StreamOptions(mode=Mode.STRICT),)),
    ReadOptions(max_content_bytes=64, own=(StreamOptions(max_token_bytes=64),)),
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
        Target("jsonl", "*/[ac]*.jsonl", _JSON, _OPTIONS),
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
    """The records or memberships of jsonl lines, in a container."""
    results = list(by_name("jsonl").read(io.BytesIO(lines)))
    groups = [result for result in results if isinstance(result, Membership)]
    records = [result for result in results if isinstance(result, Record)]
    encoder = by_name("avro").make_encoder(WriteOptions(memberships=bool(groups)))
    frame = encoder.frame([encoder.encode(result) for result in groups or records])
    return encoder.prolog() + frame + encoder.epilog()
