"""What MkDocs asks for as it builds the site: https://www.mkdocs.org/user-guide/configuration/#hooks."""

from __future__ import annotations

import html
import logging
import pathlib
import re
import sys
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent)]
# This file is read for each build. What it makes pages of may have changed since the one before.
for name in [one for one in sys.modules if one.partition(".")[0] in ("site_parts", "project_metadata", "frugal_alloc")]:
    del sys.modules[name]

import project_metadata  # noqa: E402
from site_parts import (  # noqa: E402
    anchor,
    colours,
    example_reports,
    flowchart,
    licences,
    navigation,
    reference,
    repository_links,
    repository_markdown,
    sequence_chart,
)

_MOST_DESCRIPTION = 160
# Letters of code that stay on one line, also behind a hyphen: an option, a name.
_SHORT_CODE = re.compile(r"<code>(?=[^<\n]{1,20}</code>)")
_LONGER_CODE = re.compile(r"(?<=<code>)[^<\n]{21,}(?=</code>)")
_LOG = logging.getLogger("mkdocs.hooks")
_links: repository_links.RepositoryLinks


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    global _links
    home = project_metadata.read().home
    config.site_url = _pages_address(home)
    if home:
        config.repo_url = home
    config.nav = navigation.navigation([*reference.PAGES], last=[licences.PAGE])
    _links = repository_links.RepositoryLinks(repository_links.RepositoryPages(), example_reports.replaced())
    config.markdown_extensions.append(_links)
    config.mdx_configs["toc"]["slugify"] = anchor
    fence = {"name": "mermaid", "class": "flowchart", "format": _diagram}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def _diagram(source: str, *_: Any, **__: Any) -> str:
    draws = sequence_chart if source.startswith("sequenceDiagram") else flowchart
    try:
        return draws.figure(source)
    except flowchart.NotDrawn as error:
        # Markdown would show the text instead; as a warning it ends the build.
        _LOG.warning(str(error))
        return ""


def _pages_address(home: str) -> str:
    """Of the site on GitHub Pages; "" for a repository elsewhere."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", home)
    return f"https://{found[1].lower()}.github.io/{found[2]}/" if found else ""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made: dict[str, str | bytes] = {name: make() for name, (_, make) in reference.PAGES.items()}
    made |= _links.pages()
    made |= example_reports.pages()
    made |= {licences.PAGE: licences.page(), "assets/colours.css": colours.style_sheet()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    name = page.file.src_uri
    _links.current = name
    if name == "reference/README.md":
        markdown = reference.first_page(markdown)
    if name.startswith(f"{repository_links.FOLDER}/"):
        # They are there to be followed to, and would crowd out what is said of them.
        page.meta["search"] = {"exclude": True}
    return markdown if name in reference.PAGES else repository_markdown.convert(markdown)


def on_page_content(content: str, page: Page, **_: Any) -> str:
    found = re.search(r"<p>(.*?)</p>", content, re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "", found[1])) if found else ""
    text = " ".join(text.split())
    if len(text) > _MOST_DESCRIPTION:
        text = text[:_MOST_DESCRIPTION].rsplit(" ", 1)[0].rstrip(",;:") + " …"
    page.meta.setdefault("description", html.escape(text))
    content = _SHORT_CODE.sub('<code class="short">', content)
    # Before it is broken within a word, it is broken behind these.
    content = _LONGER_CODE.sub(lambda code: re.sub(r"(?<=[=:,])(?=\w)", "<wbr>", code[0]), content)
    # A wide table scrolls by itself, and what scrolls can be reached by keyboard.
    return content.replace("<table>", '<div class="table" tabindex="0" role="group"><table>').replace(
        "</table>", "</table></div>"
    )


def on_post_build(config: MkDocsConfig) -> None:
    # A map of addresses is of use to a site that has one.
    if not config.site_url:
        for name in ("sitemap.xml", "sitemap.xml.gz"):
            pathlib.Path(config.site_dir, name).unlink(missing_ok=True)
