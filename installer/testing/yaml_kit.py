"""Malicious YAML, and the errors about it."""


def laughs(levels: int, fanout: int = 10) -> str:
    """One list of `fanout` words, and lists of `fanout` aliases to the one before it."""
    lines = [f"a0: &a0 [{','.join(['x'] * fanout)}]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * fanout)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


BOMB = laughs(9)
CYCLE = "kind: X\na: &a [*a]\n"
DEEP = "a: " + "[" * 100_000
HARM = {
    "bomb": (BOMB, "line 4: document contains excessive aliasing"),
    "cycle": (CYCLE, "line 2: an anchor's value contains itself"),
    "mapping cycle": ("kind: X\na: &a\n  b: *a\n", "line 3: an anchor's value contains itself"),
    "merge cycle": ("kind: X\na: &a\n  <<: *a\n", "line 3: an anchor's value contains itself"),
    "merge bomb": (
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n}\n  <<: [{','.join([f'*a{n - 1}'] * 20)}]\n" for n in range(1, 9)),
        "document contains excessive aliasing",
    ),
    "deep": (DEEP, "line 1: exceeded max depth of 128"),
    "deep maps": ("{a: " * 100_000, "line 1: exceeded max depth of 128"),
    "deep indents": ("- " * 100_000, "line 1: exceeded max depth of 128"),
    "deep keys": ("? " * 100_000, "line 1: a key must be a plain name"),
    "deep by aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)),
        "line 128: exceeded max depth of 128",
    ),
    "long texts": (
        f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 200)}]\n",
        "line 2: document contains excessive aliasing",
    ),
    "unknown anchor": ("a: *b\n", "line 1: unknown anchor referenced"),
    "NUL": ("a: 1\nb: \0\n", "line 2: control characters are not allowed"),
    "a key twice": ("a: 1\na: 2\n", 'line 2: key "a" already set in map'),
    "a key twice by alias": ("x: &k a\nm:\n  *k : 1\n  a: 2\n", 'line 4: key "a" already set in map'),
    "a list as key": ("[a]: 1\n", "line 1: a key must be a plain name"),
    "an alias to a list as key": ("x: &k [a]\nm:\n  *k : 1\n", "line 3: a key must be a plain name"),
    "no int": ("a: !!int foo\n", "line 1: cannot decode the value as a !!int"),
    "foreign digits": ("a: !!int '٣'\n", "line 1: cannot decode the value as a !!int"),
    "no bool": ("a: !!bool maybe\n", "line 1: cannot decode the value as a !!bool"),
    "no float": ("a: !!float ''\n", "line 1: cannot decode the value as a !!float"),
    "no base64": ("a: !!binary '***'\n", "line 1: cannot decode the value as a !!binary"),
    "merge of a word": ("a: {<<: 5}\n", "line 1: map merge requires map or sequence of maps as the value"),
    "another version": ("%YAML 9.9\n---\na\n", "line 1: found incompatible YAML document"),
    "an open quote": ('a: "x\n', "found unexpected end of stream"),
}  # fmt: skip
