"""Secrets of every kind in every syntax that they appear in, and what looks like one and is none.

Every redactor in the repository is tested against these: what is in ``secrets`` of a vector must be gone, what is in
``stays`` must still be there. The values are made up, and nobody's.
"""

# ruff: noqa: E501  (a table)

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator

from installer.common.redact.testing import places
from installer.common.redact.testing.syntaxes import KEPT, KEY_SYNTAXES, SPECIAL, SYNTAXES, b64
from installer.common.redact.testing.values import AUTH, CRYPTED, KEYS, NAMED, PULL_SECRET, TOKEN, UNIX_CRYPTED, Vector

BEFORE = "Nov 21 10:00:00 master-0 agent[1234]: step inventory of host 192.168.111.80 begins"
AFTER = "Nov 21 10:00:09 master-0 agent[1234]: step inventory ended with exit code 1: no such disk /dev/vda"


def named(kind: str, field: str, value: str) -> Iterator[Vector]:
    """Yield a secret that has a name, in every syntax for names and values."""
    for syntax, (write, stays) in SYNTAXES.items():
        if set(value) & set(SPECIAL.get(syntax, "")):
            continue
        forms = {value, b64(value), urllib.parse.quote(value, safe=""), urllib.parse.quote(value)}
        yield Vector(f"{kind} in {syntax}", write(field, value), tuple(sorted(forms)), stays)


def keys() -> Iterator[Vector]:
    """Private keys in whatever they are written into."""
    for kind, (key, lines) in KEYS.items():
        for syntax, write in KEY_SYNTAXES.items():
            text = write(key)
            hidden = lines[:1] if syntax == "its body alone" else lines
            forms = {*hidden, *(urllib.parse.quote(line) for line in hidden), *(b64(line)[3:-4] for line in hidden)}
            forms |= {f"BEGIN {kind}"}
            yield Vector(f"{kind} in {syntax}", text, tuple(sorted(forms)), KEPT.get(syntax, ()))


def others() -> Iterator[Vector]:
    """Yield secrets that have a syntax of their own."""
    login = b64("root:c4lvin!Rack7")
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
    yield Vector("pull secret in base64", f".dockerconfigjson: {b64(PULL_SECRET)}", (b64(PULL_SECRET)[8:40],))
    yield Vector("pull secret in a block", f"pullSecret: |\n  {PULL_SECRET}\nid: 7", (AUTH,), ("id: 7",))
    yield Vector(
        "pull secret over lines",
        'pullSecret: \'{"auths":\n  {"r": {"auth":\n  "' + AUTH + "\"}}}'\nid: 7",
        (AUTH,),
        ("id: 7",),
    )
    yield Vector("after a semicolon", f"a=1;PASSWORD='{word}';b=2", (word,), ("a=1;", ";b=2"))
    yield Vector("LDAP's hash", f"userPassword: {{SSHA}}{AUTH}\ncn: x", (AUTH,), ("cn: x",))
    yield Vector("iSCSI's way back", f"node.session.auth.password_in = {word}", (word,))
    yield Vector(
        "headers as tuples", "[(b'X-Auth-Token', b'4f1b2c3d4e5f'), (b'a', b'b')]", ("4f1b2c3d4e5f",), ("b'b'",)
    )
    yield Vector(
        "headers in Go's syntax", '{"X-Auth-Token":[]string{"4f1b2c3d4e5f"}, "a":"b"}', ("4f1b2c3d4e5f",), ('"b"',)
    )
    yield Vector("a JWE without a key", "eyJhbGciOiJkaXIifQ..aXY0NTY3.Y2lwaGVy.dGFn", ("Y2lwaGVy",))
    yield Vector("an option in Rust", f'{{ a: "b", password: Some("{word}\\"c"), d: 7 }}', (word,), ("d: 7",))
    yield Vector("escaped JSON in Python", repr(f"pullSecret: {json.dumps(PULL_SECRET)}"), (AUTH,))
    yield Vector(
        "lines in a message",
        f'msg="read\\ntoken: {word}\\nuser: a\\npsk={word}\\nport=2" e=1',
        (word,),
        ("user: a", "port=2"),
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
    yield Vector("bcrypt in base64", json.dumps({"data": {"kubeadmin": b64(CRYPTED)}}), (b64(CRYPTED)[12:-4],))
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
    named_vectors = [vector for kind, (field, value) in NAMED.items() for vector in named(kind, field, value)]
    return [*named_vectors, *keys(), *others(), *placed()]


def placed() -> Iterator[Vector]:
    """Yield the vectors that are secrets because of the place where they stand."""
    for name, (text, stays) in places.SECRETS.items():
        yield Vector(name, text, tuple(word for word in places.BOTH if word in text), stays)


# Nothing of these is a secret.
HARMLESS = (
    *places.HARMLESS,
    "passwordHash: null",
    "error getting credentials: executable docker-credential-x not found",
    'level=warning msg="refresh token: server closed the stream"',
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
