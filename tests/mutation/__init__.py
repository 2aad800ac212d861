"""Mutation runs: break the code in one place, run the tests that execute that place, and see whether one fails.

The mutants are those of mutmut 3 (its operators are used, not its runner). They are drawn per module with a seed, and
each runs in a copy of the tree, in a forked process, with a limit on its CPU time. Which tests run a line is recorded
once, under coverage; a mutant then costs about two seconds, one that survives up to a minute.

    pip install "mutmut>=3.8"
    python -m tests.mutation --learn tests/pipeline tests/test_conversation.py
    python -m tests.mutation --module agui_client/_protocol/verify.py --sample 20 --seed 1
    python -m tests.mutation --module agui_client/_protocol --module agui_client/conversation.py --report mutants.md

The copy is made by `--learn`, which also takes the tests that were added since; when the package itself has changed,
the tests must be recorded anew. A mutant that was killed is not run again unless `--fresh` is given, so a second run
over the same sample tells what new tests achieve. A mutant that makes tests hang counts as killed, in a column of its
own; `results.json` in the folder of the copy names the test that failed on each of the others. Not everything that
survives is a gap: a changed default that no caller relies on, or a cache that is filled twice, is harmless.
"""
