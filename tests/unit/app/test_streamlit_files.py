"""Streamlit's static files from memory: whole, cached for good, compressed for browsers elsewhere, and no other file."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient
from streamlit import file_util

from indoubt.app.streamlit_files import StreamlitFiles, scripts_of_every_page

SCRIPT = b"export const one = 1;" * 100
FAR = {"host": "pages.example"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    folder = tmp_path / "page"
    (folder / "static" / "js").mkdir(parents=True)
    (folder / "static" / "js" / "one.js").write_bytes(SCRIPT)
    (folder / "static" / "font.woff2").write_bytes(b"font" * 100)
    (tmp_path / "secret.js").write_bytes(b"secret")
    return TestClient(Starlette(middleware=[Middleware(StreamlitFiles, directory=folder)]))


@pytest.mark.parametrize("host", ["pages.example", "127.0.0.1:8651", "localhost", "[::1]:8651"])
def test_a_file_comes_whole_and_may_be_kept_for_good(client, host):
    for _ in range(2):
        answer = client.get("/static/js/one.js", headers={"host": host})
        assert answer.content == SCRIPT
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].startswith("text/javascript")


def test_a_script_is_compressed_for_a_browser_elsewhere(client):
    answer = client.get("/static/js/one.js", headers=FAR)
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(SCRIPT)
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/static/js/one.js", {**FAR, "accept-encoding": "identity"}),
        ("/static/font.woff2", FAR),
        ("/static/js/one.js", {"host": "localhost:8651"}),
        ("/static/js/one.js", {"host": "[::1]"}),
    ],
)
def test_nothing_is_compressed_where_that_does_not_help(client, path, headers):
    assert "content-encoding" not in client.get(path, headers=headers).headers


@pytest.mark.parametrize(
    "path",
    ["/static/js/two.js", "/static/js/../../../secret.js", "/static/js/%2e%2e/%2e%2e/%2e%2e/secret.js", "/one.js"],
)
def test_no_other_file_is_read(client, path):
    assert client.get(path).status_code == 404


def test_a_part_of_a_file_is_streamlits_affair(client):
    assert client.get("/static/js/one.js", headers={"range": "bytes=0-3"}).status_code == 404


def test_the_start_and_end_of_the_server_pass(tmp_path):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])
        await Starlette()(scope, receive, send)

    with TestClient(StreamlitFiles(app, tmp_path)):
        pass
    assert seen == ["lifespan"]


def test_the_scripts_of_every_page_are_there_with_all_that_they_import():
    names = scripts_of_every_page()
    folder = Path(file_util.get_static_dir()) / "static" / "js"
    assert {name.partition(".")[0] for name in names} >= {
        "Html",
        "BidiComponent",
        "ButtonGroup",
        "react-dom",
        "protobuf",
    }
    assert len(names) == len(set(names))
    for name in names:
        assert (folder / name).is_file()
