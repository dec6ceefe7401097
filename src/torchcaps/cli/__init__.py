"""The command line.

Commands: train, evaluate, predict, reproduce, compare, results, claims, data, models, demo, bench, size, doctor,
lab.

Each command imports what it needs when it runs, so that `--help` does not wait for PyTorch.
"""
