"""The page about databases leaves no key of a mapping file out, and shows one that can be used."""

import re
from pathlib import Path

import pytest

from support.pages import read_page
from transforms.sources.database import mapping_file, mapping_keys
from transforms.sources.database.acl import INHERITANCES
from transforms.sources.database.mapping_file import load_mapping

PAGE = read_page("docs/formats/database.md")
ROWS = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
KEYS = sorted(
    {
        *mapping_file._PARSERS,
        *mapping_keys._CONTENT_PARSERS,
        *mapping_keys._COLUMNS_PARSERS,
        *mapping_keys._ACTION_PARSERS,
        *mapping_keys._ACL_PARSERS,
        *mapping_keys._INCREMENTAL_PARSERS,
    }
)
SHOWN = dict(re.findall(r'```yaml title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_mapping_is_in_a_row(key: str) -> None:
    assert f"`{key}`" in ROWS


@pytest.mark.parametrize("inheritance", INHERITANCES)
def test_a_kind_of_inheritance_is_in_a_row(inheritance: str) -> None:
    assert f"`{inheritance}`" in ROWS


@pytest.mark.parametrize("name", ["mapping.yaml", "people.yaml"])
def test_a_mapping_that_is_shown_can_be_used(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SHOWN[name], "utf-8")
    assert load_mapping(path).folder == str(tmp_path)
