"""`python -m search.command_line` is the command `tensorir`."""

import sys

from search.command_line.main import main

sys.exit(main())
