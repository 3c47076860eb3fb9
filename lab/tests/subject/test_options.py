"""What the options name: it is checked before anything is copied, and no secret of theirs is shown."""

import pytest

from lab.errors import SubjectError
from lab.subject import options


@pytest.mark.parametrize("image", ["user:Xq7canaryZ@host/a:1", "docker://user:Xq7canaryZ/x@host.example/a:1"])
def test_a_login_before_an_images_name_is_not_shown(tmp_path, monkeypatch, image):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SubjectError, match="is no image") as caught:
        options.choose({"release": image}.get)
    assert "Xq7canaryZ" not in str(caught.value)


@pytest.mark.parametrize(
    ("chosen", "rule"),
    [
        ({"pull-secret": "nothing"}, "cannot be read: No such file"),
        ({"pull-secret": "text"}, "is no pull secret: want JSON with auths"),
        ({"pull-secret": "empty"}, "auths is empty"),
        ({"pull-secret": "odd"}, "auths: quay.io: must be a mapping with auth"),
        ({"ca": "nothing"}, "cannot be read"),
        ({"installer": "nothing"}, "no such installer"),
        ({"release": "what"}, "'what' is no image"),
        ({"release-dir": "nothing"}, "no such directory"),
    ],
)
def test_options_are_checked_before_anything_is_copied(tmp_path, monkeypatch, chosen, rule):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(options, "built_lab_release", lambda: pytest.fail("a release was built"))
    (tmp_path / "text").write_text("xyz")
    (tmp_path / "empty").write_text('{"auths": {}}')
    (tmp_path / "odd").write_text('{"auths": {"quay.io": "c2VjcmV0", "ours": {"auth": "eDp5"}}}')
    paths = {name: value if name == "release" else str(tmp_path / value) for name, value in chosen.items()}
    with pytest.raises(SubjectError, match=rule) as caught:
        options.choose(paths.get)
    [(name, value)] = paths.items()
    assert str(caught.value).startswith(f"--{name} {value}: ")
