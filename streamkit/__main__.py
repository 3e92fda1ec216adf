"""`python -m streamkit` is the command `streamkit`."""

import sys

from .cli import main

sys.exit(main())
