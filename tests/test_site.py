"""The documentation site: every page is in its navigation, and no link is broken."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from lxml import html

from support.reference import command_pages
from support.runs import ROOT

CONFIG = ROOT / ".ci" / "mkdocs.yml"
DOCS = ROOT / "docs"
REFERENCE = DOCS / "commands"


def navigation() -> list[str]:
    """Return the pages of the navigation."""
    return [*pages_of(yaml.safe_load(CONFIG.read_text("utf-8"))["nav"])]


def add_to_navigation(page: str) -> None:
    """Add a page after the last page of its folder."""
    lines = CONFIG.read_text("utf-8").splitlines(keepends=True)
    folder = page.rpartition("/")[0]
    places = [at for at, line in enumerate(lines) if f" - {folder}/" in line]
    if places:
        indent = lines[places[-1]].partition("-")[0]
        lines.insert(places[-1] + 1, f"{indent}- {page}\n")
        CONFIG.write_text("".join(lines), "utf-8")


def pages_of(entry: Any) -> Iterator[str]:
    """Yield the pages of an entry: of a page, of a list of entries, or of a mapping of titles."""
    if isinstance(entry, str):
        yield entry
        return
    for inner in entry.values() if isinstance(entry, dict) else entry:
        yield from pages_of(inner)


def test_each_page_has_one_entry_in_the_navigation(accept: bool) -> None:
    names = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages = {name for name in names if not name.startswith("decisions/")}  # read in the repository
    if accept:
        for page in sorted(pages - {*navigation()}):
            add_to_navigation(page)
    named = navigation()
    cures = [f"docs/{page}: add {page} to nav in .ci/mkdocs.yml" for page in pages - {*named}]
    cures += [f"docs/{page}: in nav of .ci/mkdocs.yml, but no page" for page in {*named} - pages]
    assert sorted(cures) == []
    assert sorted(named) == sorted(pages)


def test_the_pages_of_commands_match_the_help(accept: bool) -> None:
    pages = command_pages()
    if accept:
        REFERENCE.mkdir(exist_ok=True)
        for path in {*REFERENCE.iterdir()} - {REFERENCE / name for name in pages}:
            path.unlink()
        for name, text in pages.items():
            (REFERENCE / name).write_text(text, "utf-8")
    written = {path.name: path.read_text("utf-8") for path in REFERENCE.iterdir()}
    changed = sorted(name for name in {*pages, *written} if pages.get(name) != written.get(name))
    assert changed == [], "write them with: pytest tests/test_site.py --accept"


@pytest.mark.slow
@pytest.mark.kind("site")
def test_the_site_is_built_without_a_broken_link_and_needs_no_other_host(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "--config-file", CONFIG, "--site-dir", site],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    paths = sorted(site.rglob("*.html"))
    assert len(paths) == len(navigation()) + len([site / "404.html"])
    assert [(path.name, url) for path in paths for url in loaded_urls(path) if "//" in url] == []


def loaded_urls(path: Path) -> Iterator[str]:
    """Yield what a browser loads together with a page."""
    page = html.fromstring(path.read_bytes())
    for element, _, url, _ in page.iterlinks():
        is_hint = element.tag == "link" and element.get("rel") in {"canonical", "prev", "next"}
        if element.tag != "a" and not is_hint:
            yield url
