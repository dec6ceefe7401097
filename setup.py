"""Metadata is in pyproject.toml; this builds the fused kernels, if a C++ compiler is to be had."""

import subprocess
import tempfile
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import find_packages, setup

KERNELS = Path("src/torchcaps/kernels/csrc")

# Contraction to fused multiply-add is what makes the loops fast; errno and traps are nobody's concern here.
# No -march: each lanes_*.cpp names the instruction set it is for, and the choice is made at run time.
FLAGS = [
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-Wno-psabi",
]


class BuildKernels(build_ext):
    """Builds with OpenMP where the compiler has it; a failure does not fail the installation."""

    def build_extension(self, extension: Pybind11Extension) -> None:
        """Compile, and say in one line what is lost, if anything."""
        openmp = self.has_openmp()
        extension.extra_compile_args += ["-fopenmp"] * openmp
        extension.extra_link_args += ["-fopenmp"] * openmp
        try:
            super().build_extension(extension)
        except Exception:
            print("torchcaps: no working C++ compiler, so no fused kernels: routing takes its slower form")
            raise  # setuptools goes on, as the extension is optional
        if not openmp:
            print("torchcaps: no OpenMP here, the fused kernels will use one thread")

    def has_openmp(self) -> bool:
        """Whether a program that asks for threads compiles and links."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.cpp")
            source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
            command = [*self.compiler.compiler_cxx, "-fopenmp", str(source), "-o", str(Path(folder, "probe"))]
            try:
                return subprocess.run(command, capture_output=True, check=False).returncode == 0
            except OSError:
                return False


setup(
    # The recipes stand beside the code for people to find, and travel inside the package.
    packages=[*find_packages("src"), "torchcaps.recipes"],
    package_dir={"": "src", "torchcaps.recipes": "recipes"},
    package_data={
        "torchcaps": [
            "py.typed",
            "kernels/csrc/*.cpp",
            "kernels/csrc/*.h",
            "lab/assets/*",
            "lab/static/**/*",
            "weights/*",
            "experiments/framework/*.css",
        ],
        "torchcaps.recipes": ["*.toml"],
    },
    ext_modules=[
        Pybind11Extension(
            "torchcaps.kernels._native",
            sources=sorted(str(path) for path in KERNELS.glob("*.cpp")),
            depends=sorted(str(path) for path in KERNELS.glob("*.h")),
            extra_compile_args=FLAGS,
            cxx_std=17,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernels},
)
