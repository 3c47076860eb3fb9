"""What the options name: no secret of theirs is shown."""

import pytest

from lab.errors import SubjectError
from lab.subject import options


@pytest.mark.parametrize("image", ["user:Xq7canaryZ@host/a:1", "docker://user:Xq7canaryZ/x@host.example/a:1"])
def test_a_login_before_an_images_name_is_not_shown(tmp_path, monkeypatch, image):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SubjectError, match="is no image") as caught:
        options.choose({"release": image}.get)
    assert "Xq7canaryZ" not in str(caught.value)
