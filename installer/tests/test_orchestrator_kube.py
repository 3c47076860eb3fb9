"""A bootstrap host's questions to the new cluster's API."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from installer.orchestrator.errors import StageError
from installer.orchestrator.kube import KubeApi


def _pair() -> tuple[bytes, bytes]:
    """A certificate for 127.0.0.1 that is its own CA, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), dt.datetime.now(dt.UTC)
    alt = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(hours=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    cert = builder.add_extension(alt, critical=True).sign(key, hashes.SHA256())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return cert.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form)


def test_questions_share_a_connection_and_the_one_after_a_lost_one_is_answered(tmp_path: Path) -> None:
    opened: list[object] = []

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            opened.append(self)
            super().setup()

        def do_GET(self) -> None:
            if self.path == "/lost":
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    cert, key = _pair()
    (tmp_path / "crt").write_bytes(cert)
    (tmp_path / "key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ca, secret = base64.b64encode(cert).decode(), base64.b64encode(key).decode()
        place = f"https://127.0.0.1:{server.server_address[1]}"
        cluster = {"server": place, "certificate-authority-data": ca}
        user = {"client-certificate-data": ca, "client-key-data": secret}
        config = {"clusters": [{"cluster": cluster}], "users": [{"user": user}]}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        api = KubeApi(tmp_path / "kubeconfig")
        assert api.nodes() == []
        assert api.nodes() == []
        assert len(opened) == 1
        with pytest.raises(StageError):
            api.get("/lost")
        assert api.nodes() == []
        assert len(opened) == 2
        api._connection.close()
        server.shutdown()
