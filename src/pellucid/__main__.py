"""`python -m pellucid`: the command line."""

import sys

from pellucid.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
