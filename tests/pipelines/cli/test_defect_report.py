"""A defect costs one record of a run, and the user is informed."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from feedferry.pipelines.cli.main import main
from feedferry.testing.defects import break_at, put_in
from kits import KITS
from kits.base import MARK
from support.archives import HOST, document, gsa_feed, put
from support.runs import convert, report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def command(name: str, *more: str) -> list[str]:
    """Return the arguments that convert three records, the second of them defective."""
    put(Path("in"), KITS[name].document)
    to = "avro" if "groups" in name else "jsonl"
    return ["in", "-o", "out", "--from", name, "--to", to, "--base-url", f"{HOST}/", *more]


def rejects() -> list[Any]:
    containers = [io.BytesIO(path.read_bytes()) for path in sorted(Path("out/rejects").iterdir())]
    return [reject for container in containers for reject in fastavro.reader(container)]


@pytest.mark.parametrize("name", [name for name, kit in KITS.items() if kit.format.is_read])
def test_a_defect_of_a_reader_costs_one_record(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in(monkeypatch, KITS[name])
    assert convert(*command(name, "--max-rejects", "0")) == 3
    capsys.readouterr()

    assert convert(*command(name, "--max-rejects", "1")) == 1
    account = report("out")["account"]
    assert (account["defects"], account["reject_codes"]) == ({"KeyError": 1}, {"defect": 1})
    assert sum(account["written"].values()) == 2
    (reject,) = rejects()
    assert MARK.encode() in reject["data"]
    assert capsys.readouterr().err == (
        "feedferry: 1 record was rejected because of a defect of feedferry (KeyError 1)."
        " See the rejects with the code defect in out/rejects/. Other records are not affected."
        " Please report this.\n"
    )


@pytest.mark.parametrize("flags", [("--format", "json"), ("--head", "9")])
def test_inspect_reports_a_defect_of_a_reader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    put_in(monkeypatch, KITS["jsonl"])
    put(Path("in"), KITS["jsonl"].document)

    assert main(["inspect", "in", *flags]) == 1
    printed = capsys.readouterr()
    assert "because of a defect of feedferry (KeyError 1). Other" in printed.err
    assert "--head" in flags or json.loads(printed.out)["defects"] == {"KeyError": 1}


def test_a_stopped_run_with_a_defect_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, KITS["gsa-feed"])
    put(Path("b.xml"), gsa_feed(document(4)))
    words = command("gsa-feed")
    with pytest.MonkeyPatch.context() as patch:
        break_at(patch, "feedferry.pipelines.convert.engine.publish", lambda *args, **more: True)
        assert convert("b.xml", *words) == 5  # killed before anything is published

    assert convert("b.xml", *words) == 1
    assert report("out")["account"]["defects"] == {"KeyError": 1}


@pytest.mark.parametrize(
    "function",
    [
        "feedferry.transforms.conversion.convert.normalize",
        "feedferry.transforms.conversion.convert.value_notices",
        "feedferry.transforms.formats.gsa.feed:GsaFeedEncoder._element",
    ],
)
def test_a_defect_after_the_reader_costs_one_record(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(monkeypatch, function, lambda *args: MARK in repr(args))
    bodies = "".join(
        f'{{"url":"{HOST}/{name}","action":"ADD","arrival":"PUSHED","body":"plan",'
        '"crawl":{"pagerank":50}}\n'
        for name in ("1", MARK, "3")
    )
    put(Path("in"), bodies.encode())

    code = convert("in", "-o", "out", "--to", "gsa-feed", "--datasource", "d")

    assert (code, report("out")["account"]["written"]) == (1, {"ADD": 2})
    assert report("out")["account"]["defects"] == {"KeyError": 1}
    (reject,) = rejects()
    assert (reject["code"], reject["url"]) == ("defect", f"{HOST}/{MARK}")
    assert MARK.encode() in reject["data"]


def test_a_defect_in_cutting_leaves_a_file_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cut = "feedferry.transforms.formats.command_stream.lister._places"
    break_at(monkeypatch, cut, lambda *args, **more: True)
    ids = "".join(f"id={HOST}/{number}\n" for number in range(900))
    put(Path("ids"), b"GSA Adaptor Data Version 1 [\n]\n" + ids.encode())
    assert convert("ids", "-o", "out", "--to", "avro", "--span-bytes", "10000") == 0
    assert "ids: read in one piece: a defect of feedferry: KeyError" in caplog.text
