"""Lines on what a lab changes in its copy of a cluster's files."""

import json

from hypothesis import given
from hypothesis import strategies as st

from lab.inputs.changes import differences

AUTHS = ({"quay.io": {"auth": "c2VjcmV0"}}, {"quay.io": {"auth": "c2VjcmV0"}, "lab:5000": {"auth": "Y2FuYXJ5"}})
BEFORE = {
    "pullSecret": json.dumps({"auths": AUTHS[0]}),
    "sshKey": "ssh-rsa A\n",
    "proxy": {"httpProxy": "http://user:canary@proxy:3128", "noProxy": ".x"},
    "controlPlane": {
        "fencing": {"credentials": [{"hostName": "m0", "address": "redfish://u:canary@a", "password": "canary"}]}
    },
    "metadata": {"name": "x"},
}
AFTER = {
    **BEFORE,
    "pullSecret": json.dumps({"auths": AUTHS[1]}),
    "sshKey": "ssh-rsa A\nssh-ed25519 B",
    "additionalTrustBundle": "-----BEGIN CERTIFICATE-----\nx\n",
    "imageDigestSources": [{"source": "release.x/y", "mirrors": ["lab:5000/y"]}],
    "proxy": {"httpProxy": "http://192.168.1.1:3128", "noProxy": ".x"},
    "controlPlane": {"fencing": {"credentials": [{"hostName": "m0", "address": "redfish://b", "password": "canary2"}]}},
}


def test_each_field_is_a_line_without_secrets():
    lines = list(differences("f", BEFORE, AFTER))
    assert lines == [
        "f: pullSecret: credentials for quay.io → credentials for quay.io, lab:5000",
        "f: sshKey: 1 key → 2 keys",
        "f: proxy.httpProxy: http://user:[redacted]@proxy:3128 → http://192.168.1.1:3128",
        "f: controlPlane.fencing.credentials: m0 at redfish://u:[redacted]@a → m0 at redfish://b",
        "f: additionalTrustBundle: none → 1 certificate",
        "f: imageDigestSources: none → release.x/y",
    ]
    secret = {"data": {".dockerconfigjson": "Y2FuYXJ5"}, "stringData": {}}
    assert list(differences("f", secret, {"stringData": {"x": "canary"}})) == [
        "f: data..dockerconfigjson: (not shown) → none",
        "f: stringData.x: none → (not shown)",
    ]


_DOCUMENTS = st.recursive(
    st.none() | st.text(max_size=5) | st.integers() | st.lists(st.text(max_size=3), max_size=2),
    lambda values: st.dictionaries(st.sampled_from("abc"), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), _DOCUMENTS), st.dictionaries(st.sampled_from("abc"), _DOCUMENTS))
def test_documents_that_differ_have_lines_and_equal_ones_have_none(before, after):
    assert not list(differences("f", before, before))
    lines = list(differences("f", before, after))
    assert bool(lines) == (_leaves(before) != _leaves(after))


def _leaves(value):
    """Return a document without fields that say nothing."""
    if not isinstance(value, dict):
        return value
    return {name: _leaves(entry) for name, entry in value.items() if _leaves(entry) not in (None, {}, [], "")}


def test_a_files_words_give_a_terminal_no_commands():
    assert list(differences("f", {"a": ["\x1b[2J"]}, {"a": []})) == ["f: a: \N{REPLACEMENT CHARACTER}[2J → none"]
