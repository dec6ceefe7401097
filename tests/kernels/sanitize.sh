#!/bin/sh
# Run the kernel tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer (GCC, Linux).
# test_arguments.py calls the operators with wrong arguments; a read out of bounds is an error here.
# Usage: tests/kernels/sanitize.sh [python [options of pytest]]
set -eu
cd "$(dirname "$0")/../.."
python=$(realpath -s "${1:-.venv/bin/python}")
[ $# -eq 0 ] || shift
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

cp -r src/torchcaps "$build/"
rm -f "$build"/torchcaps/kernels/_native*.so
flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
CFLAGS="$flags" CXXFLAGS="$flags" LDFLAGS="$flags" \
    "$python" setup.py --quiet build_ext --build-lib "$build" --build-temp "$build/objects"
ls "$build"/torchcaps/kernels/_native*.so

# The interpreter is not instrumented, so the runtimes are loaded first and leaks are not detected.
# Tests that compile or export run the same code, and those of Triton none of it: they are left out.
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH="$build" TORCHCAPS_KERNELS=on \
    "$python" -m pytest -p no:cacheprovider tests/kernels --ignore tests/kernels/triton \
    -k "not compile and not export and not opcheck and not without" "$@"
