"""The command `feedferry` as `python -m feedferry`."""

import sys

from feedferry.pipelines.cli.main import main

if __name__ == "__main__":  # worker processes import it under another name
    sys.exit(main())
