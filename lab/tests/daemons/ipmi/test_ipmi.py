"""IPMI as administrators' own tools speak it."""

import os
import pty
import random
import select
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from pyghmi.ipmi.command import Command

from drivers.container import Request
from installer.common.ports import free_port
from lab.daemons.ipmi import bmc as ipmi
from lab.testing.bmcs import PASSWORD, USER, Memory, owned
from lab.waiting import wait_until

SECONDS = 30
ARGV = ("ipmitool", "-I", "lanplus", "-C", "3", "-N", "1", "-R", "9", "-H", "127.0.0.1")
#: Get Channel Authentication Capabilities, which needs no session.
CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")
pytestmark = pytest.mark.skipif(shutil.which("ipmitool") is None, reason="there is no ipmitool")


@pytest.fixture
def machine():
    return Memory()


@pytest.fixture
def place(tmp_path, machine):
    """Provide a machine's BMC in the daemon that labs run."""
    place = ipmi.Place(
        machine.name, free_port(socket.SOCK_DGRAM), str(tmp_path / "console.log"), str(tmp_path / "console.sock")
    )
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
        argv = [sys.executable, "-m", "lab.daemons.ipmi.bmc", str(tmp_path / "ipmi.json")]
        with subprocess.Popen(argv) as daemon:
            try:
                # In /proc/net/udp, ports are hexadecimal.
                port = f":{place.port:04X}"
                wait_until(lambda: port in Path("/proc/net/udp").read_text(), SECONDS, "the BMC's port", poll=0.02)
                yield place
                assert daemon.poll() is None
            finally:
                daemon.kill()


def rmcp_plus(kind: int, payload: bytes) -> bytes:
    """Return a packet outside of a session's encryption (IPMI 2.0, table 13-8)."""
    return bytes([6, 0, 0xFF, 7, 6, kind, *bytes(8)]) + len(payload).to_bytes(2, "little") + payload


def opening(hmac: int = 1) -> bytes:
    """Return a request to open a session, with one cipher suite."""
    algorithms = (bytes([number, 0, 0, 8, algorithm, 0, 0, 0]) for number, algorithm in enumerate((hmac, 1, 1)))
    return rmcp_plus(0x10, bytes(4) + b"mine" + b"".join(algorithms))


def hello(name: bytes) -> bytes:
    """RAKP message 1."""
    return rmcp_plus(0x12, bytes(4) + b"BMCs" + bytes(16) + bytes([4, 0, 0, len(name)]) + name)


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
    ipmitool(place, "power", "soft")
    assert ipmitool(place, "power", "status") == "Chassis Power is off"
    ipmitool(place, "power", "off")


@pytest.mark.parametrize("order", ["cycle", "reset"])
def test_what_is_off_is_neither_cycled_nor_reset(place, machine, order):
    assert "not supported in present state" in tool(place, "power", order).stderr
    assert machine.booted == []


def test_boot_flags_read_back_as_they_were_set_until_they_have_had_their_effect(place):
    def flags():
        return next(line for line in ipmitool(place, "chassis", "bootparam", "get", "5").splitlines() if "data" in line)

    ipmitool(place, "chassis", "bootdev", "pxe", "options=persistent,efiboot")
    ipmitool(place, "power", "on")
    assert flags().endswith(" e004000000")
    assert "Invalid data field" in tool(place, "chassis", "bootdev", "bios").stderr
    assert flags().endswith(" e004000000")
    ipmitool(place, "chassis", "bootdev", "cdrom")
    assert flags().endswith(" 8014000000")
    ipmitool(place, "power", "cycle")
    assert flags().endswith(" 0000000000")


def test_the_guid_is_the_machines(place, machine):
    assert machine.uuid in ipmitool(place, "mc", "guid")


