"""An appliance that does not take the format is refused before anything is written or sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.transforms.sinks.push.wire.address import APPLIANCES
from feedferry.transforms.sinks.push.wire.protocol import Address, Endpoint
from support.bulk_server import known
from support.bulk_target import BULK_SERVER

pytestmark = pytest.mark.slow

GSA = "http://127.0.0.1:9"
RECVDATA = "http://127.0.0.1:9/texis/dowalk/recvdata.xml"
BULK = "http://127.0.0.1:9/hr/_bulk"


class Mismatch(NamedTuple):
    """A format, the address of an appliance, and the formats that this takes."""

    name: str
    url: str
    expected: str

    @property
    def profile(self) -> list[str]:
        return ["--profile", "intranet"] if self.url == RECVDATA else []


MISMATCHES = [
    Mismatch("gsa-feed", RECVDATA, "thunderstone"),
    Mismatch("thunderstone", GSA, "gsa-feed or gsa-groups"),
    Mismatch("gsa-feed", BULK, "bulk"),
    Mismatch("bulk", GSA, "gsa-feed or gsa-groups"),
    Mismatch("avro", BULK, "bulk"),
]
FEED = (
    "<gsafeed><header><datasource>harbour</datasource><feedtype>incremental</feedtype></header>"
    '<group><record url="http://intranet.example.com/quay" mimetype="text/plain">'
    "<content>Ships.</content></record><record mimetype='text/plain'/></group></gsafeed>"
)


@pytest.fixture(autouse=True)
def _inputs(here: Path) -> Iterator[None]:
    with known():
        (here / "feed.xml").write_text(FEED)
        yield


def refusal(capsys: pytest.CaptureFixture[str], here: Path, *words: str) -> str:
    """Return the message of a command that writes nothing."""
    before = sorted(here.rglob("*"))
    capsys.readouterr()
    assert main([*words]) == 2
    assert sorted(here.rglob("*")) == before
    return capsys.readouterr().err


@pytest.mark.parametrize("case", MISMATCHES)
@pytest.mark.parametrize("verb", ["check --offline", "check", "plan", "run"])
def test_a_job_is_refused(
    verb: str, case: Mismatch, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ", profile: intranet" if case.profile else ""
    (here / "job.yaml").write_text(
        "version: 1\njob: harbour\nsource: {type: gsa-feed, path: feed.xml}\n"
        f"target: {{type: {case.name}, url: '{case.url}'{more}}}\n"
    )
    command, *flags = verb.split()
    message = refusal(capsys, here, command, "job.yaml", *flags)
    assert f"job.yaml:4:16: target.type {case.name}: not for http://127.0.0.1:9" in message
    assert f"which takes {case.expected}; expected one of these formats" in message


@pytest.mark.parametrize("case", MISMATCHES)
@pytest.mark.parametrize("flags", [(), ("-n",)])
def test_a_conversion_is_refused(
    flags: tuple[str, ...], case: Mismatch, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ("--to", case.name, "--push-to", case.url, *case.profile)
    message = refusal(capsys, here, "convert", "feed.xml", "-o", "out", *to, *flags)
    assert f"feedferry: --to {case.name}: not for http://127.0.0.1:9" in message
    assert f"which takes {case.expected}; expected one of these formats" in message


@pytest.mark.parametrize("case", MISMATCHES)
@pytest.mark.parametrize("flags", [(), ("-n",)])
def test_a_run_is_not_pushed(
    flags: tuple[str, ...], case: Mismatch, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["convert", "feed.xml", "-o", "out", "--to", case.name, "--accept-loss", "acl"]) == 1
    )
    message = refusal(capsys, here, "push", "out", "--to", case.url, *case.profile, *flags)
    assert f"{case.name}; expected {case.expected} for http://127.0.0.1:9" in message


@pytest.mark.parametrize("flags", [(), ("-n",)])
def test_a_file_is_not_pushed(
    flags: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("whole.xml").write_text(FEED.replace("<record mimetype='text/plain'/>", ""))
    words = ("push", "whole.xml", "-o", "pushed", "--to", BULK, *flags)
    capsys.readouterr()
    assert main([*words]) == 2
    message = capsys.readouterr().err
    assert "whole.xml: gsa-feed; expected bulk for http://127.0.0.1:9/hr: convert it" in message
    assert not Path("pushed/manifest.jsonl").exists()


def test_an_appliance_of_documents_alone_is_refused_unless_groups_are_left_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = Endpoint(name="feeds", formats=("gsa-feed",))
    kind = replace(BULK_SERVER, name="feeds", endpoints=(endpoint,), find_url=find_feeds_url)
    with APPLIANCES.registered(kind):
        words = ("convert", "feed.xml", "-o", "out", "--to", "gsa-feed", "-n")
        to = ("--push-to", "http://127.0.0.1:9/feeds")
        assert refusal(capsys, here, *words, *to) == (
            "feedferry: --groups send: groups would be written as gsa-groups, which"
            " http://127.0.0.1:9/feeds does not take; expected --groups leave-out\n"
        )
        assert main([*words, *to, "--groups", "leave-out"]) == 1


def find_feeds_url(address: Address) -> str | None:
    return "http://127.0.0.1:9/feeds" if address.path == "/feeds" else None


def test_rejects_are_not_replayed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "feed.xml", "-o", "out", "--to", "gsa-feed"]) == 1
    assert main(["rejects", "export", "out", "-o", "export"]) == 0
    capsys.readouterr()
    words = ("rejects", "replay", "out", "export", "--set", f"target.url={BULK}")
    assert main([*words]) == 2
    assert capsys.readouterr().err == (
        "feedferry: out/config.rendered.yaml:16:9: target.type gsa-feed: not for"
        " http://127.0.0.1:9/hr, which takes bulk; expected one of these formats, or the address of"
        " another appliance\n"
    )
    assert not (here / "out/rejects/replays").exists()
