"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import secrets
import tempfile
from pathlib import Path

from ci.informer.errors import InformerError

#: What file systems say that have no locks: NFS without its daemon, some of FUSE's.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def has_locks(folder: Path) -> bool:
    """Tell whether the files of a folder can be locked; also where nothing can be written, which is reported elsewhere.

    Tried on a file of its own: a process that closes a file gives up all locks that it has on it.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    return True


def write(path: Path, content: bytes | str) -> None:
    """Write a file, whole or not at all, whoever writes it meanwhile. What is no regular file (a pipe, /dev/stdout) is
    written to, and stays what it is. Raises InformerError."""
    try:
        _write(path, content.encode(errors="replace") if isinstance(content, str) else content)
    except BrokenPipeError:
        raise
    except OSError as error:
        # The user's own name for it, and not the temporary one; a full disk names neither.
        raise InformerError(f"{path}: {error.strerror or error}") from error


def _write(path: Path, text: bytes) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(text)
        return
    # A name that nobody knows beforehand, and nobody's file or link: the folder may be anybody's.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with temporary.open("xb") as file:
        try:
            file.write(text)
            file.flush()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
