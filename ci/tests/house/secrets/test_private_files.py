"""Files that hold secrets are written in one way: no window in which others may read them, wherever it is done."""

import ast
import stat

import pytest

from ci.syntax import nodes, sources
from installer.common.secretfiles import write_private

WRITER = "installer/common/secretfiles.py"
#: Its files are many and large, and lie in a folder of its own.
UNPACKER = "installer/observe/archive.py"
#: These run without the rest of our code: a program of live hosts, and what starts a container machine's systemd.
ALONE = {"lab/release/os/coreos_installer.py", "lab/machines/container/firmware/early/stage.py"}
MODES = {str(mode) for mode in (0o600, 0o400)}  # as ast.unparse writes them


def private_writes(source):
    """Lines on which a file of mode 0600 is made: by `touch` or `os.open` for writing alone."""
    lines = []
    for node in nodes(source, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("open", "touch"):
            # Only literal arguments are recognised, not variables that hold them.
            words = {ast.unparse(argument) for argument in [*node.args, *(k.value for k in node.keywords)]}
            writes = node.func.attr == "open" and any("O_WRONLY" in word for word in words)
            if words & MODES and (writes or node.func.attr == "touch"):
                lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)", [1]),
        ("\npath.touch(mode=0o600)", [2]),
        ("os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)", []),
        ("path.touch()", []),
    ],
)
def test_a_private_write_is_found(source, lines):
    assert private_writes(source) == lines


def test_no_other_module_writes_private_files():
    ours = sources(tests=False)
    assert {path for path, source in ours.items() if private_writes(source)} == {WRITER, UNPACKER} | ALONE


@pytest.mark.parametrize("content", ["hidden", b"hidden"])
@pytest.mark.parametrize("before", [None, 0o644, 0o444])
def test_a_private_file_is_its_owners_whatever_was_there(tmp_path, content, before):
    path = tmp_path / "auth/key"
    if before is not None:
        path.parent.mkdir()
        path.write_text("something longer than that")
        path.chmod(before)
    write_private(path, content)
    assert path.read_text() == "hidden"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
