"""A neighbour's answers to a firmware that boots from the network: it is an answer, or a reason why it is none."""

import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from lab.machines.container.firmware.netboot import nic
from lab.machines.container.firmware.netboot.dhcp import NoLease, decode, leased

#: One of a file with three bytes.
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


@contextmanager
def serving(*answers: bytes, pause: float = 0):
    """Provide a server that gives one connection each of these answers, a piece at a time."""

    def serve() -> None:
        for answer in answers:
            with server.accept()[0] as line:
                line.recv(4096)
                for at in range(0, len(answer), 1 if pause else len(answer) or 1):
                    try:
                        line.sendall(answer[at : at + 1] if pause else answer)
                    except OSError:
                        return
                    over.wait(pause)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/file"
        over.set()
        thread.join(5)


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE[:-1], b"nonsense\r\n\r\n", b"", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 404 \xff\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
        *(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nabc"
          for length in (b"9000", b"-1", b"-3", b"+3", b"3.0", b"0x3", b"1_0", b"\xb2", b"", b"9" * 5000,
                         b"3\r\nContent-Length: 4")),
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\nContent-Range: bytes 0-2/900\r\n\r\nabc",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        *(b"HTTP/1.1 302 Found\r\nLocation: " + to + b"\r\n\r\n"
          for to in (b"ftp://127.0.0.1/x", b"https://127.0.0.1/x", b"file:///etc/shadow", b"http://[", b"http://a b/",
                     b"http://127.0.0.1:" + b"9" * 20 + b"/")),
    ],
)  # fmt: skip
def test_a_download_that_fails_is_not_taken(answer):
    with serving(answer) as url, pytest.raises(nic.NotFetched):
        nic.fetch(url, 1000)


@pytest.mark.parametrize("url", ["http://", "http://[", "http://127.0.0.1:x/", "http://127.0.0.1/a b", "http://é\0/"])
def test_what_is_no_url_is_not_fetched(url):
    with pytest.raises(nic.NotFetched):
        nic.fetch(url, 1000)


@pytest.mark.parametrize("answer", [WHOLE, WHOLE + b"and more", b"HTTP/1.1 200 OK\r\n\r\nabc"])
def test_a_whole_download_is(answer):
    with serving(answer) as url, os.fdopen(nic.fetch(url, 1000), "rb") as file:
        assert file.read() == b"abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1000, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 1000,
    ],
)  # fmt: skip
def test_a_download_that_never_ends_has_a_time(answer):
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        body = b"HTTP/1.1 200 OK\r\n\r\n" if answer.startswith(WHOLE) else b""
        with serving(body + answer, pause=0.01) as url:
            start = time.monotonic()
            with pytest.raises((nic.NotFetched, TimeoutError)):
                os.close(nic.within(namespace, lambda: nic.fetch(url, 5000, 0.2), 0.5))
            assert time.monotonic() - start < 5
    finally:
        os.close(namespace)


def dhcp(address: bytes, options: bytes) -> bytes:
    """Return a server's message (RFC 2131 §2)."""
    header = b"\2\1\6\0" + bytes(12) + address + bytes(8 + 16 + 64 + 128)
    return header + b"\x63\x82\x53\x63" + options + b"\xff"


@pytest.mark.parametrize(
    ("address", "options"),
    [
        (bytes([10, 0, 0, 2]), b"\1\4\xff\0\xff\0"), (bytes([10, 0, 0, 2]), b"\1\4\0\xff\xff\1"),
        (bytes([10, 0, 0, 2]), b"\1\3\xff\xff\xff"), (bytes([10, 0, 0, 2]), b"\1\5\xff\xff\xff\0\0"),
        (bytes([10, 0, 0, 2]), b"\1\4\0\0\0\0"), (bytes([10, 0, 0, 2]), b""), (bytes(4), b"\1\4\xff\xff\xff\0"),
    ],
)  # fmt: skip
def test_an_offer_of_no_address_is_none(address, options):
    answer = decode(dhcp(address, options))
    assert answer is not None
    with pytest.raises(NoLease, match="No valid offer"):
        leased(answer)


def test_an_offer_that_is_cut_is_an_offer_or_none():
    network = b"\1\4\xff\xff\xff\0"
    more = b"\3\4\x0a\0\0\1\x34\1\3\x36\4\x0a\0\0\1\x43\3\xff\xfe\0\x3c\1\xe9"
    plain = dhcp(bytes([10, 0, 0, 2]), network + more)
    answers = [decode(plain[:length]) for length in range(len(plain))]
    assert {leased(answer).address for answer in answers if answer and answer.options} == {"10.0.0.2/24"}
