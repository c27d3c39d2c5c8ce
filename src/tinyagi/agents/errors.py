"""What goes wrong around an agent's folder and instructions, told so that the owner can mend it."""

from pathlib import Path

from tinyagi.domain.errors import TinyAGIError


class WorkspaceError(TinyAGIError):
    """An agent's folder cannot be used as it is; nothing that was there before has been changed."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path} {problem}. {remedy}")
        self.path = path


class PromptFileError(TinyAGIError):
    """The agent's prompt_file cannot be read, and an agent never runs without what its owner told it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"The prompt_file {path} {problem}. Correct prompt_file in the agent's settings, or remove it."
        )
        self.path = path
