"""Lessons as pages: a notebook of docs/lessons with the stored outputs of its cells, and a link to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docstrings import mathml  # beside this file
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parents[1]
OUTPUTS = DOCS / "lessons" / "outputs"
# Where the notebooks of a language are, with what its pages say around them.
LANGUAGES = {
    "lessons": "[Download this lesson as a notebook]({}) and run it in Jupyter. Solutions are at its end.",
    "zh/lessons": "[下载本课的 notebook]({})，可以在 Jupyter 里逐格运行；习题解答在最后。",
}


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook."""
    for folder in LANGUAGES:
        for path in sorted((DOCS / folder).glob("*.ipynb")):
            files.append(File.generated(config, f"{folder}/{path.stem}.md", content=page(path)))
    return files


def page(path: Path) -> str:
    """The Markdown of a notebook: text, code, outputs, and the solutions folded.

    Args:
        path: of the notebook. The outputs of both languages are those in docs/lessons/outputs.
    """
    folder = path.parent.relative_to(DOCS).as_posix()
    blocks: list[str] = []
    in_solution = False
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = _formulas(source)
        is_solution = "solution" in cell["metadata"].get("tags", [])
        if in_solution and (not is_solution or cell["cell_type"] == "markdown"):
            blocks.append("</details>")
            in_solution = False
        if cell["cell_type"] == "code":
            blocks += [f"```python\n{source}\n```", *_outputs(path, cell)]
        elif is_solution:
            # The first line, a heading in the notebook, is what the folded solution shows.
            title, _, text = source.partition("\n")
            blocks.append(
                f'<details markdown="1"><summary>{title.lstrip("# ")}</summary>\n\n{text.strip()}'.strip()
            )
            in_solution = True
        else:
            blocks.append(source)
            if len(blocks) == 1:
                blocks.append(LANGUAGES[folder].format(path.name))
    if in_solution:
        blocks.append("</details>")
    return "\n\n".join(blocks) + "\n"


def _formulas(text: str) -> str:
    """Formulas between dollar signs, as Jupyter reads them, in MathML."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda match: mathml(match[1], "block"), text, flags=re.DOTALL)
    return re.sub(r"\$([^$\n]+)\$", lambda match: mathml(match[1], "inline"), text)


def _outputs(path: Path, cell: dict[str, Any]) -> list[str]:
    """What the cell printed, then its figure, as they were stored."""
    stored = OUTPUTS / path.stem / cell["id"]
    blocks = []
    if (text := stored.with_suffix(".txt")).exists():
        blocks.append(f"```text\n{text.read_text('utf-8').rstrip()}\n```")
    if (picture := stored.with_suffix(".png")).exists():
        up = "../" * (path.parent.relative_to(DOCS).as_posix().count("/") + 1)
        place = picture.relative_to(DOCS).as_posix()
        blocks.append(f"![{cell['metadata']['alt']}]({up}{place})")
    return blocks
