"""The site is whole: every link leads on, and nothing is asked of the network. MkDocs sees to the documents."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import types
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "site"))
from built_site import Site  # noqa: E402

sys.path.insert(0, str(ROOT / "tools" / "site"))
import links  # noqa: E402

DOCUMENTS = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
REPORTS = {f"reports/examples/{name}.html" for name in ("leak", "out_of_memory", "fit", "tensorflow")}


def page_of(document: str) -> str:
    if document == "../README.md":
        return "index.html"
    return re.sub(r"(^|/)README\.html$", r"\1index.html", document.removesuffix(".md") + ".html")


def test_every_link_leads_to_a_page_and_a_place_that_exist(site: Site) -> None:
    broken = []
    for name, page in site.pages.items():
        base = "" if name == "404.html" else posixpath.dirname(name)
        for link in [*page.links, *page.loaded]:
            path, _, fragment = unquote(link).partition("#")
            if re.match("[a-z]+:", path):
                continue
            target = posixpath.normpath(posixpath.join(base, path.removeprefix("/"))) if path else name
            there = site.folder / target
            there = there / "index.html" if there.is_dir() else there
            ids = site.pages[there.relative_to(site.folder).as_posix()].ids if there.suffix == ".html" else set()
            if not there.is_file() or (fragment and fragment not in ids):
                broken.append((name, link))
    assert broken == []


def test_nothing_is_loaded_from_another_address(site: Site) -> None:
    loaded = {one for page in site.pages.values() for one in page.loaded}
    assert [one for one in loaded if re.match("(https?:)?//", one)] == []
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.folder.rglob("*.css"))
    assert re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*""", sheets) == []
    assert not any(site.folder.rglob("sitemap*"))


def test_every_page_says_what_it_is(site: Site) -> None:
    for name, page in site.pages.items():
        assert page.title, name
        if name not in REPORTS and name != "404.html":
            assert page.description, name
    titles = [page.title for page in site.pages.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("document", ["../README.md", *DOCUMENTS])
def test_document_reads_as_on_the_page_of_a_repository(site: Site, document: str) -> None:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    there = MarkdownIt("commonmark").enable("table").render(text)
    page = site.pages[page_of(document)]
    assert words(page.text.replace("#", "")) == words(re.sub("<[^>]+>", "", there).replace("#", ""))
    for element in ("ul", "ol", "li", "td", "pre", "img", "h2", "h3"):
        assert page.elements.count(element) == len(re.findall(rf"<{element}[ >/]", there)), element


def words(text: str) -> list[str]:
    import html

    return re.findall(r"[\w.]+", html.unescape(text))


def test_search_knows_words_of_every_page(site: Site) -> None:
    told = json.loads((site.folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].split("#")[0] for entry in told["docs"] if entry["text"]}
    assert set(site.pages) - {"404.html"} - REPORTS - found == set()
    assert (site.folder / "search" / "search_index.js").exists()


@pytest.mark.parametrize("page", sorted(REPORTS))
def test_example_report_is_drawn_and_the_documents_lead_to_it(site: Site, page: str) -> None:
    text = (site.folder / page).read_text(encoding="utf-8")
    assert "<svg" in text and len(text) > 10_000
    assert posixpath.basename(page) in site.pages["reports/examples/index.html"].links
    assert "reports/examples/index.html" in site.pages["index.html"].links


def test_a_file_of_the_repository_is_linked_once_there_is_an_address() -> None:
    text = "[one](../../tests/site#a), [two](detection.md), [three](https://a.b), [four](../reports/examples/fit.json)"
    for source, one in {"": "one", "https://x.y/{}/v1/": "[one](https://x.y/tree/v1/tests/site#a)"}.items():
        led = links.led(text, "tutorials/find_a_leak.md", source)
        assert led == f"{one}, [two](detection.md), [three](https://a.b), [four](../reports/examples/fit.html)"


def test_links_of_the_readme_lead_on_from_the_first_page() -> None:
    text = "[one](docs/leaks.md#a), ![two](docs/pictures/b.svg), [three](tests/README.md), [four](https://a.b)"
    page = links.from_root(text)
    assert page == "[one](leaks.md#a), ![two](pictures/b.svg), [three](../tests/README.md), [four](https://a.b)"
    assert links.led(page, "index.md", "") == "[one](leaks.md#a), ![two](pictures/b.svg), three, [four](https://a.b)"


@pytest.mark.parametrize("home", ["", "https://git.example/us/it"])
def test_the_head_has_the_version_and_leads_to_the_repository_where_that_has_an_address(home: str, monkeypatch) -> None:
    pytest.importorskip("mkdocs", reason="tools/setup installs what builds the site")
    import hooks
    from mkdocs.config import load_config

    monkeypatch.setattr(hooks.project_metadata, "read", lambda: types.SimpleNamespace(version="1.2.3", home=home))
    config = hooks.on_config(load_config(str(ROOT / "tools" / "site" / "mkdocs.yml")))
    assert config.site_name == "frugal_alloc 1.2.3" and config.repo_url == (home or None)


def refused(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "tools" / "site"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("all my work")
    assert "has files that are not a site's" in refused("--out", str(tmp_path))
    assert "File exists" in refused("--out", str(thesis))
    assert thesis.read_text() == "all my work"


def test_an_argument_that_is_not_known_is_refused_in_one_line() -> None:
    assert "--lots" in refused("--lots")
