"""What MkDocs asks for as it builds the site: https://www.mkdocs.org/user-guide/configuration/#hooks."""

from __future__ import annotations

import pathlib
import re
import sys
from importlib import metadata

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(HERE), str(HERE.parent)]

import example_reports  # noqa: E402
import links  # noqa: E402
import project_metadata  # noqa: E402
import reference  # noqa: E402

# Those of the site that are no documents.
_PAGES = HERE / "pages"
# Letters of code that stay on one line, also behind a hyphen: an option, a name.
_SHORT_CODE = re.compile(r"<code>(?=[^<\n]{1,20}</code>)")
_LONGER_CODE = re.compile(r"(?<=<code>)[^<\n]{21,}(?=</code>)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    project = project_metadata.read()
    config.site_name = f"{config.site_name} {project.version}"
    on_github = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", project.home)
    config.site_url = f"https://{on_github[1].lower()}.github.io/{on_github[2]}/" if on_github else ""
    config.repo_url = project.home or None
    config.extra["source"] = f"{project.home}/{{}}/v{project.version}/" if project.home else ""
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = {path.relative_to(_PAGES).as_posix(): path.read_text(encoding="utf-8") for path in _PAGES.rglob("*.md")}
    made |= {f"reference/{name}": make() for name, make in reference.PAGES.items()}
    made |= {**example_reports.pages(), "licences.md": _licences(), "index.md": links.from_root(_text("README.md"))}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    return links.led(markdown, page.file.src_uri, config.extra["source"])


def on_page_content(content: str, **_: object) -> str:
    content = _SHORT_CODE.sub('<code class="short">', content)
    # Before it is broken within a word, it is broken behind these.
    content = _LONGER_CODE.sub(lambda code: re.sub(r"(?<=[=:,])(?=\w)", "<wbr>", code[0]), content)
    # What is wide scrolls by itself, and what scrolls can be reached by keyboard.
    return content.replace("<table>", '<div class="table" tabindex="0" role="group"><table>').replace(
        "</table>", "</table></div>"
    )


def on_post_build(config: MkDocsConfig) -> None:
    # A map of addresses is of use to a site that has one.
    if not config.site_url:
        for name in ("sitemap.xml", "sitemap.xml.gz"):
            pathlib.Path(config.site_dir, name).unlink(missing_ok=True)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _licences() -> str:
    """The page with the licences of what others wrote and the site has in it."""
    theme = next(path for path in metadata.files("mkdocs-material") or () if path.name.startswith("LICENSE"))
    terms = theme.read_text().strip()
    return f"{_text('tools/site/pages/licences.md')}\n## Material for MkDocs\n\n```text\n{terms}\n```\n"
