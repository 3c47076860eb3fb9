"""`python -m installer` is the node0 command."""

import sys

from installer.cli import main

sys.exit(main())
