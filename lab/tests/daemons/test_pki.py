"""The lab's certificate authority, certificates and SSH key."""

import os
import ssl
import stat

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from lab.daemons.pki import Authority, make_ssh_key


def test_certificates_verify_and_keys_are_secret(tmp_path):
    authority = Authority.make("lab")
    authority.issue(["registry.lab", "127.0.0.1"], tmp_path / "c", tmp_path / "k")
    ssl.create_default_context(cadata=authority.pem.decode())
    leaf = x509.load_pem_x509_certificate((tmp_path / "c").read_bytes())
    leaf.verify_directly_issued_by(authority.certificate)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["registry.lab"]
    public = make_ssh_key(tmp_path / "id")
    load_ssh_private_key((tmp_path / "id").read_bytes(), None)
    assert public.startswith("ecdsa-sha2-nistp256 ")
    assert [stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("k", "id")] == [0o600, 0o600]
