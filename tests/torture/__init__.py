"""`make torture`: random attacks on numerics, training, file parsers and the lab, repeatable by a seed.

    PYTHONPATH=tests python -m torture --quick
    PYTHONPATH=tests python -m torture --only numeric --case em:4711

pytest does not run these programs; tests/test_torture.py tests that they find faults.
"""