@contextmanager
def doubling(place):
    """Provide a way to the BMC on which each packet of a client's arrives twice."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as front,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
    ):
        front.bind(("127.0.0.1", 0))
        back.connect(("127.0.0.1", place.port))
        over = threading.Event()

        def relay() -> None:
            client = None
            while not over.is_set():
                for ready in select.select([front, back], [], [], 0.05)[0]:
                    if ready is front:
                        packet, client = front.recvfrom(4096)
                        back.send(packet)
                        back.send(packet)
                    else:
                        front.sendto(back.recv(4096), client)

        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        yield msgspec.structs.replace(place, port=front.getsockname()[1])
        over.set()
        thread.join()


def test_what_is_sent_again_is_done_once(place, machine):
    """As ipmitool does after a second when an answer takes longer, in the handshake too; it goes on with the first
    answer."""
    with doubling(place) as twice:
        ipmitool(twice, "power", "on")
        ipmitool(twice, "power", "cycle")
    assert machine.booted == ["nothing", "nothing"]


def test_pyghmis_own_client_is_served(place, machine):
    """It proposes a cipher suite that the BMC does not have, and then cipher suite 3."""
    client = Command(bmc="127.0.0.1", userid=USER, password=PASSWORD, port=place.port)
    assert client.set_bootdev("optical") == {"bootdev": "optical"}
    assert client.get_bootdev()["bootdev"] == "optical"
    assert client.set_power("on") == {"pendingpowerstate": "on"}
    assert machine.machine(machine.name).look().on


def test_a_wrong_password_gets_nothing(place, machine):
    refused = tool(place, "power", "on", password="wrong")
    assert refused.returncode != 0
    assert machine.booted == []


def test_malformed_packets_end_nothing(place):
    """Whole ones, cut ones and changed ones, with and without a session; there are answers beside and after them."""
    whole = [
        opening(), opening(3), hello(b"\xff\xfe"), hello(USER.encode()), rmcp_plus(0x14, bytes(28)), CAPABILITIES,
        *(rmcp_plus(kind | flags, bytes(40)) for kind in (0, 1, 0x11, 0x13, 0x15, 0x3F) for flags in (0, 0x40, 0xC0)),
    ]  # fmt: skip
    chance = random.Random(44)
    beside = Command(bmc="127.0.0.1", userid=USER, password=PASSWORD, port=place.port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect(("127.0.0.1", place.port))
        stranger.settimeout(SECONDS)
        for packet in (part for part in whole for _ in range(12)):
            changed = bytearray(packet)
            changed[chance.randrange(len(packet))] = chance.randrange(256)
            del changed[chance.choice([len(packet), chance.randrange(len(packet))]) :]
            for sent in (opening(), packet, changed, chance.randbytes(chance.randrange(80)), CAPABILITIES):
                stranger.send(sent)
            while stranger.recv(1000)[4] != 0:
                pass
    assert beside.get_power() == {"powerstate": "off"}
    assert ipmitool(place, "power", "status") == "Chassis Power is off"


def test_sessions_that_strangers_open_have_an_end(machine):
    boots = ipmi.Boots(set=lambda *_: None, holds=lambda *_: True)
    place = ipmi.Place(machine.name, 0, "", "")
    bmc = ipmi.Bmc({USER: PASSWORD}, place, "127.0.0.1", machine.machine(machine.name), boots=boots)
    with closing(bmc.serversocket):
        bmc.receive(opening(), ("127.0.0.8", 40000))
        [client] = bmc.sessions.values()
        client.ipmicallback = client.handle_client_request
        for port in range(2000):
            bmc.receive(opening(), ("127.0.0.9", 40000 + port))
        assert len(bmc.sessions) == 256
        assert client in bmc.sessions.values()
        last = list(bmc.sessions.values())[-1]
        assert last.sockaddr == ("127.0.0.9", 41999)
        # No handshake begins anew in a session that is open, or for another peer.
        for session in (client, last):
            bmc.receive(hello(USER.encode()).replace(b"BMCs", session.id), client.sockaddr)
            assert not hasattr(session, "username")


def test_a_session_is_its_clients_alone(machine, monkeypatch):
    boots = ipmi.Boots(set=lambda *_: None, holds=lambda *_: True)
    place = ipmi.Place(machine.name, 0, "", "")
    bmc = ipmi.Bmc({USER: PASSWORD}, place, "127.0.0.1", machine.machine(machine.name), boots=boots)
    taken: list[str] = []
    with closing(bmc.serversocket):
        bmc.receive(opening(), ("127.0.0.5", 40000))
        [session] = bmc.sessions.values()
        monkeypatch.setattr(session, "receive", lambda _: taken.append("session"))
        monkeypatch.setattr(bmc, "sessionless_data", lambda *_: taken.append("none"))
        for peer in ("127.0.0.4", "127.0.0.5", "127.0.0.6"):
            bmc.receive(rmcp_plus(0x12, bytes(4) + session.id + bytes(24)), (peer, 40000))
    assert taken == ["none", "session", "none"]


def test_a_client_sees_the_serial_line_and_types_on_it(place, tmp_path):
    log = tmp_path / "console.log"
    log.write_text("what was said before\n" * 10_000)
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
        wait_until(lambda: shows(b"SOL Session operational"), SECONDS, "the line", poll=0.05)
        with log.open("a") as more:
            more.write("hello from the machine\n")
        wait_until(lambda: shows(b"hello from the machine"), SECONDS, "what the machine says", poll=0.05)
        assert b"before" not in shown
        # A full log is cut, and grows on from there.
        log.write_text("")

        def goes_on() -> bool:
            with log.open("a") as more:
                more.write("+")
            return shows(b"++")

        wait_until(goes_on, SECONDS, "what is behind the cut", poll=0.2)
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
