"""``agent-redact [--known FILE]... < IN > OUT``: standard input without its secrets; or files, in their place.

``--known``: a file with secrets of one's own (a pull secret, a config, an environment), each to be found by its value;
passed over when it cannot be read. ``--tree``: a directory whose files are rewritten; links in it are left alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .redactor import Redactor


def rewrite(redactor: Redactor, path: Path) -> None:
    """Take secrets out of a file in one step; its owner, mode and time stay. Raises OSError."""
    status = path.stat()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".redact.")
    try:
        with os.fdopen(handle, "wb") as clean, path.open("rb") as source:
            redactor.copy(source, clean)
        os.chmod(name, status.st_mode & 0o7777)
        os.chown(name, status.st_uid, status.st_gid)
        os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(argv: list[str] | None = None) -> int:
    """Copy standard input to standard output, or with --tree rewrite files; 1 when nobody reads the output any more.

    Raises OSError for a file of --tree that cannot be rewritten.
    """
    parser = argparse.ArgumentParser(prog="agent-redact", description="Takes secrets out of standard input")
    parser.add_argument("--known", action="append", default=[], type=Path, metavar="FILE", help="holds own secrets")
    parser.add_argument("--tree", action="append", default=[], type=Path, metavar="DIR", help="rewrite its files")
    args = parser.parse_args(argv)
    redactor = Redactor()
    for path in args.known:
        try:
            redactor.learn(path.read_text(encoding="utf-8", errors="surrogateescape"))
        except OSError:
            continue
    for tree in args.tree:
        for folder, _, names in os.walk(tree):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    rewrite(redactor, path)
    if args.tree:
        return 0
    try:
        redactor.copy(sys.stdin.buffer, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
