"""Mutation runs: break the code in one place, run the tests that execute that place, and see whether one fails.

The mutants are those of mutmut 3 (its operators are used, not its runner). They are drawn per module with a seed, and
each runs in a copy of the tree, in a forked process, with a limit on its CPU time. Which tests run a line is recorded
once, under coverage; a mutant then costs about two seconds, one that survives up to a minute.

    pip install "mutmut>=3.8"
    python -m tests.programs.mutation --learn tests/core/protocol tests/core/conversation/test_conversation.py
    python -m tests.programs.mutation --module agui_client/_core/protocol/verify.py --sample 20 --seed 1
    python -m tests.programs.mutation --module agui_client/_core/protocol --report mutants.md

The copy is made by `--learn`, which also takes the tests that were added since; when the package itself has changed,
the tests must be recorded anew. Each test runs on unmutated code before it runs on a mutant, and judges nothing if it
does not pass there. What then becomes of a mutant has a column of its own in the table:

failed
    pytest ended with code 1 and reported a test that failed.
not collected
    The module could not be imported, or a file of tests could not be collected, which it could on unmutated code.
hung
    The tests used three times the CPU time, or six times the time, that they took when they were recorded. Before
    that, pytest has 10 and 60 seconds to start.
survived
    All tests passed that were chosen; a higher `--seconds` chooses more. Not every survivor is a gap: a changed default
    that no caller relies on, or a cache that is filled twice, is harmless.
not judged
    Anything else, such as a test that does not exist any more, an interrupt, or an error of pytest: no kill. Each is
    printed with its reason, as are tests that do not pass on unmutated code, and modules that no recorded test runs.

The first three are kills. A mutant that was killed is not run again unless `--fresh` is given, so a second run over the
same sample tells what new tests achieve; `outcomes.json` in the folder of the copy has the reason of each kill.
"""
