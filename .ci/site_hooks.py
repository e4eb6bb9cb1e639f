"""Complete the navigation of the documentation site."""

from pathlib import Path
from typing import Any

Nav = list[Any]  # as YAML has it: names of pages, and mappings of one title to a page or a list


def on_config(config: Any) -> Any:
    """Replace each entry `folder/*` by the pages of that folder that have no entry of their own."""
    config.nav = complete(config.nav, Path(config.docs_dir))
    return config


def complete(nav: Nav, docs: Path) -> Nav:
    """Return a navigation without patterns."""
    named = set(pages(nav))
    return [entry for item in nav for entry in _entries(item, docs, named)]


def pages(nav: Nav) -> list[str]:
    """Return the pages of a navigation, in its order."""
    found: list[str] = []
    for item in nav:
        for value in item.values() if isinstance(item, dict) else [item]:
            found += pages(value) if isinstance(value, list) else [value]
    return found


def _entries(item: Any, docs: Path, named: set[str]) -> Nav:
    if isinstance(item, dict):
        ((title, value),) = item.items()
        return [{title: complete(value, docs) if isinstance(value, list) else value}]
    if not item.endswith("/*"):
        return [item]
    found = (path.relative_to(docs).as_posix() for path in docs.glob(f"{item}.md"))
    return sorted(set(found) - named)
