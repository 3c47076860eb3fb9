"""The `node0-lab` command, also as `python -m lab.commands`.

Nothing of it is imported before it can be interrupted: loading it all takes a second, and minutes on a host that is
overloaded.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Return the code of `lab.commands.cli.main`, or 130 after a Ctrl-C, at whatever moment that comes."""
    try:
        from installer.common.streams import with_streams
        from lab.commands import cli

        return with_streams("node0-lab", cli.main)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
