"""Docstrings as the site needs them: formulas as MathML, so that no script has to draw them, and examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert

DOCS = Path(__file__).parents[1]
# A page of the site as docstrings name it: its path in the repository.
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md")
INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*)?)*)", flags=re.MULTILINE)
TABLE = re.compile(r"^=+(?: +=+)+\n.*?\n=+(?: +=+)+\n.*?\n=+(?: +=+)+$", flags=re.MULTILINE | re.DOTALL)
# A doctest outside of a section "Example:" starts a paragraph at the margin.
DOCTEST = re.compile(r"(?<=\n\n)(>>>.*?)(?=\n\n|\n?\Z)", flags=re.DOTALL)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring with formulas in MathML, tables in Markdown, doctests in fences and links to pages."""
    text = PAGE.sub(lambda match: page_link(match[1]), text)
    text = TABLE.sub(lambda match: markdown_table(match[0]), text)
    text = BLOCK.sub(lambda match: f"{match[1]}{formula_block(match[2])}\n\n", text)
    text = INLINE.sub(lambda match: mathml(match[1], "inline"), text)
    text = DOCTEST.sub(r"```pycon\n\1\n```", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)


def page_link(page: str) -> str:
    """A link from an API page, such as `api/routing.md`, to another page of the site.

    >>> page_link("viewpoint")
    '[Viewpoints](../viewpoint.md)'
    """
    title = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
    return f"[{title}](../{page}.md)"


def markdown_table(table: str) -> str:
    """A table between rules of equals signs, which give the columns their widths, as Markdown.

    >>> print(markdown_table("=====  =====\\nvotes  who\\n=====  =====\\n`All`  every child\\n=====  ====="))
    | votes | who |
    | --- | --- |
    | `All` | every child |
    """
    rule, head, _, *rows = table.splitlines()[:-1]
    starts = [match.start() for match in re.finditer(r"=+", rule)]
    ends: list[int | None] = [*starts[1:], None]
    cells = [[line[start:end].strip() for start, end in zip(starts, ends)] for line in (head, *rows)]
    lines = [cells[0], ["---"] * len(starts), *cells[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def formula_block(latex: str) -> str:
    """A formula on its own line; one that is wider than the page scrolls, see `docs/styles/extra.css`."""
    return f'<div class="formula">{mathml(latex, "block")}</div>'


def mathml(latex: str, display: str) -> str:
    """A formula as MathML; `display` is `"inline"` or `"block"`."""
    formula = convert(" ".join(latex.split()), display=display)
    # Markdown must not read the signs inside as markup.
    return re.sub(r"(?<=>)[*_]+(?=<)", lambda match: "".join(f"&#{ord(c)};" for c in match[0]), formula)
