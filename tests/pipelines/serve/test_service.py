"""The flags of `feedferry serve`."""

import json
import re
from pathlib import Path

import pytest

from feedferry.pipelines.serve.service import parse_serve, run
from feedferry.schemas.errors import ConfigError
from support.archives import document, gsa_feed
from support.ports import kept_port
from support.served import post_form, serving, wait_until
from support.spools import HandSpool

LINE = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]{12}Z (?:DEBUG|INFO|WARNING|ERROR) - - (.*)")


def test_defaults_are_those_of_a_feedergate() -> None:
    settings = parse_serve({"spool": "spool", "port": None})
    results = (settings.spool, settings.host, settings.port, settings.trusted)
    assert results == ("spool", "127.0.0.1", 19900, ("127.0.0.0/8", "::1"))


def test_flags_reach_the_receiver_and_loopback_is_always_trusted() -> None:
    words = {"port": "0", "min_free_bytes": "1GB", "profiles": ("a",), "trusted": ("10.1.0.0/16",)}
    settings = parse_serve({"spool": "spool", **words})
    results = (settings.port, settings.min_free_bytes, settings.profiles)
    assert results == (0, 1_000_000_000, ("a",))
    assert settings.trusted == ("127.0.0.0/8", "::1", "10.1.0.0/16")


@pytest.mark.slow
@pytest.mark.kind("server")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_receiver_logs_each_delivery_in_one_line_also_of_its_workers(
    tmp_path: Path, form: str
) -> None:
    spool, log = tmp_path / "spool", tmp_path / "log"
    HandSpool(spool).feed(gsa_feed(document(1)))
    flags = ("--forward", "http://127.0.0.1:9", "--log-file", str(log), "--log-format", form)
    with serving(spool, *flags) as receiver:
        fields = ("datasource=a\nb", "feedtype=full", "data=x")
        assert b"expected a letter" in post_form(f"{receiver.url}/xmlfeed", *fields)
        wait_until(lambda: "ended; 1 read" in log.read_text())
    shown = [line for line in receiver.log if not line.startswith("feedferry: ")]

    delivery = "127.0.0.1 /xmlfeed datasource=a\\nb feedtype=full bytes=1: 400 datasource: "
    logged = log.read_text().splitlines()
    assert sum(message_of(line, form).startswith(delivery) for line in logged) == 1
    assert sum(message_of(line, form).startswith(delivery) for line in shown) == 1
    assert not any("span 0" in line for line in shown), "details are for -v"


def message_of(line: str, form: str) -> str:
    """The message of a line, which has the form of the log."""
    if form == "json":
        return str(json.loads(line)["message"])
    match = LINE.fullmatch(line)
    assert match, line
    return match[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"spool": None}, "--spool: not given; expected DIR; see --help"),
        ({"port": "65536"}, "--port: '65536'; expected a port from 0, any free one, to 65535"),
        (
            {"max_connections": "0"},
            "--max-connections: '0'; expected a number of connections, 1 or more",
        ),
        (
            {"min_free_bytes": "much"},
            "--min-free: 'much'; expected a size such as 4096, 64KiB, 900MiB or 1GB",
        ),
        ({"window": "20:00-06:00"}, "--window: given without --forward URL; expected both"),
        ({"accept_loss": "acl"}, "--accept-loss: given without --forward URL; expected both"),
        (
            {"url": "http://gsa.example.com", "accept_loss": "acls"},
            "--accept-loss: 'acls'; expected a field of a record, such as acl or crawl-once; did"
            " you mean 'acl'?",
        ),
        *(
            (
                {"url": "http://127.0.0.1:1/docs", "state": state},
                f"--state: {state!r}; expected a state, such as runs/JOB/state",
            )
            for state in ("nights.yaml", "runs/nights/state.acls", ".")
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_flag_that_cannot_be_used_is_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run({"spool": "spool", **words})
    assert str(caught.value) == message


def test_a_gateway_to_itself_is_refused(tmp_path: Path) -> None:
    with kept_port() as port:
        url = f"http://localhost:{port}"
        with pytest.raises(ConfigError) as caught:
            run({"spool": str(tmp_path / "spool"), "port": str(port), "url": url})
    assert str(caught.value) == f"--forward {url}: this receiver; expected another appliance"
