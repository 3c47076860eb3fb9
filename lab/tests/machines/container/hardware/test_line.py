"""A machine's serial line, on a real pseudo terminal."""

import contextlib
import os
import selectors
import socket
import time
import tty
from pathlib import Path

import pytest

from lab.machines.container.hardware.line import SerialLine

SENT = 400_000


@pytest.fixture
def line(tmp_path):
    """Provide a line, its selector, its terminal as a machine has it open, and somebody at its socket."""
    with selectors.DefaultSelector() as selector, socket.socket(socket.AF_UNIX) as client:
        serial = SerialLine(tmp_path / "log", tmp_path / "sock", selector)
        terminal = os.open(serial.terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(terminal)
        client.connect(str(tmp_path / "sock"))
        client.setblocking(False)
        yield serial, selector, terminal, client
        os.close(terminal)
        serial.close()


def turn(selector, seconds=0.0):
    """Handle what is to be done; returns whether there was anything."""
    ready = selector.select(seconds)
    for key, _ in ready:
        key.data()
    return bool(ready)


def fill(selector, client, data):
    """Type until nothing more is taken; how much was."""
    sent = 0
    while sent < len(data):
        try:
            sent += client.send(data[sent : sent + 1024])
        except BlockingIOError:
            if not turn(selector):
                break
        turn(selector)
    return sent


def test_who_types_what_nobody_reads_waits_and_the_monitor_does_not(line):
    _, selector, terminal, client = line
    data = bytes(range(256)) * (SENT // 256)
    sent = fill(selector, client, data)
    assert 1024 < sent < len(data)
    # Nothing to do now: neither in a loop in there, nor as often as the selector is asked.
    began = time.process_time()
    assert not turn(selector, 0.3)
    assert time.process_time() - began < 0.2
    # Somebody else may look on, and what the machine says goes on.
    os.write(terminal, b"hello")
    assert turn(selector, 5)
    assert client.recv(100) == b"hello"
    # As soon as it is read all of it comes, in its order.
    read = b""
    deadline = time.monotonic() + 60
    while len(read) < len(data) and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            read += os.read(terminal, 1 << 16)
        sent += fill(selector, client, data[sent:])
        turn(selector)
    assert read == data


def test_who_leaves_or_comes_while_the_terminal_is_full_breaks_nothing(line, tmp_path):
    serial, selector, terminal, client = line
    fill(selector, client, b"x" * SENT)
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(tmp_path / "sock"))
        other.send(b"y")
        client.close()
        while turn(selector):
            pass
        for _ in range(3):
            serial.say(b"again")
        assert other.recv(100).startswith(b"again")
        read = b""
        deadline = time.monotonic() + 60
        while not read.endswith(b"y") and time.monotonic() < deadline:
            try:
                read = os.read(terminal, 1 << 16)
            except BlockingIOError:
                turn(selector, 0.01)
        assert read.endswith(b"y")


def test_a_client_that_hangs_up_while_the_machine_writes_ends_nothing(line):
    """Both are ready at once: the output finds the client gone, and then its own end is to be read."""
    serial, selector, terminal, client = line
    turn(selector, 1)  # it is accepted
    client.close()
    ready = selector.select(1)
    serial.say(b"x")
    for key, _ in ready:
        key.data()
    os.write(terminal, b"still there")
    turn(selector, 1)
    assert Path(serial.log.name).read_bytes() == b"xstill there"
