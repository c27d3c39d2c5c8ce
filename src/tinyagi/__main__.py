"""Starts the `tinyagi` command, also as `python -m tinyagi`."""


def main() -> None:
    """Load and run the command; Ctrl-C ends it without a traceback, also while it loads."""
    try:
        from tinyagi.cli.main import main as run  # noqa: PLC0415 - it takes most of the time of a short command

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
