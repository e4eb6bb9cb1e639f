"""A child process that does nothing, for tests."""

import json
import sys
import time

from feedferry.transforms.processes import end_at_eof

if __name__ == "__main__":
    end_at_eof()
    sys.stdout.write(json.loads('"ready\\n"'))
    sys.stdout.flush()
    time.sleep(600)
