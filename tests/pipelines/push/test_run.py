"""`feedferry push` as far as it comes without an appliance."""

from pathlib import Path

import pytest

from pipelines.cli.main import main
from schemas.receipt import AttemptState, Receipt
from support.wires import chunk_of, finished, items_of
from transforms.sinks.push.receipts import Receipts

pytestmark = pytest.mark.slow

NOBODY = ("--to", "http://127.0.0.1:1", "--attempts", "1", "-q", "--progress", "none")


def test_a_plan_leaves_out_what_was_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = chunk_of(tmp_path, 1, "ab"), chunk_of(tmp_path, 2, "c")
    folder = finished(tmp_path, [first, second]) / "push" / "127.0.0.1_1"
    with Receipts(folder, target="http://127.0.0.1:1", run="run") as receipts:
        receipts.add(Receipt(chunk=1, sha256=first.sha256, state=AttemptState.ACCEPTED))

    assert main(["push", str(tmp_path), *NOBODY, "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        f"chunks    wiki: 1 (1 incremental), 1 records, {second.bytes:,} bytes\n"
        "target    http://127.0.0.1:1\n"
        "nothing was sent\n"
    )


def test_a_plan_finds_what_the_appliance_cannot_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path, [items_of(tmp_path, 1, "a")])

    assert main(["push", str(tmp_path), *NOBODY, "--dry-run"]) == 2
    assert capsys.readouterr().err == (
        "feedferry: chunks/000001.xml: thunderstone; expected gsa-feed or gsa-groups for"
        " http://127.0.0.1:1\n"
    )


def test_a_plan_of_feed_files_makes_no_file(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, 1, "a")
    out = tmp_path / "out"

    assert main(["push", str(tmp_path / chunk.path), "-o", str(out), *NOBODY, "--dry-run"]) == 0
    assert not out.exists()


def test_feed_files_are_not_gone_on_with_under_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(tmp_path / chunk_of(tmp_path, 1, "a").path), str(tmp_path / "out")
    assert main(["push", path, "-o", out, *NOBODY]) == 4
    capsys.readouterr()

    assert main(["push", path, "-o", out, "--datasource", "other", *NOBODY]) == 2
    assert capsys.readouterr().err == (
        f"feedferry: -o {out}: has the run of other files, or of other names for them; expected"
        " another folder\n"
    )


def test_files_that_an_unfinished_start_left_are_not_taken_for_others(tmp_path: Path) -> None:
    path, out = tmp_path / chunk_of(tmp_path, 1, "a").path, tmp_path / "out"
    (out / "chunks").mkdir(parents=True)
    (out / "chunks" / "000001.xml").write_text("another")
    main(["push", str(path), "-o", str(out), *NOBODY])

    assert (out / "chunks" / "000001.xml").read_bytes() == path.read_bytes()
