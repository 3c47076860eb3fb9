"""Secrets by their place: the same words are a secret after a document's key, and an error's text in a log."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

WORDS = ("horse", "battery", "staple")
PHRASE = "correct horse battery staple"
WORD = "correct-horse9battery_staple"
BOTH = (*WORDS, WORD)

# name: text, and what has to stay of it. What it has of WORDS has to go.
SECRETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a passphrase at a line's start": (f"password: {PHRASE}\nid: 7", ("id: 7",)),
    "a passphrase as a document's key": (f"bmc:\n  password: {PHRASE}\n  address: x", ("address: x",)),
    "a passphrase that begins as a sentence": (
        "bmc:\n  password: all my horse and battery\n  address: x",
        ("address: x",),
    ),
    "a passphrase that begins as an error": ("password: was the horse staple", ()),
    "a passphrase of errors' words alone": (
        "bmc:\n- password: open\n    horse\n  id: 7\npassphrase=expired battery",
        (),
    ),
    "a passphrase as a list's item": ("hosts:\n- password: is horse\n  user: root", ("user: root",)),
    "a passphrase in INI": ("[a]\npassword = set horse free\nid = 7", ("id = 7",)),
    "a passphrase in the environment": ("export PASSWORD=the-horse\nA=1", ("A=1",)),
    "a passphrase in braces": ("bmc: {username: root, password: an old horse, id: 7}", ("username: root", "id: 7")),
    "a passphrase in a log's line": (f"level=info msg: bmc password: {PHRASE}", ("level=info msg: bmc",)),
    "a passphrase after was": ("got password: was old horse", ("got password",)),
    "a passphrase behind an option": ("run --password horse --token battery --url x", ("--url x",)),
    "a token in a document": ("  token: is horse battery", ()),
    "a value that Kubernetes cites": (
        f'bmc.password: Invalid value: "{PHRASE}": too short',
        ("Invalid value", "too short"),
    ),
    "a password in three quotes": (f'password = """\n{PHRASE}\n"""\nid = 7', ("id = 7",)),
    "a password that is cited": (f'login with password "{PHRASE}" was rejected', ("was rejected",)),
    "a password that is said": (f"the password is {WORD} now", ("now",)),
    "a plain scalar over lines": ("bmc:\n  password: one\n    horse\n\n    staple\n  address: x", ("address: x",)),
    "a plain scalar that begins as null": ("bmc:\n  password: null\n    horse\n  address: x", ("address: x",)),
    "a plain scalar that begins as an error": ("password: the\n  horse\nid: 7", ("id: 7",)),
    "a quoted scalar over lines": ("- password: 'one\n    horse'\n  id: 7", ("id: 7",)),
    "a Secret's texts in braces": (
        f'kind: Secret\nstringData: {{a: {PHRASE}, b: "{PHRASE}, {{x}}"}}\nid: 7',
        ("a: ", "b: ", "id: 7"),
    ),
    "a Secret's texts in braces over lines": (
        f"kind: Secret\nstringData: {{a: {PHRASE},\n  b: {PHRASE}}}\nid: 7",
        ("a: ", "id: 7"),
    ),
    "a Secret's data in braces before its kind": (f"data: {{a: {PHRASE}}}\nid: 7\nkind: Secret", ("id: 7",)),
    "a Secret's data with a remark": (
        f"kind: Secret # a bmc's\ndata:  # note\n  a: {PHRASE}\nid: 7",
        ("# note", "id: 7"),
    ),
    "a Secret's data with an anchor": (f"kind: Secret\ndata: &a\n  a: {PHRASE}\nid: 7", ("id: 7",)),
    "a Secret's data with a tag": (f"kind: !!str Secret\ndata: !!map &a\n  a: {PHRASE}\nid: 7", ("id: 7",)),
    "a Secret's data after a remark": (f"kind: Secret\ndata:\n  # note\n  a: {PHRASE}\nid: 7", ("id: 7",)),
    "a Secret in braces": (f"x {{apiVersion: v1, kind: Secret, stringData: {{a: {PHRASE}}}, id: 7}}", ("id: 7",)),
    "a Secret in a log's line": ('x {"kind":"Secret","stringData":{"a":"\\"horse {battery}"},"id":7}', ('"id":7',)),
    "a value before its name": (f"env:\n- value: {PHRASE}\n  name: DB_PASSWORD\n- name: A\n  value: kept", ("kept",)),
    "a block before its name": (
        f"env:\n- value: |\n    {PHRASE}\n  name: DB_PASSWORD\n- value: kept\n  name: A",
        ("kept",),
    ),
    "a value before its name in indented JSON": (
        f'  {{\n    "value": "{PHRASE}",\n    "name": "DB_PASSWORD"\n  }}',
        (),
    ),
    "a value before its name in a line": (f'env {{"value":"{PHRASE}","name":"DB_PASSWORD"}} kept', ("kept",)),
    "ipmitool as a list": (
        f'["ipmitool", "-p", "623", "-U", "root", "-P", "{WORD}", "power"]',
        ("623", "root", "power"),
    ),
    "ipmitool with NUL": (f"ipmitool\0-U\0root\0-P\0{WORD}\0power", ("root", "power")),
    "ipmitool, an argument a line": (f"ipmitool\n-U\nroot\n-P\n{WORD}\npower", ("root", "power")),
    "ipmitool with a port": (f"ipmitool -p 623 -P ab,{WORD} power", ("623", "power")),
    "arguments with NUL": (f"agent\0--password\0{WORD}\0--id\0kept", ("kept",)),
    "arguments with escaped NUL": (f'"agent\\u0000--password\\u0000{WORD}\\u0000kept"', ("kept",)),
    "an environment with NUL": (f"A=kept\0BMC_PASSWORD={WORD}\0B=also", ("A=kept", "B=also")),
    "curl -u without a blank": (f"curl -uadmin:{WORD} https://h/x", ("-uadmin", "https://h/x")),
    "curl -u among others": (f"curl -sku 'admin:{WORD}' https://h/x", ("admin", "https://h/x")),
    "netrc in lines": (f"machine h\n  login u\n  password {WORD}\nmachine i", ("machine h", "login u", "machine i")),
    "netrc, escaped": (f'"machine h\\nlogin u\\npassword {WORD}\\nmachine i"', ("machine i",)),
    "netrc, the password first": (f"machine h password {WORD} login u", ("machine h", "login u")),
    "PuTTY's key": (
        "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\nAAAAC3Nz\nPrivate-Lines: 2\nhorseAAA\nbattery=\nPrivate-MAC: 0a",
        ("ssh-ed25519", "AAAAC3Nz", "Private-MAC: 0a"),
    ),
    "PuTTY's key, escaped": ('"Private-Lines: 2\\nhorseAAA\\nbattery=\\nPrivate-MAC: 0a"', ("Private-MAC: 0a",)),
    "kickstart": (f"rootpw --plaintext {WORD}", ("rootpw",)),
    "a volume's passphrase": (
        f"sh -c 'echo -n {WORD} | cryptsetup luksOpen /dev/sda kept'",
        ("luksOpen /dev/sda kept",),
    ),
    "a fence agent": (f"fence_ipmilan -a 10.0.0.5 -l admin -p {WORD} -o status", ("10.0.0.5", "admin", "-o status")),
    "useradd": (f"COMMAND=/usr/sbin/useradd -p {WORD} core", ("core",)),
    "LDAP's client": (f"bindpw {WORD}", ("bindpw",)),
    "a root disk over iSCSI": (
        f"netroot=iscsi:user:{WORD}@10.0.0.1::::iqn.x:y rd.neednet=1",
        ("user:", "@10.0.0.1::::iqn.x:y"),
    ),
    "a root disk over iSCSI, both ways": (f"netroot=iscsi:u:{WORD}:v:horse@10.0.0.1::::iqn.x:y", ("@10.0.0.1",)),
    "libvirt's secret": (f"<secret type='x'><value>{WORD}</value></secret><id>7</id>", ("<id>7",)),
    "chpasswd": (f"echo 'core:{WORD}' | chpasswd", ("core:", "chpasswd")),
    "Go's escapes": ("{\\u0022password\\u0022:\\u0022a\\\\\\u0022horse\\u0022,\\u0022id\\u0022:7}", ("id\\u0022:7",)),
    "Go's = and &": (f"GET /x?a=1\\u0026token\\u003d{WORD}\\u0026id=7", ("id=7",)),
    "HTML's quotes": (f"&quot;password&quot;:&quot;{PHRASE}&quot;,&quot;id&quot;:7", ("id&quot;:7",)),
    "colours": (f"level=info \x1b[36mpassword\x1b[0m={WORD} id=7", ("id=7",)),
    "XML's attribute": (f'<user name="root" password="{PHRASE}"/>', ("root",)),
    "XML's element with attributes": (
        f'<a:Password x="1" b:token="{PHRASE}">{PHRASE}</a:Password><id>7</id>',
        ("<id>7",),
    ),
    "XML in Go's JSON": (f"\\u003cpassword\\u003e{PHRASE}\\u003c/password\\u003e kept", ("kept",)),
    "AWS's URL": (f"https://h/p?X-Amz-Date=7&X-Amz-Signature={WORD}&id=7", ("X-Amz-Date=7", "id=7")),
    "Azure's URL": (f"https://h/p?sp=r&sig={WORD}&id=7", ("sp=r", "id=7")),
    "Azure's connection": (f"AccountName=kept;AccountKey={WORD}", ("AccountName=kept",)),
    "Python's pair": (f"('password', '{PHRASE}'), ('id', 7)", ("('id', 7)",)),
    **{
        f"the name {name}": (f"db:\n  {name}: {PHRASE}\n  id: 7", ("id: 7",))
        for name in (
            "pass",
            "pw",
            "pwd",
            "passwordBase64",
            "password_plain",
            "passwordValue",
            "password-raw",
            "adminPw",
            "db_pw",
            "secret_key_base",
        )
    },
    **{
        f"the name {name} with =": (f"x {name}={WORD} id=7", ("id=7",))
        for name in ("pass", "pw", "pwd", "adminPwd", "ADMINPWD")
    },
    "the name pass in JSON": (f'{{"pass":"{PHRASE}","pw":"{PHRASE}"}}', ()),
    "the name pass in Go": (f"{{User:root Pass:{WORD}}}", ("root",)),
    "arguments in lines": (
        f"command:\n- agent\n- --password\n- '{WORD}'\n- --id\n- kept",
        ("--password", "--id", "kept"),
    ),
    "arguments in lines of JSON": (f'x [\n  "agent",\n  "--token",\n  "{WORD}",\n  "kept"\n]', ("agent", "kept")),
    "XML's named content": (f'<param name="password">{PHRASE}</param><id>7</id>', ("<id>7",)),
    "a password that is changed": (f"password changed to {WORD} now", ("now",)),
    "the name PW": (f"PW: {WORD}\nid: 7", ("id: 7",)),
    "an error that has the token in it": (f"token: invalid {WORD}", ()),
    "a Secret's text that goes on": ('kind: Secret\nstringData: {a: "horse\n  battery"}\nid: 7', ("id: 7",)),
    "login of an IPv6 host": (f"dial u:{WORD}@[fd00::1]:3128", ("fd00::1",)),
}

# Messages about secrets stay, for people to read.
HARMLESS = (
    "token: 404 Not Found",
    "token: 401 Unauthorized: access denied",
    "authToken: unexpected end of JSON input",
    "error: token: invalid character 'x' looking for beginning of value",
    'Failed to get token: Post "https://192.0.2.1/token": dial tcp 192.0.2.1:443: connect: connection refused',
    'time="x" level=error msg="get token: 503 Service Unavailable"',
    "token: expired at 2024-01-01T00:00:00Z",
    "could not decode token: illegal base64 data at input byte 4",
    "unable to read secret: open /x: no such file",
    "unable to fetch token: context deadline exceeded",
    "password: authentication failed",
    "password: field is required",
    "reading password: timeout after 30s",
    "bmc.password: Required value",
    "the option --password is required, --token must be set",
    "max_tokens=4096",
    '"tokens": 4096',
    '{"tokens": 4096, "max_tokens": 5, "completion_tokens": 1}',
    "tokens: [1,2]",
    "imagePullSecret: registry-login",
    "imagePullSecret: name",
    "secretName: x",
    "PASS: TestToken (0.00s)\n--- PASS: x",
    "PWD=/srv/x\npwd: /srv/x",
    "first pass: done, second pass: running",
    "signature: valid, sig=ok of image signature: sha256:0123",
    "password    sufficient    pam_unix.so sha512 shadow nullok try_first_pass",
    "password changed",
    "Enter passphrase for key '/root/.ssh/id_rsa':",
    "\x1b[31mtoken\x1b[0m: expired",
    "- value: kept\n  name: PATH",
    'msg="bad password" user="root"',
    "kind: ConfigMap\ndata: {a: b}\nstringDate: {a: b}",
    "curl -fsSLu https://h:8443/a",
)
