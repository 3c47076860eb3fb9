"""Logs of daemons that machines make write, kept to a size."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.supervisor import logs

MOST = 1 << 20


@pytest.fixture(params=["where beginnings can be cut off", "where they cannot"])
def folder(request, tmp_path):
    if request.param == "where beginnings can be cut off":
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def test_a_log_that_a_daemon_goes_on_writing_stays_small_and_has_what_came_last(folder):
    code = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for round in range(40):
    os.write(log, b''.join(b'%d-%d\\n' % (round, line) for line in range(20000)))
    print(round, flush=True)
    sys.stdin.readline()
"""
    log = folder / "dnsmasq.log"
    argv = [sys.executable, "-c", code, log]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        cut_off = 0
        for line in daemon.stdout:
            before = log.stat().st_size
            if line != "39\n":
                logs.trim(folder, MOST)
                assert log.stat().st_size <= MOST
                assert log.stat().st_size == before or before > MOST
                cut_off += before - log.stat().st_size
            daemon.stdin.write("\n")
            daemon.stdin.flush()
        assert cut_off > 4 * MOST
    # What comes after a look is whole.
    assert log.read_text().endswith("".join(f"39-{line}\n" for line in range(20000)))


def test_what_is_no_log_and_small_ones_stay(folder):
    (folder / "small.log").write_bytes(b"x" * MOST)
    (folder / "below").mkdir()
    elsewhere = folder / "below/large"
    elsewhere.write_bytes(b"x" * (3 * MOST))
    (folder / "link.log").symlink_to(elsewhere)
    (folder / "gone.log").symlink_to("nowhere")
    logs.trim(folder, MOST)
    assert (folder / "small.log").stat().st_size == MOST
    assert os.stat(elsewhere).st_size == 3 * MOST


def test_qemus_logs_are_among_them_where_there_are_vms(tmp_path):
    state = tmp_path / "lab"
    written = [state / "log/dnsmasq.log"]
    for most, folder in ((MOST, "log"), (MOST // 2, "libvirt/log/qemu")):
        (state / folder).mkdir(parents=True)
        written.append(state / folder / "master-0.log")
        for log in written:
            log.write_bytes(b"x" * (2 * MOST))
        logs.trim_all(state, most)
        assert {log.stat().st_size <= most for log in written} == {True}
