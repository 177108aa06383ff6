"""The page with the licences of what others wrote and the site has in it."""

from __future__ import annotations

from importlib import metadata

PAGE = "licences.md"
# The theme's scripts have these in them, as the comments that it keeps in its source map and its bundle say.
_IN_THE_THEME = (
    (
        "Material for MkDocs",
        "MIT",
        "style sheets, scripts, templates; icons of Material Design (Apache License 2.0)",
    ),
    ("lunr.js", "MIT", "search"),
    ("clipboard.js", "MIT", "buttons that copy code"),
    ("RxJS", "Apache License 2.0", "events"),
    ("escape-html, focus-visible, fuzzaldrin-plus", "MIT", "parts of the scripts"),
)

_MADE_WITH = ("mkdocs", "mkdocs-material", "mkdocstrings-python", "Pygments")


def page() -> str:
    rows = "\n".join(f"| {name} | {licence} | {used} |" for name, licence, used in _IN_THE_THEME)
    made_with = "\n".join(
        f"- {name} {metadata.version(name)}"
        for name in ("mkdocs", "mkdocs-material", "mkdocstrings-python", "Pygments")
    )
    return f"""# Licences of this site

The documents are under [frugal_alloc's licence](../LICENSE). These scripts and style sheets of others are in the site,
unchanged:

| work | licence | for |
| --- | --- | --- |
{rows}

Nothing is loaded from another address. The pages were made with:

{made_with}

## Material for MkDocs

```text
{_licence_of("mkdocs-material")}
```
"""


def _licence_of(package: str) -> str:
    found = next(path for path in metadata.files(package) or () if path.name.startswith("LICENSE"))
    return found.locate().read_text(encoding="utf-8").strip()
