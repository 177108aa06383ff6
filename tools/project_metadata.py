"""What the project says of itself, in the files that pip and package indexes read (core metadata 2.4).

It comes from pyproject.toml, the version from the package, and the long description from the README.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path("bindings", "frugal_alloc")
# Below the project's address; {version} is that of what is packed.
LINKS = {
    "Homepage": "",
    "Documentation": "/blob/v{version}/README.md#read-on",
    "Issues": "/issues",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
}
# A Markdown link to a file of the repository.
RELATIVE_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+\))")


@dataclasses.dataclass(frozen=True)
class Project:
    """pyproject.toml as it is read, and the version."""

    table: dict
    version: str
    # The address of the repository's page; "" until the project is published.
    home: str

    @property
    def name(self) -> str:
        return self.table["name"]

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def dist_info(self) -> str:
        return f"{self.stem}.dist-info"

    def license_files(self) -> list[str]:
        """By path below the project's folder."""
        found = [path for pattern in self.table["license-files"] for path in sorted(ROOT.glob(pattern))]
        return [path.relative_to(ROOT).as_posix() for path in found]

    def metadata(self) -> str:
        """The file METADATA of a wheel and PKG-INFO of an sdist."""
        table = self.table
        fields = [
            ("Metadata-Version", "2.4"),
            ("Name", self.name),
            ("Version", self.version),
            ("Summary", table["description"]),
            *(("Author", author["name"]) for author in table["authors"]),
            ("License-Expression", table["license"]),
            *(("License-File", path) for path in self.license_files()),
            ("Keywords", ",".join(table["keywords"])),
            *(("Classifier", classifier) for classifier in table["classifiers"]),
            *(("Project-URL", f"{name}, {url}") for name, url in self._links().items()),
            ("Requires-Python", table["requires-python"]),
            *(("Requires-Dist", requirement) for requirement in table["dependencies"]),
        ]
        for extra, requirements in table["optional-dependencies"].items():
            fields.append(("Provides-Extra", extra))
            fields += [("Requires-Dist", f"{requirement}; extra == '{extra}'") for requirement in requirements]
        fields.append(("Description-Content-Type", "text/markdown; charset=UTF-8"))
        return "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + self._description()

    def entry_points(self) -> str:
        groups = {"console_scripts": self.table["scripts"], **self.table["entry-points"]}
        return "\n".join(
            f"[{group}]\n" + "".join(f"{name} = {entry}\n" for name, entry in entries.items())
            for group, entries in groups.items()
        )

    def _links(self) -> dict[str, str]:
        if not self.home:
            return {}
        return {name: self.home + path.format(version=self.version) for name, path in LINKS.items()}

    def _description(self) -> str:
        """The README; an index has no files of the repository, so links to them lead to its page once there is one."""
        text = (ROOT / self.table["readme"]).read_text(encoding="utf-8")
        return RELATIVE_LINK.sub(rf"\g<1>{self.home}/blob/v{self.version}/\g<2>", text) if self.home else text


def read(root: pathlib.Path = ROOT) -> Project:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    document = toml.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    source = (root / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]
    return Project(document["project"], version, document["tool"]["frugal_alloc"]["home"])
