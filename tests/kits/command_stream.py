"""The kits of command streams."""

from msgspec.structs import replace

from feedferry.transforms.formats import (
    AUTHORIZER_STREAM,
    LISTER_STREAM,
    RETRIEVER_STREAM,
    Docids,
    Format,
    ReadOptions,
    StreamOptions,
)
from kits.base import Kit, words
from kits.protection import of_retriever_stream

DOCIDS = Docids(base_url="http://intranet.example.com/")
"""The rule of document ids in which the faulty function is called."""
_WORDS = words(
    "GSA Adaptor Data Version 1 [\x00]\x00¦GSA Adaptor Data Version 1 [\n]\n¦\x00¦\n¦\r\n¦"
    "id=¦id-list¦\x00\x00¦id=a¦content\x00¦content=¦lock=true¦mime-type=text/html¦"
    "meta-name=n¦meta-value=v¦param-name=p¦param-value=q¦acl¦acl-permit-user=u¦"
    "acl-deny-group=g¦acl-inherit-from=b¦namespace=n¦acl-inheritance-type=CHILD_OVERRIDES¦"
    "acl-case-insensitive¦last-modified=1300000¦last-modified=99999999999999¦delete¦"
    "up-to-date¦not-found¦crawl-once¦repository-unavailable=x¦authz-status=PERMIT¦"
    "authz-status=DENY¦username=u¦group=g¦password=p¦anchor-uri=http://b¦anchor-text=t¦"
    "display-url=http://c¦no-index=true¦secure=false¦\xc0\x80¦\xc0\x8a¦[¦]¦**¦=¦-e "
)
_OPTIONS = (
    ReadOptions(own=(StreamOptions(docids=DOCIDS),)),
    ReadOptions(),
    ReadOptions(own=(StreamOptions(docids=Docids(base_url="http://a.example.com/doc/")),)),
    ReadOptions(own=(StreamOptions(strict=True),)),
    ReadOptions(max_content_bytes=64, own=(StreamOptions(max_token_bytes=64),)),
)


def _kit(format_: Format, command: str) -> Kit:
    return Kit(
        format=format_,
        reads_record="feedferry.transforms.formats.command_stream.doc_ids._are_plain",
        head=b"GSA Adaptor Data Version 1 [\0]\0",
        record=f"id={{name}}\0{command}\0",
        beginnings=(b"GSA Adaptor Data Version 1 [\n]", b"GSA Adaptor Data Version 1 [**]"),
        words=_WORDS,
        options=_OPTIONS,
        is_loose=True,
    )


LISTER = replace(_kit(LISTER_STREAM, "lock"), rare_losses=frozenset({"display-url"}))
RETRIEVER = replace(
    _kit(RETRIEVER_STREAM, "mime-type=text/plain"),
    protection_of=of_retriever_stream,
    rare_losses=frozenset({"display-url", "anchors", "charset"}),
)
AUTHORIZER = _kit(AUTHORIZER_STREAM, "authz-status=PERMIT")
