"""Builds the fused kernels where a C++ compiler is installed; the metadata is in pyproject.toml."""

import re
import subprocess
import tempfile
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import find_packages, setup

CSRC = Path("src/torchcaps/kernels/csrc")
REPOSITORY = "https://github.com/torchcaps/torchcaps"


def long_description() -> str:
    """The README with absolute links: a package index does not have the files beside it."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{REPOSITORY}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{REPOSITORY}/blob/main/", text)


# The loops are fast because products and sums contract to fused multiply-add; nothing reads errno or traps.
# No -march: each lanes_*.cpp names its own instruction set, and the one to use is chosen at run time.
FLAGS = [
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-Wno-psabi",
]


class BuildKernels(build_ext):
    """Build with OpenMP where the compiler has it; a failure does not fail the installation."""

    def build_extension(self, extension: Pybind11Extension) -> None:
        """Compile the extension, and print one line if it or its threads are missing."""
        openmp = self.has_openmp()
        extension.extra_compile_args += ["-fopenmp"] * openmp
        extension.extra_link_args += ["-fopenmp"] * openmp
        try:
            super().build_extension(extension)
        except Exception:
            print("torchcaps: no working C++ compiler, so no fused kernels: routing uses the plain form")
            raise  # setuptools continues, because the extension is optional
        if not openmp:
            print("torchcaps: the compiler has no OpenMP, so the fused kernels use one thread")

    def has_openmp(self) -> bool:
        """Whether a program that uses OpenMP compiles and links."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.cpp")
            source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
            command = [*self.compiler.compiler_cxx, "-fopenmp", str(source), "-o", str(Path(folder, "probe"))]
            try:
                return subprocess.run(command, capture_output=True, check=False).returncode == 0
            except OSError:
                return False


setup(
    long_description=long_description(),
    long_description_content_type="text/markdown",
    # The recipes are in a folder of their own in the repository, and inside the package when installed.
    packages=[*find_packages("src"), "torchcaps.recipes"],
    package_dir={"": "src", "torchcaps.recipes": "recipes"},
    # Data folders without Python files are no packages: setuptools would warn about each of them.
    include_package_data=False,
    package_data={
        "": ["*.pyi", "py.typed"],
        "torchcaps": [
            "kernels/csrc/*.cpp",
            "kernels/csrc/*.h",
            "experiments/**/*.css",
            "lab/assets/*",
            "lab/static/**/*",
            "weights/*",
        ],
        "torchcaps.recipes": ["*.toml"],
    },
    ext_modules=[
        Pybind11Extension(
            "torchcaps.kernels._native",
            sources=sorted(str(path) for path in CSRC.glob("*.cpp")),
            depends=sorted(str(path) for path in CSRC.glob("*.h")),
            extra_compile_args=FLAGS,
            cxx_std=17,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernels},
)
