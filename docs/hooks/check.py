"""What the strict build does not see: dead links in built pages, and public names that no API page shows."""

from __future__ import annotations

import html
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from mkdocs.exceptions import PluginError

LINK = re.compile(r'(?:href|src|srcset)="([^"]*)"')
ANCHOR = re.compile(r'\b(?:id|name)="([^"]+)"')
MODULES = (
    "torchcaps",
    "torchcaps.data",
    "torchcaps.experiments",
    "torchcaps.kernels",
    "torchcaps.layers",
    "torchcaps.models",
    "torchcaps.parsing",
    "torchcaps.poses",
    "torchcaps.routing",
    "torchcaps.training",
    "torchcaps.votes",
)


def on_post_build(config: Any) -> None:
    """Stop the build with all that is wrong."""
    site = Path(config["site_dir"])
    faults = dead_links(site) + hidden_names(site / "api")
    if faults:
        raise PluginError("\n".join(faults))


def dead_links(site: Path) -> list[str]:
    """Links between pages of a built site that lead to no file or to no place in it."""
    pages = {path.resolve(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(map(html.unescape, ANCHOR.findall(text))) for path, text in pages.items()}
    faults = []
    for page, text in pages.items():
        if page.name == "404.html":  # its links are absolute: it is shown at any address
            continue
        for link in dict.fromkeys(map(html.unescape, LINK.findall(text))):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            file = (page.parent / target.partition("?")[0]).resolve() if target else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                faults.append(f"{page.relative_to(site.resolve())}: no file {link}")
            elif anchor and file in anchors and anchor not in anchors[file]:
                faults.append(f"{page.relative_to(site.resolve())}: no place {link}")
    return faults


def hidden_names(folder: Path) -> list[str]:
    """Names in `__all__` of the public modules that are on no API page; a module counts as its members."""
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.html"))
    shown = {place.rpartition(".")[2] for place in re.findall(r'id="(torchcaps\.[\w.]+)"', text)}
    faults = []
    for name in MODULES:
        module = importlib.import_module(name)
        for each in module.__all__:
            if each not in shown and not isinstance(getattr(module, each), ModuleType):
                faults.append(f"{name}.{each} is on no API page: does it have a docstring?")
    return faults
