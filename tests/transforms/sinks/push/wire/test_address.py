"""The address of an appliance."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.registry import Registry
from feedferry.transforms.sinks.push.wire.address import APPLIANCES, parse_target
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ApplianceProtocol
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA as RECVDATA_PROTOCOL
from support.appliance_sockets import certificate

RECVDATA = "http://search.example.com/texis/dowalk/recvdata.xml"
EXPECTED = (
    "expected http://HOST[:19900], https://HOST[:19902] or the whole address of a recvdata.xml"
    " or https://HOST/v1/projects/P/…/dataStores/D or http://HOST:9200/INDEX"
    " or http://HOST:8983/solr/COLLECTION"
)
EXPECTED_PROXY = "expected http://HOST:PORT or https://HOST:PORT"


def test_a_kind_of_appliance_has_an_endpoint_for_documents() -> None:
    with pytest.raises(ValueError, match="acme: no endpoints with formats; expected one"):
        ApplianceProtocol(**{**asdict(FEEDERGATE), "name": "acme", "endpoints": ()})


def refusal(url: str, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_target(url, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://gsa.example.com", "http://gsa.example.com:19900"),
        ("https://gsa.example.com/", "https://gsa.example.com:19902"),
        ("HTTP://GSA.Example.COM:80", "http://gsa.example.com:80"),
        ("http://gsa.example.com/xmlfeed/", "http://gsa.example.com:19900"),
        ("https://gsa.example.com:443/xmlgroups", "https://gsa.example.com:443"),
        ("http://gsa:1/getbacklogcount", "http://gsa:1"),
        ("http://[::1]", "http://[::1]:19900"),
    ],
)
def test_a_gsa_is_named_by_host_and_port(given: str, url: str) -> None:
    assert parse_target(given) == Appliance(protocol=FEEDERGATE, url=url)


@pytest.mark.parametrize(
    "spellings",
    [
        ("http://127.0.0.1", "http://localhost:19900", "HTTP://LocalHost/xmlfeed"),
        ("http://gsa.example.com", "http://GSA.example.com:19900/"),
        (RECVDATA, "http://search.EXAMPLE.com:80/texis/dowalk/recvdata.xml"),
        ("https://localhost/recvdata.xml", "https://127.0.0.1:443/recvdata.xml"),
        ("http://[::1]",),
        ("http://gsa.example.com:80",),
    ],
)
def test_the_spellings_of_an_address_are_one_appliance_and_no_other(
    spellings: tuple[str, ...],
) -> None:
    profile = "intranet" if "recvdata" in spellings[0] else None
    appliances = [parse_target(url, profile=profile) for url in spellings]
    assert len({appliance.name for appliance in appliances}) == 1
    assert len({appliance.canonical_target for appliance in appliances}) == 1
    others = ("http://127.0.0.1:19901", "http://[::1]:19901", "http://localhost.example.com")
    assert appliances[0].name not in {parse_target(url).name for url in others}


@pytest.mark.parametrize("url", [RECVDATA, "https://[::1]:8443/recvdata.xml"])
@pytest.mark.parametrize("profile", ["intranet", "Büro 7"])
def test_thunderstone_is_named_by_its_whole_address(url: str, profile: str) -> None:
    expected = Appliance(protocol=RECVDATA_PROTOCOL, url=url, profile=profile)

    assert parse_target(url, profile=profile) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("gsa.example.com", "gsa.example.com:19900", "ftp://gsa.example.com", "http://:19900", ""),
        *("http://gsa.example.com:port", "http://gsa.example.com:0", "http://[::1"),
        "http://g:99999",
        *("http://gsa example com", "http://gsa.example.com/xmlfeed\n", "http://gsä.example.com"),
        *("http://gsa/xmlfeed?", "http://gsa/xmlfeed?a=b", "http://gsa#top"),
    ],
)
def test_another_address_is_refused(url: str) -> None:
    assert refusal(url) == f"--to: {url!r}; {EXPECTED}"


@pytest.mark.parametrize("path", ["/_bulk", "/Intranet", "/feeds/xmlfeed", "/recvdata.xml/x"])
def test_another_path_is_refused(path: str) -> None:
    url = f"http://gsa.example.com{path}"

    assert refusal(url) == f"--to: {url!r}: path {path!r}; {EXPECTED}"


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("http://tim:secret@gsa", {}, f"--to: a user or password in the address; {EXPECTED}"),
        (
            "http://gsa",
            {"proxy": "http://tim:secret@proxy:3128"},
            f"--proxy: a user or password in the address; {EXPECTED_PROXY}",
        ),
        ("http://gsa", {"proxy": "proxy:3128"}, f"--proxy: 'proxy:3128'; {EXPECTED_PROXY}"),
        (
            "http://gsa",
            {"proxy": "http://proxy:3128/pac"},
            f"--proxy: 'http://proxy:3128/pac': path '/pac'; {EXPECTED_PROXY}",
        ),
        (
            RECVDATA,
            {},
            f"--profile: not given; expected the profile of {RECVDATA} that receives the data",
        ),
        (
            "http://gsa",
            {"profile": "intranet"},
            "--profile: 'intranet'; expected none: http://gsa:19900 has no profiles",
        ),
    ],
)
def test_a_password_a_bad_proxy_or_profile_is_refused(
    url: str, options: dict[str, str], expected: str
) -> None:
    assert refusal(url, **options) == expected


def test_a_proxy_and_certificates_are_kept(tmp_path: Path) -> None:
    ca_file = str(certificate(tmp_path)[0])
    appliance = parse_target("https://gsa", ca_file=ca_file, proxy="http://proxy.example.com:3128/")

    assert (appliance.ca_file, appliance.proxy) == (ca_file, "http://proxy.example.com:3128")


@pytest.mark.parametrize(
    ("content", "finding"), [(None, "No such file or directory"), ("x", "no certificates")]
)
def test_a_file_without_certificates_is_refused(
    tmp_path: Path, content: str | None, finding: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)

    assert refusal("https://gsa", ca_file=str(path)) == (
        f"--ca-file: {path}: {finding}; expected certificates in PEM"
    )


@pytest.mark.parametrize(
    ("url", "profile", "name"),
    [
        ("http://gsa-1.example.com:19900", "", "gsa-1.example.com_19900"),
        ("http://[::1]:19900", "", "1__19900"),
        (
            "https://www.example.com:8443/texis/dowalk/recvdata.xml",
            "in tranet/..",
            "www.example.com_8443_texis_dowalk_recvdata.xml_in_tranet",
        ),
    ],
)
def test_a_folder_is_named_after_an_appliance(url: str, profile: str, name: str) -> None:
    assert Appliance(protocol=FEEDERGATE, url=url, profile=profile).name == name


TOY = """
from msgspec.structs import asdict, replace
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE

def find_url(address):
    return f"https://{address.host}/feeds" if address.path == "/feeds" else None

TOY = replace(FEEDERGATE, name="toy", addresses="https://HOST/feeds", find_url=find_url)
"""


def test_an_entry_point_adds_a_kind_of_appliance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy_appliance.py").write_text(TOY)
    metadata = tmp_path / "toy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: toy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[feedferry.appliances]\ntoy = toy_appliance:TOY\n")
    monkeypatch.syspath_prepend(tmp_path)
    fresh = Registry("feedferry.appliances", ApplianceProtocol, *APPLIANCES.ours)
    monkeypatch.setattr("feedferry.transforms.sinks.push.wire.address.APPLIANCES", fresh)
    appliance = parse_target("https://toy.example.com/feeds")
    assert (appliance.protocol.name, appliance.url) == ("toy", "https://toy.example.com/feeds")
    assert parse_target("https://gsa.example.com").protocol is FEEDERGATE
