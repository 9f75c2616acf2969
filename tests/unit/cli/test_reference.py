"""The reference pages say what the code says."""

from pathlib import Path

from docs.generate import REFERENCE, pages


def test_every_page_is_what_the_code_generates_now() -> None:
    written = {
        path.name: path.read_text(encoding="utf-8") for path in Path(REFERENCE).glob("*.md") if path.name in pages()
    }
    assert written == pages(), "run `python docs/generate.py`"
