"""Docstrings as the site needs them: formulas as MathML, so that no script has to draw them, and examples."""

from __future__ import annotations

import re
from typing import Any

import griffe
from latex2mathml.converter import convert

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
    """A docstring with formulas in MathML, tables and doctests in fences, and `Examples` as its title."""
    text = TABLE.sub(lambda match: "```text\n" + INLINE.sub(r"\1", match[0]).replace("`", "") + "\n```", text)
    text = BLOCK.sub(lambda match: f"{match[1]}{formula_block(match[2])}\n\n", text)
    text = INLINE.sub(lambda match: mathml(match[1], "inline"), text)
    text = DOCTEST.sub(r"```pycon\n\1\n```", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)


def formula_block(latex: str) -> str:
    """A formula on its own line; one that is wider than the page scrolls, see `docs/styles/extra.css`."""
    return f'<div class="formula">{mathml(latex, "block")}</div>'


def mathml(latex: str, display: str) -> str:
    """A formula as MathML; `display` is `"inline"` or `"block"`."""
    formula = convert(" ".join(latex.split()), display=display)
    # Markdown must not read the signs inside as markup.
    return re.sub(r"(?<=>)[*_]+(?=<)", lambda match: "".join(f"&#{ord(c)};" for c in match[0]), formula)
