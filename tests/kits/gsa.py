"""The kits of feeds, groups feeds and tables of groups."""

from feedferry.transforms.formats import GSA_FEED, GSA_GROUPS, FeedOptions, by_name
from feedferry.transforms.rules.adapt import Target
from kits.base import HOST, MARK, Kit, words
from kits.protection import of_gsa_feed
from kits.xml import XML

_URLS = ("http://a.example.com/",)

FEED = Kit(
    format=GSA_FEED,
    reads_record="feedferry.transforms.formats.gsa.record_reader:FeedRecordBuilder._record",
    is_marked=lambda self, parts: MARK in parts.attributes["url"],
    head=b'<?xml version="1.0"?>\n<gsafeed>\n<header><datasource>wiki</datasource>'
    b"<feedtype>incremental</feedtype></header>\n<group>\n",
    record=f'<record url="{HOST}/{{name}}" mimetype="text/html"><metadata><meta name="n" '
    'content="v"/></metadata><content>{text}</content></record>\n',
    tail=b"</group>\n</gsafeed>\n",
    beginnings=(b"<gsafeed>", b"<gsafeed><group><record>"),
    frame=(
        *("<gsafeed>", "</gsafeed>", "<group>", "</group>", '<group action="delete">'),
        *("<header>", "</header>", "<header><datasource>other</datasource></header>"),
        "<gsafeed><header><datasource>other</datasource><feedtype>full</feedtype></header>",
        *("</record>", "</content>", "<metadata>"),
    ),
    words=XML
    + words(
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
    ),
    targets=(
        *(
            Target(
                format="gsa-feed",
                datasource=datasource,
                feedtype=feedtype,
                own=(FeedOptions(dialect=dialect),),
            )
            for dialect in ("7.x", "5.0")
            for datasource, feedtype in (
                *(("docs", "incremental"), ("docs", "full")),
                *(("docs", "metadata-and-url"), ("web", "incremental")),
            )
        ),
        Target(format="gsa-feed", datasource="d", feedtype="full", default_mimetype="text/html"),
        Target(
            format="gsa-feed",
            known_urls=_URLS,
            own=(FeedOptions(empty_metadata="placeholder"),),
        ),
    ),
    protection_of=of_gsa_feed,
)
GROUPS = Kit(
    format=GSA_GROUPS,
    reads_record="feedferry.transforms.formats.gsa.groups:MembershipBuilder.build",
    is_marked=lambda self, parsed: MARK.encode() in parsed.raw.text,
    head=b"<xmlgroups>\n",
    record='<membership><principal scope="GROUP">{name}</principal><members><principal '
    'scope="USER">{name}-user</principal></members></membership>\n',
    tail=b"</xmlgroups>\n",
    beginnings=(b"<xmlgroups><membership>",),
    words=XML
    + words(
        "<xmlgroups>¦</xmlgroups>¦<membership>¦</membership>¦<members>¦</members>¦<members/>¦"
        '<principal¦</principal>¦ scope="GROUP"¦ scope="USER"¦ namespace="n"¦'
        ' principal-type="unqualified"¦ source="s"¦'
        ' case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE"¦anna¦<x/>'
    ),
)
GROUPS_CSV = Kit(
    format=by_name("groups-csv"),
    reads_record="feedferry.transforms.formats.gsa.groups_csv._member",
    is_marked=lambda values: values["group"] == MARK,
    head=b"group,member,scope\n",
    record="{name},anna,user\n",
    words=words(
        'group,member,scope\n¦group,member,scope,namespace\n¦,¦\n¦\r\n¦"¦""¦staff,anna,user\n¦'
        'staff,,\n¦user¦GROUP¦case_sensitive¦true¦ ¦\xef\xbb\xbf¦\xff\xfe¦"a\nb"¦\r¦namespace'
    ),
    repeated=(
        *(b'"', b'"a\n', b'a",""",\n', b",", b"\n", b"g,u,user\n"),
        *(b"g\n", b"\r", b'""\n', b'"a\nb",c\n'),
    ),
    is_placed=False,
)
