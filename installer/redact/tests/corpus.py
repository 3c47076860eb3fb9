"""Secrets of every kind in every syntax that they appear in, and what looks like one and is none.

Every redactor of the house is held against these: what is in ``secrets`` of a vector must be gone, what is in ``stays``
must still be there. The values are made up, and nobody's.
"""

# ruff: noqa: E501  (a table)

from __future__ import annotations

import base64
import gzip
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from installer.redact.tests import places

BEFORE = "Nov 21 10:00:00 master-0 agent[1234]: step inventory of host 192.168.111.80 begins"
AFTER = "Nov 21 10:00:09 master-0 agent[1234]: step inventory ended with exit code 1: no such disk /dev/vda"

# By kind: what it is called where, and its value.
AUTH = base64.b64encode(b"svc-account:pu11-Secret/Word").decode()
PULL_SECRET = json.dumps({"auths": {"registry.example:5000": {"auth": AUTH, "email": "a@registry.example"}}})
TOKEN = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJhdXRoX3NjaGVtZSI6ImFnZW50QXV0aCJ9.MEUCIQDx9Zk-kq_R2mJcVbLrA0tQ"
CRYPTED = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
UNIX_CRYPTED = "$6$rounds=4096$Zs1mQpaT$kq0JrqkE3vHn9xwLwF8mR2bTYc4uVhX6eA1sD5gKz7iOpN0MlQyCtWjUrBfEoPxS"
KEY_LINES = (
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgT3nmYJ6yUYkQxE2t",
    "kmZ0v8bW5rLhQd1uXoSAzPfcV7GhRANCAATq4n1yMCKYpLwJeoDi6FsTBgRX9uHa",
    "WxZk3mQvNd0Er5OyLIc2SPAj7tVfUo8bGi1CqYnKMhTxe6JzDwRa",
)
SSH_LINES = (
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACBvT7uW4xR9yKq0JdLm2FhEwPpZ8nVb3sXc6GtA1oIeUQAAAJh5Yk0reWJNK",
    "wAAAAtzc2gtZWQyNTUxOQ==",
)


def pem(kind: str, lines: tuple[str, ...]) -> str:
    """A private key's text."""
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


KEYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    kind: (pem(kind, lines), lines)
    for kind, lines in {
        "PRIVATE KEY": KEY_LINES,
        "EC PRIVATE KEY": KEY_LINES,
        "RSA PRIVATE KEY": KEY_LINES,
        "ENCRYPTED PRIVATE KEY": KEY_LINES,
        "OPENSSH PRIVATE KEY": SSH_LINES,
    }.items()
}
# Under a name of its own: field, and value.
NAMED: Mapping[str, tuple[str, str]] = {
    "BMC password": ("password", "c4lvin!Rack7"),
    "kubeadmin password": ("kubeadminPassword", "GhTy7-Wq2Zx-9LmNp-4RsVb"),
    "vSphere password": ("password", "VMware1!-nested"),
    "Nutanix password": ("password", "nutanix/4u+x"),
    "token": ("token", TOKEN),
    "opaque token": ("PULL_SECRET_TOKEN", "q8Zr2LmW0xTt5YvB"),
    "OAuth token": ("access_token", "sha256~Jk3lqf0aVw9uTzXyS8mNcRbE2iHgP5oD7tLkUvA1xQM"),
    "registry auth": ("auth", AUTH),
    "kubeconfig key": ("client-key-data", base64.b64encode(KEYS["EC PRIVATE KEY"][0].encode()).decode()),
    "etcd encryption key": ("secret", "rS3x0hQ1nB8tYp6uKzWm4vJdL7aEoCfGi2TqNbXcVl0="),
    "LUKS passphrase": ("passphrase", "open-Sesame-42"),
    "password hash": ("passwordHash", UNIX_CRYPTED),
    "Wi-Fi key": ("psk", "corp-Wlan-0815"),
    "cloud key": ("aws_secret_access_key", "wJalrXUtnFEMIK7MDENGbPxRfiCYzzTESTKEYq0a"),
}


@dataclass(frozen=True)
class Vector:
    """One text with secrets in it: which, and what has to stay."""

    name: str
    text: str
    secrets: tuple[str, ...]
    stays: tuple[str, ...] = ()


def quoted(text: str) -> str:
    """As JSON and Go's %q write it."""
    return json.dumps(text)


def _document(field: str, value: str) -> dict[str, object]:
    return {
        "hosts": [{"name": "master-0", "bmc": {"username": "root", field: value, "address": "redfish://192.0.2.1"}}]
    }


