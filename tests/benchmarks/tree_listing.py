"""Lists a tree of very many small files, and does nothing with the listing."""

import sys
from pathlib import Path

from transforms.sources.listing import write_listing
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import list_tree


def main(path: str) -> None:
    """Write the listing of a tree beside it."""
    tree = Tree(root=path, base_url="https://docs.example.com/")
    write_listing(list_tree(tree), Path(path).with_suffix(".listing"))


if __name__ == "__main__":
    main(sys.argv[1])
