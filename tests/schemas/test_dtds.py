"""The DTDs: valid and invalid documents."""

from importlib.resources import files

import pytest
from lxml import etree

from feedferry.transforms.formats.gsa.rows import (
    ACL_ALONE,
    CONTENT,
    GROUP,
    MEMBER,
    MEMBERS,
    MEMBERSHIP,
    META,
    METADATA,
    PRINCIPAL,
    RECORD,
)
from feedferry.transforms.formats.xml.rows import ElementRows

FULL_RECORD = """<gsafeed><header><datasource>s</datasource><feedtype>full</feedtype></header>
<group action="add" pagerank="90" feedrank="50">
<acl url="http://x/d/" inheritance-type="parent-overrides" inherit-from="http://x/"/>
<record url="http://x/1" displayurl="http://y/1" action="add" mimetype="text/plain"
 last-modified="Tue, 6 Nov 2007 12:45:26 GMT" lock="true" authmethod="negotiate" pagerank="99"
 feedrank="3" crawl-immediately="true" crawl-once="false" scoring="web">
<acl><principal scope="user" access="permit" namespace="n" principal-type="unqualified"
 case-sensitivity-type="everything-case-insensitive">u</principal></acl>
<metadata overwrite-acls="false">
<meta encoding="base64binary" name="YQ==" content="Yg=="/></metadata>
<content encoding="base64compressed">eJwrBgAAdAB0</content></record></group></gsafeed>"""

OLD_RECORD = """<gsafeed><header><datasource>s</datasource><feedtype>full</feedtype></header>
<group action="add" pagerank="90"><record url="http://x/1" displayurl="http://y/1" action="add"
 mimetype="text/plain" last-modified="Tue, 6 Nov 2007 12:45:26 GMT" lock="true"
 authmethod="httpsso" pagerank="99"><metadata><meta name="a" content="b"/></metadata>
<content encoding="base64binary">YQ==</content></record></group></gsafeed>"""


FULL_MEMBERSHIP = """<xmlgroups><membership source="ldap">
<principal scope="GROUP" namespace="Default">staff</principal>
<members><principal scope="USER" namespace="ad" principal-type="unqualified"
 case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE">joe</principal>
<principal scope="GROUP" case-sensitivity-type="EVERYTHING_CASE_SENSITIVE">sub</principal>
</members></membership></xmlgroups>"""


def is_valid(dtd: str, document: str) -> bool:
    with files("feedferry.schemas").joinpath(f"{dtd}.dtd").open("rb") as stream:
        return etree.DTD(stream).validate(etree.fromstring(document))


def feed_of(attributes: str, inner: str = "") -> str:
    return (
        "<gsafeed><header><datasource>s</datasource><feedtype>full</feedtype></header>"
        f'<group><record url="http://x/1" mimetype="text/plain" {attributes}>{inner}</record>'
        "</group></gsafeed>"
    )


OF_5_0 = (RECORD.of_5_0, METADATA.of_5_0, META.of_5_0, CONTENT.of_5_0, GROUP.of_5_0)
OF_7 = (RECORD, METADATA, META, CONTENT, GROUP, ACL_ALONE, PRINCIPAL)


def attributes_of(dtd: str) -> dict[str, dict[str, tuple[list[str], bool]]]:
    """Return the values of the attributes of each element, and whether they are required."""
    with files("feedferry.schemas").joinpath(f"{dtd}.dtd").open("rb") as stream:
        return {
            str(element.name): {
                str(attribute.name): (sorted(attribute.values()), attribute.default == "required")
                for attribute in element.iterattributes()
            }
            for element in etree.DTD(stream).iterelements()
        }


@pytest.mark.parametrize(
    ("dtd", "elements"),
    [("gsafeed-5", OF_5_0), ("gsafeed-7", OF_7), ("xmlgroups", (MEMBERSHIP, MEMBERS, MEMBER))],
)
def test_the_rows_of_an_element_are_the_attributes_in_the_dtd(
    dtd: str, elements: tuple[ElementRows, ...]
) -> None:
    stated = attributes_of(dtd)
    for element in elements:
        rows = {row.name: (sorted(row.codec.names), row.is_required) for row in element.rows}
        assert rows == stated.pop(element.place.rpartition("/")[2])
    assert not any(stated.values())


@pytest.mark.parametrize(
    ("document", "is_valid_in_5", "is_valid_in_7"),
    [
        (FULL_RECORD, False, True),
        (OLD_RECORD, True, True),
        (feed_of("", "<acl/>"), False, True),
        (feed_of("", "<content/><metadata/>"), False, False),
        (feed_of("").replace("<group>", "").replace("</group>", ""), False, False),
    ],
)
def test_documents_of_each_release_are_valid_by_its_dtd(
    document: str, is_valid_in_5: bool, is_valid_in_7: bool
) -> None:
    assert is_valid("gsafeed-5", document) is is_valid_in_5
    assert is_valid("gsafeed-7", document) is is_valid_in_7


def test_the_dtd_of_groups_has_every_element_and_attribute() -> None:
    assert is_valid("xmlgroups", FULL_MEMBERSHIP)


@pytest.mark.parametrize(
    "document",
    [
        "<xmlgroups/>",
        '<xmlgroups><membership><principal scope="GROUP"/><members/></membership></xmlgroups>',
        '<xmlgroups><membership><principal scope="GROUP"/></membership></xmlgroups>',
    ],
)
def test_the_dtd_of_groups_has_no_empty_elements_although_the_guide_does(document: str) -> None:
    assert not is_valid("xmlgroups", document)


def test_the_dtd_of_groups_states_the_defaults() -> None:
    with files("feedferry.schemas").joinpath("xmlgroups.dtd").open("rb") as stream:
        elements = {element.name: element for element in etree.DTD(stream).iterelements()}
    attributes = elements["principal"].iterattributes()
    assert {attribute.name: attribute.default_value for attribute in attributes} == {
        "scope": None,
        "namespace": "Default",
        "case-sensitivity-type": "EVERYTHING_CASE_SENSITIVE",
        "principal-type": None,
    }
