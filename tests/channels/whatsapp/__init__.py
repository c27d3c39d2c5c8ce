import subprocess
import warnings

with warnings.catch_warnings():
    # The library's import asks `uname` twice and leaves the pipes open; warnings are errors in tests.
    warnings.simplefilter("ignore", ResourceWarning)
    import neonize  # noqa: F401

    while subprocess._active:  # type: ignore[attr-defined]
        subprocess._cleanup()  # type: ignore[attr-defined]
