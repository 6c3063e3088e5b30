"""The page's files: from the package, with the right types, and nothing beyond them."""

import pytest

from packwise.serving import page


@pytest.fixture
def folder(tmp_path, monkeypatch):
    site = tmp_path / "page"
    site.mkdir()
    for name in ("index.html", "app.js", "style.css", "mark.svg", "notes.txt"):
        (site / name).write_text(f"this is {name}")
    (tmp_path / "secret.html").write_text("secret")
    monkeypatch.setattr(page, "FOLDER", site)
    return site


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/index.html", "text/html"),
        ("/app.js", "text/javascript"),
        ("/style.css", "text/css"),
        ("/mark.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_its_type_and_a_policy_that_lets_nothing_else_in(client, folder, path, kind):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_file_that_has_not_changed_is_not_sent_again(client, folder):
    first = client.get("/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    (folder / "app.js").write_text("changed")
    changed = client.get("/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert changed.text == "changed"


OTHERS = """
/notes.txt /nothing.js /..%2fsecret.html /%2e%2e/secret.html /../secret.html /page/index.html
/%00.js /index.html%00 /index.html/
""".split()


@pytest.mark.parametrize("path", OTHERS)
def test_nothing_else_is_served(client, folder, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text
