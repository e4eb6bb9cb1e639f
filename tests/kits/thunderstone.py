"""The kit of dataload XML."""

from feedferry.transforms.formats import THUNDERSTONE, DataloadOptions
from feedferry.transforms.rules.adapt import Target
from kits.base import HOST, MARK, Kit, words
from kits.xml import XML

THUNDERSTONE_KIT = Kit(
    format=THUNDERSTONE,
    reads_record="feedferry.transforms.formats.thunderstone.dataload.parse_item",
    is_marked=lambda item, **options: MARK in "".join(item.itertext()),
    head=b'<?xml version="1.0"?>\n<ThunderstoneReplication>\n',
    record=f"<Item><Type>I</Type><Url>{HOST}/{{name}}</Url><Body>{{text}}</Body></Item>\n",
    tail=b"</ThunderstoneReplication>\n",
    beginnings=(b"<ThunderstoneReplication><Item>",),
    frame=(
        *("<ThunderstoneReplication>", "</ThunderstoneReplication>"),
        *("</Item>", "</Body>", "<Url>"),
    ),
    words=XML
    + words(
        "<ThunderstoneReplication>¦</ThunderstoneReplication>¦<Item>¦</Item>¦<Item/>¦"
        "<Type>I</Type>¦<Type>D</Type>¦<Type>DP</Type>¦<Type>U</Type>¦<Type>UI</Type>¦"
        '<Url>http://a.example.com/</Url>¦<Body>¦</Body>¦<Title/>¦<RawData dt:dt="bin.base64">¦'
        "</RawData>¦QUJD¦<Charset>latin-1</Charset>¦<Meta>a: b\nc</Meta>¦<Category>x</Category>¦"
        "<u:f>1</u:f>¦<value>2</value>¦<Modified>2026-01-31 12:00:00</Modified>¦<Refs>¦</Refs>¦"
        '<Pop>7</Pop>¦ xmlns:dt="urn:schemas-microsoft-com:datatypes"¦ dt:dt="bin.base64"¦'
        "<CTR>.5</CTR>"
    ),
    targets=(
        Target(format="thunderstone"),
        Target(
            format="thunderstone",
            allow_wide_deletes=True,
            own=(DataloadOptions(fields=(("author", "Author"),)),),
        ),
    ),
)
