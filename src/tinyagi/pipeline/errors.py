"""Errors of the pipeline. Each message names the thing and the remedy."""

from tinyagi.domain.errors import TinyAGIError


class PipelineError(TinyAGIError):
    """The pipeline failed; the queue is not affected."""


class JavaMissing(PipelineError):
    """No Java that Spark can use was found."""


class LakeBusy(PipelineError):
    """Another process is writing the lake."""


class LakeBroken(PipelineError):
    """The lake's files are damaged or contradict each other."""


class LakeChanged(PipelineError):
    """Another commit came between plan and commit; nothing was written."""
