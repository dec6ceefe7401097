"""Run the lessons and store what their pages show: `python docs/lessons/run.py [NAME ...]`.

A lesson is a notebook without outputs in docs/lessons, and one with the same code and Chinese text in
docs/zh/lessons. This runs the English one, writes what each cell prints and draws to `outputs/NAME/CELL.txt`
and `.png`, and copies the code into the Chinese one.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
CHINESE = HERE.parent / "zh" / "lessons"
OUTPUTS = HERE / "outputs"


class Shown(NamedTuple):
    """What one cell shows: its text, and its figure as PNG bytes if there is one."""

    text: str
    figure: bytes | None


def run(path: Path, folder: Path, timeout: int = 300) -> dict[str, Shown]:
    """Run a notebook and return what its code cells show, by their ids.

    Args:
        path: the notebook.
        folder: where it runs; files that it writes go there.
        timeout: seconds for one cell.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    # The kernel warns that it listens on a local port; that is what every notebook does.
    quiet = ["--IPKernelApp.log_level=ERROR"]
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=timeout, extra_arguments=quiet, resources=place)
    client.execute()
    return {cell["id"]: shown(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"}


def shown(cell: dict[str, Any]) -> Shown:
    """The outputs of a cell that was run; a warning or a second figure is an error."""
    text, figures = "", []
    for output in cell["outputs"]:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            text += output["text"]
        elif output["output_type"] == "display_data" and "image/png" in output["data"]:
            figures.append(base64.b64decode(output["data"]["image/png"]))
        else:
            raise ValueError(f"cell {cell['id']} shows more than print and one figure: {output}")
    if len(figures) > 1:
        raise ValueError(f"cell {cell['id']} draws {len(figures)} figures, a page has room for one")
    return Shown(text, figures[0] if figures else None)


def store(name: str, cells: dict[str, Shown]) -> None:
    """Write the outputs of a lesson in place of those that are stored."""
    from PIL import Image

    folder = OUTPUTS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for cell, (text, figure) in cells.items():
        if text:
            (folder / f"{cell}.txt").write_text(text, encoding="utf-8")
        if figure:
            # 128 colors are enough for these figures, and a third of the size.
            picture = Image.open(io.BytesIO(figure)).convert("RGB").quantize(128)
            picture.save(folder / f"{cell}.png", optimize=True)


def copy_code(name: str) -> None:
    """Give the Chinese notebook the code of the English one."""
    english = json.loads((HERE / f"{name}.ipynb").read_text("utf-8"))
    code = {cell["id"]: cell["source"] for cell in english["cells"] if cell["cell_type"] == "code"}
    path = CHINESE / f"{name}.ipynb"
    chinese = json.loads(path.read_text("utf-8"))
    for cell in chinese["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = code[cell["id"]]
    path.write_text(json.dumps(chinese, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    for lesson in sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb")):
        with TemporaryDirectory() as scratch:
            store(lesson, run(HERE / f"{lesson}.ipynb", Path(scratch)))
        copy_code(lesson)
        print(lesson)
