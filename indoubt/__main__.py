"""``python -m indoubt``: the program of a checkout, as ``indoubt`` is of an installation."""

import sys

from indoubt.program.main import main

if __name__ == "__main__":
    sys.exit(main())