def _yaml(value: Callable[[str, str], str]) -> Callable[[str, str], str]:
    def made(field: str, text: str) -> str:
        return f"hosts:\n- name: master-0\n  bmc:\n    username: root\n{value(field, text)}\n    address: redfish://192.0.2.1\n"

    return made


def _environment_name(field: str) -> str:
    return field.upper().replace("-", "_")


_HOST = ("master-0", "root", "192.0.2.1")
SYNTAXES: Mapping[str, tuple[Callable[[str, str], str], tuple[str, ...]]] = {
    "JSON": (lambda f, v: json.dumps(_document(f, v)), _HOST),
    "JSON indented": (lambda f, v: json.dumps(_document(f, v), indent=2), _HOST),
    "JSON without blanks": (lambda f, v: json.dumps(_document(f, v), separators=(",", ":")), _HOST),
    "JSON escaped": (lambda f, v: json.dumps({"overrides": json.dumps(_document(f, v)), "id": 7}), (*_HOST, '"id": 7')),
    "JSON escaped twice": (
        lambda f, v: json.dumps({"a": json.dumps({"b": json.dumps(_document(f, v))}), "id": 7}),
        (*_HOST, '"id": 7'),
    ),
    "JSON cut off": (lambda f, v: f'request {{"username":"root","{f}":"{v}', ("root",)),
    "YAML plain": (_yaml(lambda f, v: f"    {f}: {v}"), _HOST),
    "YAML in double quotes": (_yaml(lambda f, v: f"    {f}: {quoted(v)}"), _HOST),
    "YAML in single quotes": (_yaml(lambda f, v: f"    {f}: '{v}'"), _HOST),
    "YAML with a quoted name": (_yaml(lambda f, v: f'    "{f}": {v}'), _HOST),
    "YAML block": (_yaml(lambda f, v: f"    {f}: |\n      {v}"), _HOST),
    "YAML folded block": (_yaml(lambda f, v: f"    {f}: >-\n      {v}"), _HOST),
    "YAML on the next line": (_yaml(lambda f, v: f"    {f}:\n      {v}"), _HOST),
    "YAML list item": (lambda f, v: f"credentials:\n- {f}: {v}\n  username: root\n", ("root",)),
    "YAML flow": (lambda f, v: f"bmc: {{username: root, {f}: {v}, address: 192.0.2.1}}", ("root", "192.0.2.1")),
    "YAML in JSON": (
        lambda f, v: json.dumps({"data": {"install-config": f"a: b\nbmc:\n  {f}: {v}\n  user: root\n"}, "id": 7}),
        ("user: root", '"id": 7'),
    ),
    "YAML block in JSON": (
        lambda f, v: json.dumps({"data": {"install-config": f"a: b\n{f}: |\n  {v}\nuser: root\n"}, "id": 7}),
        ("user: root", '"id": 7'),
    ),
    "INI": (lambda f, v: f"[section]\nuser = root\n{f} = {v}\nport = 22\n", ("user = root", "port = 22")),
    "environment": (lambda f, v: f"A=1\n{_environment_name(f)}={v}\nB=2\n", ("A=1", "B=2")),
    "shell": (lambda f, v: f"export {_environment_name(f)}='{v}'; run --now", ("run --now",)),
    "podman inspect": (
        lambda f, v: json.dumps({"Config": {"Env": ["PATH=/bin", f"{_environment_name(f)}={v}", "TERM=xterm"]}}),
        ("PATH=/bin", "TERM=xterm"),
    ),
    "environment of a pod": (
        lambda f, v: json.dumps({"env": [{"name": _environment_name(f), "value": v}, {"name": "A", "value": "kept"}]}),
        ("kept",),
    ),
    "environment of a pod in YAML": (
        lambda f, v: f"env:\n- name: {_environment_name(f)}\n  value: {v}\n- name: A\n  value: kept\n",
        ("kept",),
    ),
    "option": (
        lambda f, v: f"/usr/bin/agent --{f} {v} --url https://192.0.2.1:8090",
        ("--url https://192.0.2.1:8090",),
    ),
    "option with =": (lambda f, v: f"/usr/bin/agent --{f}={v} --verbose", ("--verbose",)),
    "arguments in JSON": (lambda f, v: json.dumps({"Cmd": ["agent", f"--{f}", v, "--verbose"]}), ("--verbose",)),
    "arguments in Python": (lambda f, v: repr(["agent", f"--{f}", v, "--verbose"]), ("--verbose",)),
    "journal": (lambda f, v: f"Nov 21 10:00:01 master-0 cat[9]:     {f}: {v}", ("master-0 cat[9]",)),
    "message with quotes": (lambda f, v: f"time=x level=info msg={quoted(f'got {f}={v} of host')}", ("level=info",)),
    "Python": (lambda f, v: repr({"username": "root", f: v, "port": 22}), ("root", "22")),
    "dataclass": (lambda f, v: f"BMC(username='root', {f.replace('-', '_')}={v!r}, port=22)", ("root", "port=22")),
    "Python bytes": (lambda f, v: repr({f.encode(): v.encode(), b"port": 22}), ("22",)),
    "Go struct": (lambda f, v: f"{{Username:root {f[0].upper() + f[1:]}:{v} Port:22}}", ("Username:root", "Port:22")),
    "Go map": (lambda f, v: f"map[{f}:{v} port:22]", ("port:22",)),
    "Go syntax": (lambda f, v: f'main.BMC{{Username:"root", {f[0].upper() + f[1:]}:{quoted(v)}}}', ("root",)),
    "XML": (lambda f, v: f"<bmc><user>root</user><{f}>{v}</{f}></bmc>", ("root",)),
    "URL's query": (
        lambda f, v: f"GET /api/v2/x?{f}={urllib.parse.quote(v, safe='')}&id=7 HTTP/1.1 200",
        ("/api/v2/x", "id=7 HTTP/1.1 200"),
    ),
    "base64": (lambda f, v: base64.b64encode(f"user: root\n{f}: {v}\nport: 22\n".encode()).decode(), ()),
    "gzip in base64": (
        lambda f, v: base64.b64encode(gzip.compress(f"user: root\n{f}: {v}\n".encode(), mtime=0)).decode(),
        (),
    ),
    "Ignition": (
        lambda f, v: json.dumps(
            {"path": "/etc/a.env", "contents": {"source": "data:," + urllib.parse.quote(f"user: root\n{f}: {v}\n")}}
        ),
        ("/etc/a.env", "root"),
    ),
    "Ignition in base64": (
        lambda f, v: json.dumps(
            {
                "path": "/etc/a.env",
                "contents": {"source": "data:text/plain;charset=utf-8;base64," + _b64(f"user: root\n{f}: {v}\n")},
            }
        ),
        ("/etc/a.env",),
    ),
    "Ignition packed": (
        lambda f, v: json.dumps(
            {
                "contents": {
                    "compression": "gzip",
                    "source": "data:;base64," + _b64(gzip.compress(f"{f}: {v}\n".encode(), mtime=0)),
                },
                "path": "/etc/a.env",
            }
        ),
        ("/etc/a.env",),
    ),
    "YAML over lines": (_yaml(lambda f, v: f"    {f}: {v}\n      {v}"), _HOST),
    "value before its name": (
        lambda f, v: f"env:\n- value: {v}\n  name: {_environment_name(f)}\n- name: A\n  value: kept\n",
        ("kept",),
    ),
    "environment with NUL": (lambda f, v: f"A=1\0{_environment_name(f)}={v}\0B=2", ("A=1", "B=2")),
    "arguments with NUL": (lambda f, v: f"agent\0--{f}\0{v}\0--verbose", ("--verbose",)),
    "Go's escapes": (
        lambda f, v: json.dumps(_document(f, v)).replace('"', r"\u0022"),
        _HOST,
    ),
    "XML's attribute": (lambda f, v: f'<user name="root" {f}="{v}" id="7"/>', ("root", 'id="7"')),
    "Secret in braces": (
        lambda f, v: f"kind: Secret\nstringData: {{a: {quoted(v)}, b: '{v}'}}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret with remarks": (
        lambda f, v: f"kind: Secret # bmc\ndata: &a # it\n  opaque: {_b64(v)}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret": (
        lambda f, v: f"apiVersion: v1\ndata:\n  opaque: {_b64(v)}\nkind: Secret\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret's texts": (
        lambda f, v: f"kind: Secret\nstringData:\n  opaque: {v}\n  other: |\n    {v}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret in JSON": (
        lambda f, v: json.dumps({"data": {"opaque": _b64(v)}, "kind": "Secret", "metadata": {"name": "bmc-0"}}),
        ("bmc-0",),
    ),
}
# Where a value's own characters mean something to the syntax, it cannot be written there.
SPECIAL: Mapping[str, str] = {"XML": "<>&", "XML's attribute": '<>&"', "JSON cut off": '"\\'}


def _b64(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def named(kind: str, field: str, value: str) -> Iterator[Vector]:
    """A secret that has a name, in every syntax for names and values."""
    for syntax, (write, stays) in SYNTAXES.items():
        if set(value) & set(SPECIAL.get(syntax, "")):
            continue
        forms = {value, _b64(value), urllib.parse.quote(value, safe=""), urllib.parse.quote(value)}
        yield Vector(f"{kind} in {syntax}", write(field, value), tuple(sorted(forms)), stays)


_KEY_SYNTAXES: Mapping[str, Callable[[str], str]] = {
    "a file": lambda key: key,
    "CRLF": lambda key: key.replace("\n", "\r\n"),
    "JSON": lambda key: json.dumps({"tls.key": key, "id": 7}),
    "JSON escaped": lambda key: json.dumps({"a": json.dumps({"value": key}), "id": 7}),
    "JSON escaped twice": lambda key: json.dumps({"a": json.dumps({"b": json.dumps({"value": key})}), "id": 7}),
    "one line": lambda key: key.replace("\n", "\\n"),
    "one line with blanks": lambda key: key.replace("\n", " "),
    "YAML block": lambda key: "tls:\n  key: |\n" + "".join(f"    {line}\n" for line in key.splitlines()) + "  id: 7\n",
    "YAML in JSON": lambda key: json.dumps(
        {"x": "key: |\n" + "".join(f"  {line}\n" for line in key.splitlines()) + "id: 7\n"}
    ),
    "YAML in quotes": lambda key: f"value: {json.dumps(key)}\nid: 7",
    "journal": lambda key: "\n".join(f"Nov 21 10:00:01 master-0 cat[9]: {line}" for line in key.splitlines()),
    "journal's continued lines": lambda key: "Nov 21 10:00:01 m cat[9]: " + key.strip().replace("\n", "\n" + " " * 26),
    "container's log": lambda key: "\n".join(f"2024-11-21T10:00:01.5Z stdout F {line}" for line in key.splitlines()),
    "environment": lambda key: f'KEY="{key}"\nid=7',
    "diff": lambda key: "\n".join(f"+{line}" for line in key.splitlines()),
    "Python": lambda key: repr({"pem": key, "id": 7}),
    "Python bytes": lambda key: repr(key.encode()),
    "Go quoted": lambda key: f"msg={json.dumps('read ' + key)} level=info",
    "URL": lambda key: "key=" + urllib.parse.quote(key) + "&id=7",
    "form": lambda key: "key=" + urllib.parse.quote_plus(key) + "&id=7",
    "base64": lambda key: _b64(key),
    "base64 in lines": lambda key: base64.encodebytes(key.encode()).decode(),
    "base64 of base64": lambda key: _b64(_b64(key)),
    "gzip in base64": lambda key: _b64(gzip.compress(key.encode(), mtime=0)),
    "Ignition": lambda key: json.dumps({"contents": {"source": "data:," + urllib.parse.quote(key)}, "id": 7}),
    "Ignition in base64": lambda key: json.dumps({"contents": {"source": "data:;base64," + _b64(key)}, "id": 7}),
    "Secret": lambda key: f"apiVersion: v1\nkind: Secret\ndata:\n  tls.key: {_b64(key)}\n  tls.crt: {_b64('x')}\n",
    "cut off": lambda key: key[: key.index("-----END") - 9],
    "its body alone": lambda key: key.splitlines()[1],
    "between others in a journal": lambda key: "\n".join(
        f"Nov 21 10:00:01 m cat[9]: {line}\nNov 21 10:00:01 m kernel: eth{n}: link up"
        for n, line in enumerate(key.splitlines())
    ),
}
_KEPT: Mapping[str, tuple[str, ...]] = {
    "between others in a journal": tuple(f"eth{n}: link up" for n in range(5)),
    "journal": ("master-0 cat[9]: ",),
    **dict.fromkeys(("JSON", "JSON escaped", "JSON escaped twice", "Ignition", "Ignition in base64"), ('"id": 7',)),
    **dict.fromkeys(("YAML block", "YAML in JSON", "YAML in quotes"), ("id: 7",)),
    **dict.fromkeys(("environment", "URL", "form"), ("id=7",)),
}


def keys() -> Iterator[Vector]:
    """Private keys in whatever they are written into."""
    for kind, (key, lines) in KEYS.items():
        for syntax, write in _KEY_SYNTAXES.items():
            text = write(key)
            gone = lines[:1] if syntax == "its body alone" else lines
            forms = {*gone, *(urllib.parse.quote(line) for line in gone), *(_b64(line)[3:-4] for line in gone)}
            forms |= {f"BEGIN {kind}"}
            yield Vector(f"{kind} in {syntax}", text, tuple(sorted(forms)), _KEPT.get(syntax, ()))


def others() -> Iterator[Vector]:
    """What has a syntax of its own."""
    login = _b64("root:c4lvin!Rack7")
    word = "c4lvin!Rack7"
    yield Vector(
        "proxy",
        "httpProxy: http://proxyuser:s3cr3t-Pr0xy@proxy.example:3128",
        ("s3cr3t-Pr0xy",),
        ("proxyuser", "proxy.example:3128"),
    )
    yield Vector(
        "proxy in the environment",
        "HTTPS_PROXY=http://proxyuser:s3cr3t-Pr0xy@proxy.example:3128",
        ("s3cr3t-Pr0xy",),
        ("proxy.example:3128",),
    )
    yield Vector(
        "proxy in JSON",
        '{"http_proxy":"http://proxyuser:s3cr3t-Pr0xy@[2001:db8::1]:3128","id":7}',
        ("s3cr3t-Pr0xy",),
        ("[2001:db8::1]:3128", '"id":7'),
    )
    yield Vector(
        "proxies, several",
        "http://a:s3cr3t-Pr0xy@p:1,https://b:an0ther-Pr0xy@q:2/x",
        ("s3cr3t-Pr0xy", "an0ther-Pr0xy"),
        ("@p:1", "@q:2/x"),
    )
    yield Vector(
        "proxy with an unescaped @", "http://a:s3cr3t@Pr0xy@p.example:1/x", ("s3cr3t", "Pr0xy"), ("@p.example:1/x",)
    )
    yield Vector(
        "proxy with an unescaped slash", "http://a:s3cr3t/Pr0xy@p.example:1", ("s3cr3t", "Pr0xy"), ("@p.example:1",)
    )
    yield Vector(
        "proxy in systemd",
        'DefaultEnvironment="HTTP_PROXY=http://u:s3cr3t%%40Pr0xy@p:1" "NO_PROXY=.x"',
        ("s3cr3t",),
        ("@p:1", "NO_PROXY=.x"),
    )
    yield Vector(
        "proxy in a URL", "next=http%3A%2F%2Fu%3As3cr3t-Pr0xy%40proxy.example", ("s3cr3t-Pr0xy",), ("proxy.example",)
    )
    yield Vector(
        "login without a scheme",
        "dial svc:s3cr3t-Pr0xy@registry.example:5000 failed",
        ("s3cr3t-Pr0xy",),
        ("registry.example:5000 failed",),
    )
    yield Vector(
        "user:pass@", "pull from user:pass-w0rd@registry.example failed", ("pass-w0rd",), ("registry.example failed",)
    )
    yield Vector(
        "pull secret",
        f"pullSecret: '{PULL_SECRET}'\nsshKey: ssh-ed25519 AAAA a@b",
        (AUTH, "pu11-Secret"),
        ("sshKey: ssh-ed25519 AAAA a@b",),
    )
    yield Vector("a bootstrap token", "bootstrap token abcdef.0123456789abcdef used", ("0123456789abcdef",), ("used",))
    form = "aB3de-FGH4J-kl5no-PQR6T"
    yield Vector("kubeadmin's password by its form", f"it is {form}, they say", (form,), ("they say",))
    hexed = b"ipmitool\0-P\0c4lvin!Rack7".hex().upper()
    yield Vector("auditd's title", f"type=PROCTITLE proctitle={hexed}", (hexed[18:],), ("type=PROCTITLE",))
    yield Vector("pull secret alone", PULL_SECRET, (AUTH,), ("registry.example:5000", "a@registry.example"))
    yield Vector(
        "pull secret, indented", json.dumps(json.loads(PULL_SECRET), indent=1), (AUTH,), ("registry.example:5000",)
    )
    yield Vector("pull secret escaped", json.dumps({"pull_secret": PULL_SECRET, "id": 7}), (AUTH,), ('"id": 7',))
    yield Vector("pull secret escaped in a message", json.dumps({"m": f"with {json.dumps(PULL_SECRET)}"}), (AUTH,))
    yield Vector("pull secret in base64", f".dockerconfigjson: {_b64(PULL_SECRET)}", (_b64(PULL_SECRET)[8:40],))
    yield Vector("pull secret in a block", f"pullSecret: |\n  {PULL_SECRET}\nid: 7", (AUTH,), ("id: 7",))
    yield Vector(
        "pull secret over lines",
        'pullSecret: \'{"auths":\n  {"r": {"auth":\n  "' + AUTH + "\"}}}'\nid: 7",
        (AUTH,),
        ("id: 7",),
    )
    yield Vector("containerd's auth", f'[auth]\n  auth = "{AUTH}"\n', (AUTH,))
    yield Vector("Basic", f"Authorization: Basic {login}", (login,))
    yield Vector(
        "Basic in curl",
        f"curl -H 'Authorization: Basic {login}' https://192.0.2.1/redfish/v1",
        (login,),
        ("https://192.0.2.1/redfish/v1",),
    )
    yield Vector("Basic in a dict", repr({"Authorization": f"Basic {login}", "Accept": "*/*"}), (login,), ("*/*",))
    yield Vector("Basic in Go", f"map[Accept:[*/*] Authorization:[Basic {login}]]", (login,), ("Accept:[*/*]",))
    yield Vector("Basic in a list", repr([("Authorization", f"Basic {login}"), ("Accept", "*/*")]), (login,), ("*/*",))
    yield Vector("Basic in prose", f"sent Basic {login} to 192.0.2.1", (login,), ("to 192.0.2.1",))
    yield Vector("Bearer", f"Authorization: Bearer {TOKEN}", (TOKEN,))
    yield Vector("Bearer, opaque", "sent 'Bearer q8Zr2LmW0xTt5YvBq8' to it", ("q8Zr2LmW0xTt5YvBq8",), ("to it",))
    yield Vector("header without a scheme", f"< Watcher-Authorization: {TOKEN}", (TOKEN,))
    yield Vector("header of Redfish", "X-Auth-Token: 0f3c9a77d1e24b58", ("0f3c9a77d1e24b58",))
    yield Vector("header of agents", f"X-Secret-Key: {TOKEN}", (TOKEN,))
    yield Vector(
        "header of agents, opaque",
        "curl -H 'X-Secret-Key: q8Zr2LmW' https://192.0.2.1",
        ("q8Zr2LmW",),
        ("https://192.0.2.1",),
    )
    yield Vector("cookie", "Set-Cookie: session=q8Zr2LmW0xTt5YvB; Path=/", ("q8Zr2LmW0xTt5YvB",))
    yield Vector("token in prose", f"started with X-Secret-Key {TOKEN}, then failed", (TOKEN,), ("then failed",))
    yield Vector(
        "token in a query", f"GET /files?file_name=x&api_key={TOKEN} HTTP/1.1", (TOKEN,), ("file_name=x", "HTTP/1.1")
    )
    yield Vector("token behind an escape", json.dumps({"m": f"line\n{TOKEN}\nnext"}), (TOKEN,), ("next",))
    yield Vector(
        "curl -u",
        f"curl -sk -u root:{word} https://192.0.2.1/redfish",
        (word,),
        ("-u root", "https://192.0.2.1/redfish"),
    )
    yield Vector("curl --user", f"curl --user 'root:{word}' https://192.0.2.1", (word,), ("https://192.0.2.1",))
    yield Vector(
        "curl in a list", repr(["curl", "-u", f"root:{word}", "https://192.0.2.1"]), (word,), ("https://192.0.2.1",)
    )
    yield Vector(
        "skopeo's creds",
        f"skopeo copy --src-creds=svc:{word} docker://a docker://b",
        (word,),
        ("docker://a docker://b",),
    )
    yield Vector(
        "ipmitool -P", f"ipmitool -I lanplus -H 192.0.2.1 -U root -P {word} power status", (word,), ("power status",)
    )
    yield Vector("sshpass -p", f"sshpass -p {word} ssh core@192.0.2.1", (word,), ("ssh core@192.0.2.1",))
    yield Vector("podman login", f"podman login -u svc -p {word} registry.example", (word,), ("registry.example",))
    yield Vector(
        "netrc", f"machine registry.example login svc password {word}", (word,), ("machine registry.example login svc",)
    )
    yield Vector(
        "from-literal", f"kubectl create secret generic bmc --from-literal=password={word} -n x", (word,), ("-n x",)
    )
    yield Vector("bcrypt", f"kubeadmin-password.hash: {CRYPTED}", (CRYPTED[8:],))
    yield Vector("bcrypt in base64", json.dumps({"data": {"kubeadmin": _b64(CRYPTED)}}), (_b64(CRYPTED)[12:-4],))
    yield Vector("htpasswd", f"admin:{CRYPTED}", (CRYPTED[8:],), ("admin:",))
    yield Vector("shadow", f"core:{UNIX_CRYPTED}:19000:0:99999:7:::", (UNIX_CRYPTED[20:],), ("core:",))
    yield Vector(
        "LUKS key file",
        json.dumps({"luks": [{"name": "root", "keyFile": {"source": "data:,0pen%2DSesame"}}]}),
        ("0pen", "Sesame"),
        ("root",),
    )
    yield Vector(
        "LUKS key file, indented",
        json.dumps({"luks": [{"keyFile": {"source": "data:,0pen%2DSesame"}, "name": "root"}]}, indent=1),
        ("0pen", "Sesame"),
        ("root",),
    )
    yield Vector(
        "file of a password",
        json.dumps({"path": "/opt/auth/kubeadmin-password", "contents": {"source": "data:,GhTy7-Wq2Zx"}}),
        ("GhTy7",),
        ("/opt/auth/kubeadmin-password",),
    )
    yield Vector(
        "AWS keys",
        "[default]\naws_access_key_id = AKIAX\naws_secret_access_key = wJalrXUtnFEMIK7MDENG\nregion = x",
        ("wJalrXUtnFEMIK7MDENG",),
        ("AKIAX", "region = x"),
    )
    yield Vector(
        "said by the installer",
        'Login to the console with user: "kubeadmin", and password: "GhTy7-Wq2Zx-9LmNp-4RsVb"',
        ("GhTy7-Wq2Zx-9LmNp-4RsVb",),
        ("kubeadmin",),
    )
    yield Vector(
        "list of tokens", "tokens:\n- q8Zr2LmW0xTt\n- 5YvBq8Zr2LmW\nid: 7", ("q8Zr2LmW0xTt", "5YvBq8Zr2LmW"), ("id: 7",)
    )
    yield Vector(
        "list of tokens in JSON",
        json.dumps({"tokens": ["q8Zr2LmW0xTt", "5YvBq8Zr2LmW"], "id": 7}),
        ("q8Zr2LmW0xTt", "5YvBq8Zr2LmW"),
        ('"id": 7',),
    )
    yield Vector(
        "list of tokens in indented JSON",
        json.dumps({"tokens": ["q8Zr2LmW0xTt", "5YvBq8Zr2LmW"], "id": 7}, indent=1),
        ("q8Zr2LmW0xTt", "5YvBq8Zr2LmW"),
        ('"id": 7',),
    )
    yield Vector("two in a line", f"a.password={word} b.password=0ther-w0rd: failed", (word, "0ther-w0rd"), ("failed",))
    yield Vector(
        "words in YAML",
        "bmc:\n  password: c0rrect h0rse 8attery\n  address: x",
        ("c0rrect", "h0rse", "8attery"),
        ("address: x",),
    )
    yield Vector("number in YAML", "password: 8675309\nid: 7", ("8675309",), ("id: 7",))


def vectors() -> list[Vector]:
    """All of them."""
    made = [vector for kind, (field, value) in NAMED.items() for vector in named(kind, field, value)]
    return [*made, *keys(), *others(), *placed()]


def placed() -> Iterator[Vector]:
    """Those that are secrets because of the place where they stand."""
    for name, (text, stays) in places.SECRETS.items():
        yield Vector(name, text, tuple(word for word in places.BOTH if word in text), stays)


# Nothing of these is a secret.
HARMLESS = (
    *places.HARMLESS,
    "passwordHash: null",
    "proctitle=2F7573722F7362696E2F73736864002D44 pid=7",
    "never-there-where-those were, sno01-ab1cd-ef2gh-ij3kl too",
    "https://ostest.abcdefghijklmnop/ and etcd-1.a0123456789bcdef.example.com",
    '"password": null, "token": "", "auth": ""',
    "password: ''",
    "the password is wrong, and so was the secret",
    "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root",
    "Accepted publickey for core from 192.0.2.7 port 40022 ssh2: ED25519 SHA256:Yk3lqf0aVw9uTzXyS8mNcRbE2iHgP5oD7tLkUvA1xQM",
    "Failed password for invalid user admin from 192.0.2.7 port 40022 ssh2",
    "platform.baremetal.hosts[0].bmc.password: Required value: must be set",
    "pullSecret: Invalid value: <auths of registry.example>: auths required",
    "error: password: authentication failed",
    "token: expired",
    "secret not found",
    'secrets "pull-secret" not found',
    'MountVolume.SetUp failed for volume "etcd-certs": secret "etcd-certs" not found',
    "systemd-ask-password-console.path: Dispatch Password Requests to Console Directory Watch",
    "PasswordAuthentication no",
    "passwd:         files systemd",
    "secretRef:\n  name: pull-secret",
    "secretName: machine-config-server-tls",
    "imagePullSecrets:\n- name: registry-login",
    "pullSecretRef:\n  name: pull-secret",
    "volumes:\n- name: certs\n  secret:\n    secretName: etcd-certs\n    items: []",
    '"secret": {"secretName": "etcd-certs"}',
    '"Mounted volume" secret="kube-system/etcd-certs"',
    "kind: TokenReview\nspec:\n  tokenReview: v1",
    "expirationSeconds: 3600\ntokenExpirationSeconds: 3600",
    "--tls-private-key-file=/etc/kubernetes/static-pod-resources/secrets/tls.key --token-auth-file /etc/x",
    "token: /var/run/secrets/kubernetes.io/serviceaccount/token",
    "AUTH_TYPE=agent-installer-local",
    "EC_PUBLIC_KEY_PEM=LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFCi0tLS0tRU5EIFBVQkxJQyBLRVktLS0tLQo=",
    "PWD=/root\nOLDPWD=/var",
    '{"pull_secret_set": true, "pullSecretSet": true}',
    "sshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG9Pu5bjFH3IqrQl0ubYWETA+lnydVvexdzoa0DWgh5R core@example",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7vbqajDhA2ZR1Zq0v9kxS7G8h6mXb3yQw4Jp0dEoV5LtF1uN2cRiTsKzMfWgHjYqP root@x",
    "quay.io/openshift-release-dev/ocp-release@sha256:3aaa98dd3697580365e705d35e07eac759f3cd2e0aff5471da8655b56dc8ee9b",
    "registry.example:5000/node0/lab-release:4.1@sha256:3aaa98dd3697580365e705d35e07eac759f3cd2e0aff5471da8655b56dc8ee9b",
    "cluster 5f3c9a77-d1e2-4b58-9a77-0123456789ab, machine 0123456789abcdef0123456789abcdef, boot 64 bytes from x",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2l0eTEeMBwGA1UEAxMVbm9kZTAgc2VydmljZSBDQTAe\nFw0yNDA=\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE6uJ9cjAimKS8CXqA4uhbEwYEV/bh\n-----END PUBLIC KEY-----",
    "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJzekNDQVZtZ0F3SUJBZ0lVUTJsMGVURWVNQndHCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K",
    "https://core@192.0.2.1:8090/api?id=7 ssh://core@192.0.2.1 qemu+ssh://root@host/system",
    "https://registry.example:5000/v2/a@sha256:0123",
    "systemd[1]: Started user@1000.service - User Manager for UID 1000.",
    "Maintainer:someone@example.com mailto:someone@example.com",
    "podman run -p 8080:80 -u 1000:1000 --user 0:0 registry.example/x",
    "journalctl -u agent.service -p err",
    'WWW-Authenticate: Basic realm="registry", Bearer realm="https://registry.example/token"',
    "Basic authentication failed, bearer tokens are wanted",
    "Authorization: missing",
    "password: ${BMC_PASSWORD}\ntoken: $TOKEN\npassword: <not shown>\npassword: ****",
    'password: "{{ .Values.password }}"',
    "if token == expected: return secret.name",
    "tang:\n- url: http://tang.example:7500\n  thumbprint: PLjNyRdGw03zlRoGjQYMahSZGu9",
    "clevis-luks-askpass.service: Deactivated successfully.",
    "data:text/plain;charset=utf-8;base64,aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBmaWxlCg==",
    '{"contents":{"source":"data:,%5Bconnection%5D%0Aipv6.dhcp-duid%3Dll%0A"},"path":"/etc/NetworkManager/conf.d/clientid.conf"}',
    '{"name":"PATH","value":"/usr/bin"},{"name":"pull-secret","valueFrom":{}}',
    "kind: ConfigMap\ndata:\n  key: value\n  mode: fast",
    "kind: SecretList\nitems: []",
    "keys:\n- name: key1",
    "key: value, monkey: 7, keyboard: us",
    'time="2024-11-21T10:00:00Z" level=info msg="Waiting up to 30m0s for the Kubernetes API"',
    "eth0.100@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000",
    "/usr/local/share/assisted-service/assisted-service.env /var/lib/containers/storage/overlay-images/images.json",
    "eyJ is how they begin; eyJhbGciOiJub25lIn0 is a header only",
    "C:\\new\\tokens and \\\\server\\share",
)
