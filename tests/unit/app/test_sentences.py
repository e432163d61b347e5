"""The command that prints every sentence of the pages: what it takes for one."""

from __future__ import annotations

from tests import sentences

SOURCE = '''
"""A docstring is read by developers."""
QUERY = "select a from b where c"
def said(count, log):
    """So is this one here."""
    log.info("a line of the log")
    return "No reader waits." if not count else f"{count} readers wait " "for a transaction"
KEY = "x-y"
'''


def test_sentences_are_what_a_page_can_show() -> None:
    assert list(sentences.sentences(SOURCE)) == [(7, "No reader waits."), (7, "… readers wait for a transaction")]


def test_every_folder_that_pages_show_is_there(capsys) -> None:
    sentences.main()
    told = capsys.readouterr().out
    assert all(f"\n{folder}/" in told for folder in sentences.SHOWN)
    assert "✔ No reader waits." in told
