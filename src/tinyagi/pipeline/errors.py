"""What can go wrong in the pipeline: each message names the thing and the remedy."""

from tinyagi.domain.errors import TinyAGIError


class PipelineError(TinyAGIError):
    """The pipeline could not do what it was asked; the queue is not affected."""


class JavaMissing(PipelineError):
    """No Java that Spark can use was found."""


class LakeBusy(PipelineError):
    """Another process writes the lake."""


class LakeBroken(PipelineError):
    """The lake's files do not say what they should."""


class LakeChanged(PipelineError):
    """Another commit came between plan and commit; nothing was written."""
