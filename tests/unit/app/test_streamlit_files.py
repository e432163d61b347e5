"""What a browser loads before it shows a page: files from memory, and HTML that says where its server is and which scripts come."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit import file_util

from indoubt.app.streamlit_files import IndexPage, StreamlitFiles, scripts_of_every_page

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


HTML = "<html><head><title>é</title><script>window.first = true</script><script src='a.js'></script></head></html>"
BROWSER = {"accept": "text/html,*/*", "accept-encoding": "gzip", "if-none-match": "the-file"}


async def page(request: Request) -> Response:
    conditional = {"accept-encoding", "if-none-match"} & set(request.headers)
    return HTMLResponse(HTML, headers={"etag": "the-file", "x-asked": " ".join(sorted(conditional))})


async def text(request: Request) -> Response:
    return PlainTextResponse("<script>")


@pytest.fixture
def scripts() -> tuple[str, ...]:
    return ()


@pytest.fixture
def pages(scripts: tuple[str, ...]) -> TestClient:
    routes = [Route("/transactions", page), Route("/text", text)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(IndexPage, scripts=scripts)]))


def test_the_address_is_told_before_any_script_runs(pages):
    answer = pages.get("/transactions", headers=BROWSER)
    head, _, rest = answer.text.partition("<script>window.__streamlit")
    assert head == "<html><head><title>é</title>"
    assert "BACKEND_BASE_URL" in rest.partition("</script>")[0]
    assert answer.text.replace(f"<script>window.__streamlit{rest.partition('</script>')[0]}</script>", "") == HTML
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_no_copy_of_the_file_itself_is_taken_for_the_page(pages):
    answer = pages.get("/transactions", headers=BROWSER)
    assert answer.headers["x-asked"] == ""
    assert "etag" not in answer.headers


@pytest.mark.parametrize(("path", "accept"), [("/transactions", "*/*"), ("/text", "text/html")])
def test_what_is_no_page_for_a_browser_passes_as_it_is(pages, path, accept):
    assert "BACKEND_BASE_URL" not in pages.get(path, headers={"accept": accept}).text


@pytest.mark.parametrize("scripts", [("a.js", "b.js")])
def test_the_browser_fetches_the_other_scripts_of_a_page_with_the_first_ones(pages):
    answer = pages.get("/transactions", headers=BROWSER)
    assert answer.text.count("modulepreload") == 1
    assert '<link rel="modulepreload" crossorigin href="./static/js/b.js"></head>' in answer.text


def test_the_app_is_called_for_each_page_that_a_browser_opens():
    opened: list[str] = []
    routes = [Route("/transactions", page), Route("/text", text)]
    index = Middleware(IndexPage, opened=lambda: opened.append("one"))
    client = TestClient(Starlette(routes=routes, middleware=[index]))
    client.get("/transactions", headers=BROWSER)
    assert opened == ["one"]
    client.get("/text", headers={"accept": "*/*"})
    assert opened == ["one"]
