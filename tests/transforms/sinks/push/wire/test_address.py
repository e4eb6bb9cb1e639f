"""Addresses of appliances, as their users give them."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from support.appliance_sockets import certificate
from transforms.sinks.push.model import Appliance, ApplianceProtocol
from transforms.sinks.push.wire.address import parse_target, trust

RECVDATA = "http://search.example.com/texis/dowalk/recvdata.xml"
EXPECTED = (
    "expected http://HOST[:19900], https://HOST[:19902] or the whole address of a recvdata.xml"
)


def refusal(url: str, **others: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_target(url, **others)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://gsa.example.com", "http://gsa.example.com:19900"),
        ("https://gsa.example.com", "https://gsa.example.com:19902"),
        ("http://gsa.example.com/", "http://gsa.example.com:19900"),
        ("http://gsa.example.com:80", "http://gsa.example.com:80"),
        ("HTTP://GSA.Example.COM:19900", "http://gsa.example.com:19900"),
        ("http://gsa.example.com/xmlfeed", "http://gsa.example.com:19900"),
        ("http://gsa.example.com/xmlfeed/", "http://gsa.example.com:19900"),
        ("https://gsa.example.com:443/xmlgroups", "https://gsa.example.com:443"),
        ("http://gsa:1/getbacklogcount", "http://gsa:1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]", "http://[::1]:19900"),
    ],
)
def test_a_feedergate_is_named_by_host_and_port(given: str, url: str) -> None:
    assert parse_target(given) == Appliance(protocol=ApplianceProtocol.FEEDERGATE, url=url)


@pytest.mark.parametrize(
    "url",
    [
        RECVDATA,
        "https://search.example.com:8443/recvdata.xml",
        "http://[::1]:8080/texis/dowalk/recvdata.xml",
    ],
)
def test_dataload_is_named_by_its_whole_address(url: str) -> None:
    expected = Appliance(protocol=ApplianceProtocol.RECVDATA, url=url, profile="intranet")
    assert parse_target(url, profile="intranet") == expected


def test_a_proxy_and_authorities_are_kept(tmp_path: Path) -> None:
    ca_file = str(certificate(tmp_path)[0])
    found = parse_target("https://gsa", ca_file=ca_file, proxy="http://proxy.example.com:3128/")
    assert (found.ca_file, found.proxy) == (ca_file, "http://proxy.example.com:3128")


@pytest.mark.parametrize(
    "url",
    [
        "gsa.example.com",
        "gsa.example.com:19900",
        "ftp://gsa.example.com",
        "http://",
        "http://:19900",
        "http://gsa.example.com:port",
        "http://gsa.example.com:99999",
        "http://gsa.example.com:0",
        "http://[::1",
        "http://gsa example com",
        "http://gsa.example.com/xmlfeed\n",
        "http://gsä.example.com",
        "",
    ],
)
def test_what_is_no_address_is_shown(url: str) -> None:
    assert refusal(url) == f"--to: {url!r}; {EXPECTED}"


@pytest.mark.parametrize("path", ["/dowalk", "/feeds/xmlfeed", "/recvdata.xml/x"])
def test_a_path_that_is_no_door_is_shown(path: str) -> None:
    url = f"http://gsa.example.com{path}"
    assert refusal(url) == f"--to: {url!r}: a path of {path!r}; {EXPECTED}"


def test_a_password_is_refused_and_not_shown() -> None:
    found = refusal("http://tim:geheim@gsa.example.com")
    assert found == f"--to: a user or password in the address; {EXPECTED}"


@pytest.mark.parametrize("behind", ["?", "?a=b", "#", "#top"])
def test_a_query_or_fragment_is_refused(behind: str) -> None:
    url = f"http://gsa.example.com/xmlfeed{behind}"
    assert refusal(url) == f"--to: {url!r}: something behind the path; {EXPECTED}"


@pytest.mark.parametrize("profile", [None, ""])
def test_dataload_needs_a_profile(profile: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target(RECVDATA, profile=profile)
    assert str(caught.value) == (
        "--profile: not given; expected the profile that receives, as the address ends in "
        "recvdata.xml"
    )


def test_a_feedergate_has_no_profile() -> None:
    found = refusal("http://gsa.example.com", profile="intranet")
    assert found == "--profile: 'intranet'; expected none, as a feedergate knows none"


def test_a_profile_has_no_control_characters() -> None:
    found = refusal(RECVDATA, profile="a\nb")
    assert found == "--profile: 'a\\nb'; expected a name without control characters"


def test_a_profile_may_have_spaces_and_any_letters() -> None:
    assert parse_target(RECVDATA, profile="Büro 7").profile == "Büro 7"


@pytest.mark.parametrize("proxy", ["proxy:3128", "socks5://proxy:1080", "http://"])
def test_a_proxy_that_is_no_address_is_shown(proxy: str) -> None:
    found = refusal("http://gsa", proxy=proxy)
    assert found == f"--proxy: {proxy!r}; expected http://HOST:PORT or https://HOST:PORT"


def test_a_password_of_a_proxy_is_not_shown() -> None:
    assert refusal("http://gsa", proxy="http://tim:geheim@proxy:3128") == (
        "--proxy: a user or password in the address; expected http://HOST:PORT or https://HOST:PORT"
    )


def test_a_proxy_has_no_path() -> None:
    assert refusal("http://gsa", proxy="http://proxy:3128/pac") == (
        "--proxy: 'http://proxy:3128/pac': a path of '/pac'; "
        "expected http://HOST:PORT or https://HOST:PORT"
    )


def test_a_file_of_authorities_that_is_missing_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "ca.pem")
    assert refusal("https://gsa", ca_file=path) == (
        f"--ca-file: {path}: No such file or directory; expected certificates in PEM"
    )


def test_a_file_of_authorities_that_has_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    assert refusal("https://gsa", ca_file=str(path)) == (
        f"--ca-file: {path}: no certificates; expected some in PEM"
    )


def test_the_authorities_of_the_system_are_asked_by_default() -> None:
    assert trust(None).check_hostname
