"""Load a mapping file. Paths in it are relative to its folder."""

from pathlib import Path

from msgspec.structs import replace

from schemas.errors import ConfigError
from transforms.sources.database.html import load_template
from transforms.sources.database.mapping import ContentSource, RowMapping
from transforms.sources.yaml_structs import read_yaml


def load_mapping(path: Path) -> RowMapping:
    """Return the mapping in a YAML file; raise ConfigError, with all errors and no secret."""
    mapping = read_yaml(path, RowMapping)
    folder = path.absolute().parent
    try:
        content = _resolve_paths(mapping.content, folder)
    except ConfigError as exc:
        raise ConfigError(f"{path}: content: {exc}") from exc
    return replace(mapping, content=content, folder=str(folder))


def _resolve_paths(content: ContentSource, folder: Path) -> ContentSource:
    if content.template is not None:
        template = folder / content.template
        load_template(template)
        return replace(content, template=str(template))
    if content.path is None:
        return content
    files = folder / (content.folder or ".")
    if not files.is_dir():
        raise ConfigError(f"folder: {str(files)!r}; expected an existing folder")
    return replace(content, folder=str(files))
