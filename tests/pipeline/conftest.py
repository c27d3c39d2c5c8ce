"""One Spark session for every test of the pipeline: starting one takes longer than most of them."""

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tinyagi.pipeline.spark.java import find_java
from tinyagi.pipeline.spark.session import open_session
from tinyagi.pipeline.spark.session_settings import Size
from tinyagi.settings.environment import snapshot


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A quiet local session on two cores, ended after the last test."""
    folder = tmp_path_factory.mktemp("spark")
    java = find_java(snapshot(), folder / "java")
    with (
        pytest.MonkeyPatch.context() as patch,
        open_session(
            java=java, scratch=folder / "scratch", master="local[2]", memory="1g", size=Size.MIDDLE
        ) as session,
    ):
        # PySpark asks `tput` for colour support through a pipe that it never closes.
        patch.setattr("pyspark.testing.utils._terminal_color_support", lambda: False)
        # pytest adds its handlers to every logger that does not propagate, and PySpark's would give them its own
        # formatter, which is then that of all tests to come.
        patch.setattr(PySparkLogger, "addHandler", logging.Logger.addHandler)
        yield session
