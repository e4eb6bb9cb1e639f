"""Credentials of an appliance: by reference only, and in no file and no message."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.auth import (
    Auth,
    AuthKind,
    format_auth,
    is_loopback,
    parse_auth,
)
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from support.appliance_sockets import listening, reply, saying, whole
from support.fake_appliance import GSA

SECRET = "s3cret/Key=="
FORMS = {
    "api_key": "api_key=REFERENCE",
    "basic": "basic=USER:REFERENCE or basic=REFERENCE",
    "bearer": "bearer=REFERENCE",
}
REFERENCE = ", where REFERENCE is ${env:NAME} or ${file:PATH}"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("api_key=${env:KEY}", f"ApiKey {SECRET}"),
        ("bearer=${file:key}", f"Bearer {SECRET}"),
        ("basic=tim:${env:KEY}", "Basic dGltOnMzY3JldC9LZXk9PQ=="),
        ("basic=${env:LOGIN}", "Basic dGltOnMzY3JldC9LZXk9PQ=="),
    ],
)
def test_a_reference_is_resolved_where_the_header_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, header: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", SECRET)
    monkeypatch.setenv("LOGIN", f"tim:{SECRET}")
    Path("key").write_text(f"{SECRET}\n")
    auth = parse_auth(text)
    assert auth.header() == header
    assert format_auth(auth) == text
    assert SECRET not in repr(auth)


@pytest.mark.parametrize("name", ["api_key", "basic", "bearer"])
@pytest.mark.parametrize("reference", ["", SECRET, f"{SECRET}:${{env:KEY}}$", "x${env:KEY}"])
def test_a_secret_in_plain_text_is_refused_and_not_shown(name: str, reference: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_auth(f"{name}={reference}")
    expected = f"a secret in plain text, or none; expected {FORMS[name]}{REFERENCE}"
    assert str(caught.value) == f"{name}: {expected}"


def test_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_auth("digest:joe=${env:KEY}")
    assert str(caught.value) == f"'digest'; expected {' or '.join(FORMS.values())}{REFERENCE}"


@pytest.mark.parametrize("value", ["", "two\nlines", "ключ", " key"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("KEY", value)
    with pytest.raises(ConfigError) as caught:
        Auth(kind=AuthKind.BEARER, reference="${env:KEY}").header()
    message = "blanks, or other letters than ASCII; expected a key"
    assert str(caught.value) == f"--auth: ${{env:KEY}}: {message}"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_credentials_are_sent_without_tls_on_this_machine_only(host: str) -> None:
    auth = parse_auth("bearer=${env:KEY}")
    assert is_loopback(host)
    assert parse_target(f"http://{host}", auth=auth).auth == auth
    assert parse_target("https://gsa.example.com", auth=auth).auth == auth


@pytest.mark.parametrize("host", ["gsa.example.com", "10.0.0.1", "localhost.example.com", "[::2]"])
def test_credentials_without_tls_are_refused(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target(f"http://{host}", auth=parse_auth("bearer=${env:KEY}"))
    assert str(caught.value) == (
        f"--auth: bearer for http://{host}:19900: everybody on the way could read it; expected"
        " https://"
    )


def test_credentials_without_tls_are_not_sent_to_a_proxy() -> None:
    auth = parse_auth("bearer=${env:KEY}")
    with pytest.raises(ConfigError) as caught:
        parse_target("http://localhost", auth=auth, proxy="http://proxy.example.com:3128")
    assert str(caught.value) == (
        "--auth: bearer for http://localhost:19900 through http://proxy.example.com:3128: everybody"
        " on the way could read it; expected https://"
    )
    assert parse_target("http://localhost", auth=auth, proxy="http://localhost:3128").auth == auth
    https = parse_target("https://gsa", auth=auth, proxy="http://proxy.example.com:3128")
    assert https.auth == auth


@pytest.mark.slow
def test_each_request_has_the_header_and_no_response_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", SECRET)
    auth = parse_auth("basic=tim:${env:KEY}")
    header = auth.header()
    echo = reply(f"Authorization: {header}, which is tim:{SECRET}")
    with (
        listening(saying(reply("17"), echo)) as listener,
        ApplianceClient(replace(GSA, url=listener.url, auth=auth)) as client,
    ):
        client.backlog()
        response = client.send(whole(tmp_path / "feed.xml", b"<gsafeed/>"), feedtype=None)
    assert [f"\r\nAuthorization: {header}\r\n".encode() in head for head in listener.heard] == [
        True,
        True,
    ]
    assert response.body == b"Authorization: Basic ***, which is tim:***"


@pytest.mark.slow
def test_no_header_of_a_response_shows_the_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", SECRET)
    echo = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/{SECRET}\r\nRetry-After: {SECRET}\r\n"
        f"Date: {SECRET}\r\nLocation: /{SECRET}\r\nContent-Length: 0\r\n\r\n"
    )
    with (
        listening(saying(echo.encode())) as listener,
        ApplianceClient(
            replace(GSA, url=listener.url, auth=parse_auth("bearer=${env:KEY}"))
        ) as client,
    ):
        response = client.send(whole(tmp_path / "feed.xml", b"<gsafeed/>"), feedtype=None)
    assert response.status == 200
    assert SECRET not in repr(response)
