"""The quick compiler's code cache: a full one stops the compiler, and a session that stays becomes too slow to use."""

from pyspark.sql import SparkSession

MIB = 2**20


def test_a_quickly_compiled_session_has_the_code_cache_of_an_optimizing_one(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    sizes = [pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code")]

    assert sum(sizes) >= 200 * MIB
