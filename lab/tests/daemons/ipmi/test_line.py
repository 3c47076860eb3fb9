"""The serial line in a session, packet by packet (IPMI 2.0, chapter 15)."""

from types import SimpleNamespace

import pytest

from lab.daemons.ipmi import session
from lab.daemons.ipmi.session import Line

RECEIVED, REFUSED = 0, 0b0100_0000


class Client:
    """Has the line of a machine whose log is at `log`; `packets` came, and `typed` is what the machine got."""

    def __init__(self, log):
        self.log, self.packets, self.now = log, [], 1000.0
        self.typed: list[str] = []
        self.console = SimpleNamespace(log=log, send=self.typed.append)

    def send_payload(self, payload, *, payload_type, retry):
        assert (payload_type, retry) == (1, False)
        self.packets.append(payload)

    def says(self, text):
        with self.log.open("a") as log:
            log.write(text)

    def got(self):
        packets, self.packets = self.packets, []
        return packets


@pytest.fixture
def client(tmp_path, monkeypatch):
    client = Client(tmp_path / "log")
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: client.now))
    return client


def test_each_chunk_has_the_next_number_and_comes_until_it_is_acknowledged(client):
    line = Line(client, client.console)
    line.show()
    assert client.got() == []
    client.says("a" * 200 + "b")
    for _ in range(2):
        line.show()
        assert client.got() == [bytes([1, 0, 0, 0]) + b"a" * 200]
        client.now += 0.9
        line.show()
        # The receipt of another chunk is none of this.
        line.receive(bytearray([0, 2, 200, RECEIVED]))
        assert client.got() == []
        client.now += 0.1
    line.receive(bytearray([0, 1, 200, RECEIVED]))
    assert client.got() == [bytes([2, 0, 0, 0]) + b"b"]
    line.receive(bytearray([0, 2, 1, RECEIVED]))
    client.now += 1
    line.show()
    assert client.got() == []


def test_numbers_begin_again_after_fifteen(client):
    line = Line(client, client.console)
    for count in range(32):
        client.says(f"{count:2}")
        line.show()
        [packet] = client.got()
        assert packet == bytes([count % 15 + 1, 0, 0, 0]) + b"%2d" % count
        line.receive(bytearray([0, packet[0], 2, RECEIVED]))
        assert client.got() == []


def test_what_is_refused_comes_again_from_there(client):
    line = Line(client, client.console)
    client.says("abcdef")
    line.show()
    [packet] = client.got()
    line.receive(bytearray([0, packet[0], 4, REFUSED]))
    assert client.got() == [bytes([2, 0, 0, 0]) + b"ef"]


def test_what_is_typed_is_acknowledged_each_time_and_taken_once(client):
    line = Line(client, client.console)
    for number, text in ((1, b"ls"), (1, b"ls"), (0x12, b"\xff")):
        line.receive(bytearray([number, 0, 0, 0]) + text)
    assert client.got() == [bytes([0, 1, 2, 0]), bytes([0, 1, 2, 0]), bytes([0, 2, 1, 0])]
    assert client.typed == ["ls", "\ufffd"]
    line.receive(bytearray([0, 0, 0, 0]) + b"no packet")
    assert client.got() == []
    assert len(client.typed) == 2
