import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_python_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    shared: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), shared)
