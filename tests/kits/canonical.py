"""The kits of Avro containers and of JSON lines."""

from feedferry.schemas.membership import Membership
from feedferry.transforms.formats import JSONL, WriteOptions, by_name
from feedferry.transforms.formats.canonical.avro import our_sync
from kits.base import HOST, MARK, SOME, Kit, results_of, words
from kits.protection import of_avro, of_jsonl


def _container(lines: bytes) -> bytes:
    """The records of jsonl lines, or their memberships if there are some, in a container."""
    results = results_of(lines)
    groups = [result for result in results if isinstance(result, Membership)]
    encoder = by_name("avro").make_encoder(WriteOptions(memberships=bool(groups)))
    frame = encoder.frame([encoder.encode(result) for result in groups or results])
    return encoder.prolog() + frame + encoder.epilog()


AVRO = Kit(
    format=by_name("avro"),
    reads_record="feedferry.schemas.avro.convert",
    is_marked=lambda fields, kind: MARK in fields["url"],
    words=(
        *(b"\0\2" + our_sync("record"), b"\2\x80\x80\x80\x80\4", our_sync("record")),
        *words(
            "Obj\x01¦\x00¦\x01¦\x02¦\x7f¦\x80¦\xff¦\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01¦"
            "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01¦avro.codec¦\x08null¦\x0edeflate¦\x0csnappy¦"
            'avro.schema¦\x0ebzip2\x00¦\x04xz¦\x12zstandard¦"type":"record"¦"null"¦"long"¦"name"'
        ),
    ),
    golden=SOME,
    make_seed=_container,
    protection_of=of_avro,
    results_per_byte=1100,
    is_placed=False,
)
JSON_LINES = Kit(
    format=JSONL,
    reads_record="feedferry.transforms.formats.canonical.jsonl._parse_line",
    is_marked=lambda line, *more: MARK.encode() in line.text,
    head=b"",
    record=f'{{"action":"DELETE","url":"{HOST}/{{name}}"}}\n',
    words=words(
        '{¦}¦[¦]¦:¦,¦"¦\\¦null¦true¦1e400¦-0¦\\ud800¦'
        '{"url":"http://a.example.com/","action":"ADD"}\n¦"group"¦"content"¦"data"¦'
        '"encoding":"BASE64"¦"modified":"2026-01-31T12:00:00+01:00"¦"provenance":{}¦'
        '"metadata":[{"name":"n","value":"v"}]¦"acl":{"principals":[]}¦\n¦\xef\xbb\xbf¦'
        '"size":9223372036854775808¦"modified":"0001-01-01T00:00:00+23:59"¦"QUJD"'
    ),
    repeated=(
        *(b"a", b"[", b'{"a":', b"{}\n", b'{"action":"ADD","url":"a"}\n'),
        *(b"\n", b'"', b" ", b"1"),
    ),
    golden=SOME,
    protection_of=of_jsonl,
)
