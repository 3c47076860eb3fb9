"""IPMI as administrators' own tools speak it."""

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import threading

import msgspec
import pytest

from drivers.container import Request
from lab.daemons import ipmi
from lab.testing.bmcs import PASSWORD, USER, Memory, owned
from lab.waiting import wait_until

SECONDS = 30
ARGV = ("ipmitool", "-I", "lanplus", "-C", "3", "-N", "2", "-R", "3", "-H", "127.0.0.1")
pytestmark = pytest.mark.skipif(shutil.which("ipmitool") is None, reason="there is no ipmitool")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def machine():
    return Memory()


@pytest.fixture
def place(tmp_path, machine):
    """A machine's BMC in the daemon that labs run."""
    place = ipmi.Place(machine.name, free_port(), str(tmp_path / "console.log"), str(tmp_path / "console.sock"))
    config = ipmi.Config(
        address="127.0.0.1",
        user=USER,
        password=PASSWORD,
        owner=str(tmp_path / "machined.sock"),
        contained=True,
        machines=(place,),
    )
    (tmp_path / "ipmi.json").write_bytes(msgspec.json.encode(config))
    with owned(machine, tmp_path / "machined.sock"):
        argv = [sys.executable, "-m", "lab.daemons.ipmi", str(tmp_path / "ipmi.json")]
        with subprocess.Popen(argv) as daemon:
            try:
                wait_until(lambda: tool(place, "mc", "info").returncode == 0, SECONDS, "the BMC to answer IPMI")
                yield place
            finally:
                daemon.kill()


def tool(place, *words: str, password: str = PASSWORD):
    argv = [*ARGV, "-p", str(place.port), "-U", USER, "-P", password, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)


def ipmitool(place, *words: str):
    completed = tool(place, *words)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def test_ipmitool_powers_a_machine_and_has_it_boot_from_its_cd(place, machine):
    assert ipmitool(place, "power", "status") == "Chassis Power is off"
    machine.ask(Request(op="media", machine=machine.name, value="/some.iso"))
    machine.installed = True
    ipmitool(place, "chassis", "bootdev", "cdrom")
    ipmitool(place, "power", "on")
    assert ipmitool(place, "power", "status") == "Chassis Power is on"
    ipmitool(place, "power", "cycle")
    ipmitool(place, "chassis", "bootdev", "cdrom", "options=persistent")
    for _ in range(2):
        ipmitool(place, "power", "reset")
    assert machine.booted == ["cdrom", "hd", "cdrom", "cdrom"]
    ipmitool(place, "power", "off")
    assert ipmitool(place, "power", "status") == "Chassis Power is off"


def test_a_wrong_password_gets_nothing(place, machine):
    refused = tool(place, "power", "on", password="wrong")
    assert refused.returncode != 0
    assert machine.booted == []


def test_a_client_sees_the_serial_line_and_types_on_it(place, tmp_path):
    log = tmp_path / "console.log"
    log.write_text("what was said before\n")
    typed = []
    line = socket.socket(socket.AF_UNIX)
    line.bind(place.console_socket)
    line.listen()

    def listen() -> None:
        while True:
            try:
                accepted, _ = line.accept()
            except OSError:
                return
            with accepted:
                typed.append(accepted.recv(100))

    threading.Thread(target=listen, daemon=True).start()
    # ipmitool wants a terminal.
    here, there = pty.openpty()
    argv = [*ARGV, "-p", str(place.port), "-U", USER, "-P", PASSWORD, "sol", "activate"]
    client = subprocess.Popen(argv, stdin=there, stdout=there, stderr=there)
    shown = bytearray()

    def shows(wanted: bytes) -> bool:
        while select.select([here], [], [], 0)[0]:
            shown.extend(os.read(here, 4096))
        return wanted in shown

    try:
        wait_until(lambda: shows(b"SOL Session operational"), SECONDS, "the line")
        with log.open("a") as more:
            more.write("hello from the machine\n")
        wait_until(lambda: shows(b"hello from the machine"), SECONDS, "what the machine says")
        assert b"before" not in shown
        os.write(here, b"root\n")
        wait_until(lambda: b"".join(typed).replace(b"\r", b"\n") == b"root\n", SECONDS, "what was typed")
        os.write(here, b"\n~.")
        client.wait(SECONDS)
        # Another one can come.
        assert tool(place, "sol", "deactivate").returncode in (0, 1)
    finally:
        client.kill()
        client.wait()
        os.close(here)
        os.close(there)
        line.close()
