"""The HTML that pages start from: Streamlit's script is told where its server is and the browser which scripts come, and all else
passes as it is."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from indoubt.app.streamlit_files import IndexPage

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
def client(scripts: tuple[str, ...]) -> TestClient:
    routes = [Route("/transactions", page), Route("/text", text)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(IndexPage, scripts=scripts)]))


def test_the_address_is_told_before_any_script_runs(client):
    answer = client.get("/transactions", headers=BROWSER)
    head, _, rest = answer.text.partition("<script>window.__streamlit")
    assert head == "<html><head><title>é</title>"
    assert "BACKEND_BASE_URL" in rest.partition("</script>")[0]
    assert answer.text.replace(f"<script>window.__streamlit{rest.partition('</script>')[0]}</script>", "") == HTML
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_no_copy_of_the_file_itself_is_taken_for_the_page(client):
    answer = client.get("/transactions", headers=BROWSER)
    assert answer.headers["x-asked"] == ""
    assert "etag" not in answer.headers


@pytest.mark.parametrize(("path", "accept"), [("/transactions", "*/*"), ("/text", "text/html")])
def test_what_is_no_page_for_a_browser_passes_as_it_is(client, path, accept):
    assert "BACKEND_BASE_URL" not in client.get(path, headers={"accept": accept}).text


@pytest.mark.parametrize("scripts", [("a.js", "b.js")])
def test_the_browser_fetches_the_other_scripts_of_a_page_with_the_first_ones(client):
    answer = client.get("/transactions", headers=BROWSER)
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
