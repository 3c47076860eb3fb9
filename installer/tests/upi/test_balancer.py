"""The load balancer as wait-for sees it: real connections, some of which nobody answers."""

import contextlib
import itertools
import socket
import ssl
import threading

import pytest

from installer.common.certificates import SERVER, authority, leaf
from installer.upi import balancer

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def listening(tmp_path, gone):
    """Listen as a load balancer whose n-th connection leads nowhere where `gone(n)`; yields the port."""
    signer = authority("x")
    pair = leaf(signer, "api", names=("api",), usages=SERVER)
    (tmp_path / "server.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    numbers = itertools.count()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    line, _ = server.accept()
                    with contextlib.suppress(OSError):
                        if gone(next(numbers)):
                            line.close()
                        else:
                            context.wrap_socket(line, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.parametrize(
    ("gone", "told"),
    [(lambda number: number % 2 == 0, True), (lambda number: False, False), (lambda number: True, False)],
    ids=["every other", "none", "all"],
)
def test_a_server_that_is_gone_is_told_once(tmp_path, caplog, gone, told):
    with listening(tmp_path, gone) as port:
        seen = balancer.Balancer(f"https://127.0.0.1:{port}", 5)
        for _ in range(balancer.LOOKS - 1):
            seen.look()
        assert caplog.messages == []
        for _ in range(3):
            seen.look()
    assert len(caplog.messages) == int(told)
    assert ("take the bootstrap machine out of its backends" in caplog.text) is told


def test_one_bad_look_is_no_news(tmp_path, caplog):
    with listening(tmp_path, lambda number: number == 3) as port:
        seen = balancer.Balancer(f"https://127.0.0.1:{port}", 5)
        for _ in range(2 * balancer.LOOKS):
            seen.look()
    assert caplog.messages == []
