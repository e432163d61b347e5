"""What the sign-in itself answers: redirects, and pages of a few words that need no script."""

from __future__ import annotations

from starlette.responses import HTMLResponse, RedirectResponse, Response

from indoubt.app.components.markup import Child, Html, el

SIGN_IN, CALLBACK, SIGN_OUT = "/sign-in", "/sign-in/callback", "/sign-out"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    # With "no-referrer" a browser would send "Origin: null" with the form that signs out, and be refused.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_STYLE = Html(
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}"
    "button{font:inherit;padding:.5rem 1rem}code{white-space:nowrap}"
)


def page(status: int, heading: str, *children: Child) -> Response:
    """Return a page of a heading and a few lines; what comes from outside is escaped."""
    head = [
        el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{heading} · indoubt"),
        el("style", _STYLE),
    ]
    body = el("html", el("head", head), el("body", el("main", el("h1", heading), children)), lang="en")
    return HTMLResponse(f"<!doctype html>{body}", status_code=status, headers=_HEADERS)


def link(address: str, words: str) -> Html:
    """Return a paragraph with one link."""
    return el("p", el("a", words, href=address))


def sign_out_form(words: str) -> Html:
    """Return the button that signs out; a link would let any other page do it."""
    return el("form", el("button", words, type="submit"), method="post", action=SIGN_OUT)


def redirect(address: str) -> Response:
    """Return a redirect that no cache keeps."""
    return RedirectResponse(address, status_code=303, headers={"Cache-Control": "no-store"})


def no_role(name: str) -> Response:
    """Return the answer to somebody who signed in and may not even look."""
    return page(
        403,
        "You may not use indoubt",
        el(
            "p",
            "You are signed in as ",
            el("b", name),
            ", and none of your groups has a role here. Ask whoever runs indoubt to name one of them in ",
            el("code", "--viewer-group"),
            " (may look) or ",
            el("code", "--operator-group"),
            " (may also order).",
        ),
        link("/", "Try again"),
    )
