"""Pages of the site that live in the root of the repository, and links to files that are not pages."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/torchcaps/torchcaps/blob/main/"
# Source in the repository, and its place in the site.
PAGES = {
    "CLAIMS.md": "claims.md",
    "RESULTS.md": "results.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results.md": "speed.md",
}
LINK = re.compile(
    r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)|(?:(?<=src=\")|(?<=srcset=\")|(?<=href=\"))(?![a-z]+:|#)([^\"#]+)"
)
FENCE = re.compile(r"(^ *```.*?^ *```$)", flags=re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and the pictures that they show."""
    for source, place in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
        for target in _targets(text):
            path = ROOT / Path(source).parent / target
            if path.suffix in (".png", ".svg") and path.is_file() and not target.startswith("docs/"):
                files.append(File.generated(config, target, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write links as they are in the site: to a page, to a file of the site, or to the repository."""
    place = page.file.src_uri
    source = next((name for name, to in PAGES.items() if to == place), f"docs/{place}")
    parts = FENCE.split(markdown)
    for number in range(0, len(parts), 2):
        parts[number] = LINK.sub(lambda match: site_link(match, source, page, files), parts[number])
    return "".join(parts)


def site_link(match: re.Match[str], source: str, page: Any, files: Files) -> str:
    """A relative link of a page in the repository, as it is in the site.

    Args:
        match: of `LINK`: a link in Markdown, or one in HTML, which MkDocs leaves as it is.
        source: path of the page in the repository.
        page: the page.
        files: all files of the site.
    """
    path = normpath(str(PurePosixPath(source).parent / match[0]))
    to = PAGES.get(path, path.removeprefix("docs/"))
    file = files.get_file_from_path(to)
    if file is not None and file.inclusion.is_included():
        if match[2]:
            return file.url_relative_to(page.file)
        return relpath(to, str(PurePosixPath(page.file.src_uri).parent))
    if (ROOT / path).exists():
        return REPOSITORY + path
    return match[0]  # which the strict build then complains about


def _targets(text: str) -> set[str]:
    return {match[0] for match in LINK.finditer(FENCE.sub("", text))}
