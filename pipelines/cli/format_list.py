"""The formats, as `feedferry formats` lists them."""

import msgspec

from transforms.sources.database.mapping import DATABASE
from transforms.sources.spool import SPOOL


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format as `feedferry formats` lists it."""

    name: str
    reads: bool = True
    writes: bool = True
    line: str


COMMAND = "command"
"""The format of a source whose file names programs."""

FILES = "files"
"""The format of a source that is a tree of documents."""

ASKED = (COMMAND, FILES, DATABASE)
"""Formats of sources that are asked what there is before anything is read."""

FORMATS = (
    Format(name=FILES, writes=False, line="files of any kind: a folder or a uri, each a document"),
    Format(name=DATABASE, writes=False, line="rows of a database, each a document (a YAML file)"),
    Format(name=SPOOL, writes=False, line="what feedferry serve has taken: a folder of feeds"),
    Format(name="gsa-feed", line="Google Search Appliance feeds, protocol 7.x and 5.0 (XML)"),
    Format(name="thunderstone", line="Thunderstone Search Appliance dataload (XML)"),
    Format(name="lister-stream", line="GSA adaptor command streams: ids, and when they changed"),
    Format(name="retriever-stream", line="GSA adaptor command streams: a document each"),
    Format(name="authorizer-stream", line="GSA adaptor command streams: who may see what"),
    Format(name=COMMAND, writes=False, line="GSA adaptor programs that speak them (a YAML file)"),
    Format(name="gsa-groups", line="Google Search Appliance groups feeds (XML)"),
    Format(name="groups-csv", writes=False, line="groups as CSV: group,member,scope[,namespace]"),
    Format(name="avro", line="canonical records in an Avro container: lossless, for archives"),
    Format(name="native", line="canonical records as JSON lines: lossless, for eyes and diffs"),
)
STREAMS = tuple(format_.name for format_ in FORMATS if format_.name.endswith("-stream"))
"""The formats of command streams."""
