"""The daemon: `python -m lab.daemons.ipmi CONFIG`."""

import sys
from pathlib import Path

import msgspec

from lab.daemons.ipmi.bmc import Config, serve

if __name__ == "__main__":
    serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config))
