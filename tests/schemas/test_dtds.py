"""The DTDs, by what they take and what they do not."""

from importlib.resources import files

import pytest
from lxml import etree

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


def takes(dtd: str, document: str) -> bool:
    return is_valid(f"gsafeed-{dtd}.dtd", document)


def takes_groups(document: str) -> bool:
    return is_valid("xmlgroups.dtd", document)


def is_valid(dtd: str, document: str) -> bool:
    with files("schemas").joinpath(dtd).open("rb") as stream:
        return etree.DTD(stream).validate(etree.fromstring(document))


def one_record(attributes: str, inner: str = "") -> str:
    return (
        "<gsafeed><header><datasource>s</datasource><feedtype>full</feedtype></header>"
        f'<group><record url="http://x/1" mimetype="text/plain" {attributes}>{inner}</record>'
        "</group></gsafeed>"
    )


def test_the_7_x_dtd_takes_every_element_and_attribute() -> None:
    assert takes("7", FULL_RECORD)


def test_the_5_0_dtd_takes_every_element_and_attribute_of_its_time() -> None:
    assert takes("5", OLD_RECORD)


def test_a_feed_of_5_0_is_one_of_7_x() -> None:
    assert takes("7", OLD_RECORD)


@pytest.mark.parametrize(
    "attribute",
    [
        'authmethod="negotiate"',
        'crawl-immediately="true"',
        'crawl-once="true"',
        'feedrank="3"',
        'scoring="web"',
    ],
)
def test_the_5_0_dtd_takes_no_attribute_of_later_times(attribute: str) -> None:
    taken = (takes("5", one_record(attribute)), takes("7", one_record(attribute)))
    assert taken == (False, True)


@pytest.mark.parametrize(
    "inner",
    [
        "<acl/>",
        '<metadata overwrite-acls="true"/>',
        '<metadata><meta encoding="base64binary" name="YQ==" content="YQ=="/></metadata>',
        '<content encoding="base64compressed"/>',
    ],
)
def test_the_5_0_dtd_takes_no_element_of_later_times(inner: str) -> None:
    taken = (takes("5", one_record("", inner)), takes("7", one_record("", inner)))
    assert taken == (False, True)


@pytest.mark.parametrize("dtd", ["5", "7"])
def test_content_comes_behind_metadata(dtd: str) -> None:
    assert not takes(dtd, one_record("", "<content/><metadata/>"))


@pytest.mark.parametrize("dtd", ["5", "7"])
def test_a_record_has_a_url(dtd: str) -> None:
    assert not takes(dtd, one_record("").replace('url="http://x/1"', ""))


@pytest.mark.parametrize("dtd", ["5", "7"])
def test_a_feed_has_a_group(dtd: str) -> None:
    header = "<header><datasource>s</datasource><feedtype>full</feedtype></header>"
    assert not takes(dtd, f"<gsafeed>{header}</gsafeed>")


def test_the_dtd_of_groups_takes_every_element_and_attribute() -> None:
    assert takes_groups(FULL_MEMBERSHIP)


@pytest.mark.parametrize(
    ("stated", "instead"),
    [
        ('scope="USER"', 'scope="user"'),
        ('scope="USER"', ""),
        ("EVERYTHING_CASE_SENSITIVE", "EVERYTHING-CASE-SENSITIVE"),
        ("unqualified", "qualified"),
        ('source="ldap"', 'origin="ldap"'),
        ('namespace="ad"', 'access="permit"'),
    ],
)
def test_the_dtd_of_groups_takes_no_other_word(stated: str, instead: str) -> None:
    assert not takes_groups(FULL_MEMBERSHIP.replace(stated, instead, 1))


def test_the_dtd_of_groups_has_what_is_not_stated() -> None:
    with files("schemas").joinpath("xmlgroups.dtd").open("rb") as stream:
        [principal] = [one for one in etree.DTD(stream).iterelements() if one.name == "principal"]
    defaults = {one.name: one.default_value for one in principal.iterattributes()}
    assert defaults == {
        "scope": None,
        "namespace": "Default",
        "case-sensitivity-type": "EVERYTHING_CASE_SENSITIVE",
        "principal-type": None,
    }


@pytest.mark.parametrize(
    "document",
    [
        "<xmlgroups/>",
        '<xmlgroups><membership><principal scope="GROUP"/><members/></membership></xmlgroups>',
        '<xmlgroups><membership><principal scope="GROUP"/></membership></xmlgroups>',
    ],
)
def test_the_dtd_of_groups_takes_nothing_empty_though_the_guide_does(document: str) -> None:
    assert not takes_groups(document)
