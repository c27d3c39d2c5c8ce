"""The settings of a session by its size, without a JVM where they need none."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tinyagi.lake_service import LakeService
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.spark.session import SparkSetup, _event_log_folder, open_spark
from tinyagi.pipeline.spark.session_settings import (
    FEW_EVENTS,
    MIDDLE_EVENTS,
    Size,
    event_log_settings,
    local_cores,
    session_settings,
    sql_settings,
    tuned_for_many,
)
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile

COLLECTORS = ("-XX:+UseSerialGC", "-XX:+UseParallelGC")
C1_ALONE = "-XX:TieredStopAtLevel=1"
LARGE_RUN = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.leafNodeDefaultParallelism": "2",
    "spark.sql.shuffle.partitions": "2",
}


def settings_of(size: Size, folder: Path, *, master: str = "local[2]", options: tuple[str, ...] = ()) -> dict[str, str]:
    place = folder / f"{size.value} {master.partition(':')[0]}"
    place.mkdir()
    logging = folder / "log4j2.properties"
    return session_settings(master=master, folder=place, memory="2g", logging=logging, size=size, options=options)


@pytest.mark.parametrize(
    ("events", "size"),
    [
        (0, Size.FEW),
        (FEW_EVENTS - 1, Size.FEW),
        (FEW_EVENTS, Size.MIDDLE),
        (MIDDLE_EVENTS - 1, Size.MIDDLE),
        (MIDDLE_EVENTS, Size.MANY),
    ],
)
def test_the_number_of_events_gives_the_size(events: int, size: Size) -> None:
    assert Size.of(events) is size


@pytest.mark.parametrize("side", ["driver", "executor"])
@pytest.mark.parametrize(
    ("size", "collector", "c1_alone"),
    [
        (Size.FEW, "-XX:+UseSerialGC", True),
        (Size.MIDDLE, "-XX:+UseParallelGC", True),
        (Size.MANY, "-XX:+UseParallelGC", False),
    ],
)
def test_each_size_has_one_collector_and_its_compilers(
    tmp_path: Path, side: str, size: Size, collector: str, c1_alone: bool
) -> None:
    options = settings_of(size, tmp_path)[f"spark.{side}.defaultJavaOptions"].replace('"', "").split()

    # Java ends at its start when it gets two.
    assert [option for option in options if option in COLLECTORS] == [collector]
    assert (C1_ALONE in options) is c1_alone


def test_a_small_run_neither_generates_code_nor_plans_anew(tmp_path: Path) -> None:
    settings = settings_of(Size.FEW, tmp_path)

    assert {name: settings[name] for name in LARGE_RUN} == {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.leafNodeDefaultParallelism": "1",
        "spark.sql.shuffle.partitions": "1",
    }
    assert settings["spark.default.parallelism"] == "1"


@pytest.mark.parametrize("size", [Size.MIDDLE, Size.MANY])
def test_a_larger_run_generates_code_and_uses_every_core(tmp_path: Path, size: Size) -> None:
    settings = settings_of(size, tmp_path)

    assert {name: settings[name] for name in LARGE_RUN} == LARGE_RUN
    assert "spark.default.parallelism" not in settings


@pytest.mark.parametrize("size", Size)
def test_no_size_records_the_lines_of_python_that_make_columns(tmp_path: Path, size: Size) -> None:
    assert settings_of(size, tmp_path)["spark.python.sql.dataFrameDebugging.enabled"] == "false"


def test_further_options_are_for_the_driver_alone_and_may_contain_spaces(tmp_path: Path) -> None:
    settings = settings_of(Size.FEW, tmp_path, options=("-XX:SharedArchiveFile=/a home/x.jsa",))

    assert settings["spark.driver.defaultJavaOptions"].endswith('"-XX:SharedArchiveFile=/a home/x.jsa"')
    assert "x.jsa" not in settings["spark.executor.defaultJavaOptions"]


@pytest.mark.parametrize("size", Size)
def test_a_cluster_is_not_tied_to_this_machine(tmp_path: Path, size: Size) -> None:
    settings = settings_of(size, tmp_path, master="spark://host:7077")

    assert not settings.keys() & {"spark.driver.host", "spark.driver.bindAddress", "spark.default.parallelism"}
    assert sql_settings(Size.MANY, "spark://host:7077")["spark.sql.shuffle.partitions"] is None


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4)])
def test_a_local_master_gives_its_cores(master: str, cores: int) -> None:
    assert local_cores(master) == cores
    assert local_cores("local[*]") >= 1


def test_a_session_is_tuned_for_many_during_a_block_and_gets_its_settings_back(spark: SparkSession) -> None:
    few = {name: value for name, value in sql_settings(Size.FEW, "local[2]").items() if value is not None}
    before = {name: spark.conf.get(name, None) for name in few}
    # A setting that the session does not have is removed again.
    few.pop("spark.sql.leafNodeDefaultParallelism")
    try:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
        for name, value in few.items():
            spark.conf.set(name, value)
        with tuned_for_many(spark):
            inside = {name: spark.conf.get(name, None) for name in LARGE_RUN}
        after = {name: spark.conf.get(name, None) for name in LARGE_RUN}
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)

    assert inside == LARGE_RUN
    assert after == {**few, "spark.sql.leafNodeDefaultParallelism": None}


def test_the_event_log_is_one_plain_file_in_its_folder(tmp_path: Path) -> None:
    settings = event_log_settings(tmp_path / "a log")

    assert settings["spark.eventLog.dir"] == (tmp_path / "a log").as_uri()
    assert (settings["spark.eventLog.compress"], settings["spark.eventLog.rolling.enabled"]) == ("false", "false")


def test_an_event_log_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    setup = SparkSetup(snapshot(), "local[2]", "1g", event_log=tmp_path / "file" / "log")

    with (
        pytest.raises(PipelineError, match=r"Set `pipeline\.event_log` to a folder"),
        open_spark(Lake(tmp_path), setup),
    ):
        pytest.fail("Spark was started")


def test_the_folder_of_the_event_log_is_private(tmp_path: Path) -> None:
    folder = _event_log_folder(tmp_path / "new" / "log")

    assert folder.stat().st_mode & 0o077 == folder.parent.stat().st_mode & 0o077 == 0


def test_the_settings_of_the_home_reach_the_session(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.database.touch()

    default = LakeService(home)._setup(3)
    SettingsFile(home).path.write_text('{"pipeline": {"class_archive": false, "event_log": "logs/spark"}}')
    changed = LakeService(home)._setup(MIDDLE_EVENTS)

    assert default.archives is not None
    assert (default.archives.folder, default.size, default.event_log) == (home.cache / "spark", Size.FEW, None)
    assert (changed.archives, changed.size, changed.event_log) == (None, Size.MANY, home.path / "logs/spark")
