import subprocess
import sys

HEAVY = ["accelerate", "matplotlib", "sklearn", "scipy", "PIL", "typer", "rich", "safetensors"]


def test_heavy_parts_load_only_where_they_are_used() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); import torchcaps; "
        f"print([name for name in {HEAVY} if name in sys.modules and name not in before])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    import torchcaps

    assert all(hasattr(torchcaps, name) for name in torchcaps.__all__)
