import warnings

with warnings.catch_warnings():
    # Its import asks `uname` and leaves the pipe open; warnings are errors in tests.
    warnings.simplefilter("ignore", ResourceWarning)
    import neonize  # noqa: F401
