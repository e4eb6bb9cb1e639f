"""Formats and sources of other packages are found by their entry points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.formats import GSA_FEED, Format
from feedferry.transforms.registry import Registry, UnusableWarning
from support.runs import ROOT
from support.toy_format import TOY

GROUP = "feedferry.formats"
TOY_POINT = "toy = support.toy_format:TOY"


def install(folder: Path, package: str, *points: str, group: str = GROUP) -> None:
    """Put the metadata of a distribution into a folder of `sys.path`."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join((f"[{group}]", *points)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def formats() -> Registry[Format]:
    return Registry(GROUP, Format, GSA_FEED)


def test_an_object_of_another_package_is_found_and_listed_after_ours(folder: Path) -> None:
    install(folder, "acme", TOY_POINT)
    assert formats().find("toy") is TOY
    assert [*formats()] == [GSA_FEED, TOY]
    assert formats().names == ("gsa-feed", "toy")
    assert formats().find("toys") is None


def test_an_object_that_cannot_be_imported_is_an_error_of_its_name_alone(folder: Path) -> None:
    install(folder, "acme", "toy = acme_missing:TOY", "odd = support.toy_format:encoder")
    several = formats()
    with pytest.warns(UnusableWarning) as warned:
        assert [*several] == [GSA_FEED]
    assert [*several] == [GSA_FEED]  # without another warning
    assert [str(warning.message) for warning in warned] == [*several.faults.values()]
    assert [*several.faults] == ["toy", "odd"]
    assert formats().find("gsa-feed") is GSA_FEED
    with pytest.raises(ConfigError) as missing:
        formats().find("toy")
    assert str(missing.value) == (
        "feedferry.formats: 'toy' of acme: ModuleNotFoundError(\"No module named 'acme_missing'\");"
        " update or remove acme"
    )
    with pytest.raises(ConfigError) as odd:
        formats().find("odd")
    assert str(odd.value) == (
        "feedferry.formats: 'odd' of acme: support.toy_format:encoder; expected a Format 'odd'"
    )


def test_a_module_that_ends_the_process_is_an_error_of_its_object_alone(folder: Path) -> None:
    (folder / "acme_exit.py").write_text("raise SystemExit(0)\n")
    install(folder, "acme", "toy = acme_exit:TOY")
    several = formats()
    with pytest.warns(UnusableWarning):
        assert [*several] == [GSA_FEED]
    with pytest.raises(ConfigError) as caught:
        several.find("toy")
    assert str(caught.value) == (
        "feedferry.formats: 'toy' of acme: SystemExit(0); update or remove acme"
    )


@pytest.mark.parametrize(
    ("packages", "point", "others"),
    [
        (("acme",), "gsa-feed = acme:FEED", "in feedferry and in acme"),
        (("acme", "bolt"), TOY_POINT, "in acme and in bolt"),
    ],
)
def test_two_objects_with_a_name_are_an_error_that_names_both_packages(
    folder: Path, packages: tuple[str, ...], point: str, others: str
) -> None:
    for package in packages:
        install(folder, package, point)
    with pytest.raises(ConfigError) as caught:
        [*formats()]
    assert others in str(caught.value) or "in bolt and in acme" in str(caught.value)


@pytest.mark.slow
def test_a_format_of_another_package_is_converted(tmp_path: Path) -> None:
    install(tmp_path, "acme", TOY_POINT)
    install(tmp_path, "broken", "lost = acme_missing:SOURCE", group="feedferry.sources")
    (tmp_path / "in.toy").write_text("url: http://www.example.com/a\ntext: rope\n\n")
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "tests", ROOT)))
    command = Path(sys.executable).with_name("feedferry")
    for args in (
        ("convert", "in.toy", "-o", "out", "--to", "jsonl"),
        ("convert", "out/chunks", "-o", "back", "--to", "toy"),
    ):
        subprocess.run(
            (command, *args), cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=True
        )
    listed = subprocess.run(
        (command, "formats"),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    fault = (
        "feedferry.sources: 'lost' of broken: ModuleNotFoundError(\"No module named"
        " 'acme_missing'\"); update or remove broken"
    )
    assert listed.stderr == f"feedferry: {fault}\n"
    assert (
        listed.stdout.splitlines()[-1] == f"lost               -           cannot be used: {fault}"
    )
    assert "toy                read/write  blocks of name: value lines" in listed.stdout
    assert (tmp_path / "back/chunks/000001.toy").read_text() == (tmp_path / "in.toy").read_text()
