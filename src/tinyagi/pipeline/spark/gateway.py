"""Fewer calls between Python and the JVM: building the columns of a small run takes thousands of them."""

from typing import Any, Final

from pyspark.sql import SparkSession

_FUNCTIONS: Final = "org.apache.spark.sql.functions"


class _RememberedClass:
    """A Java class that is asked for each of its members once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def remember_functions(spark: SparkSession) -> None:
    """Otherwise PySpark asks the JVM twice for every use of a function: for the class, and for the function."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - PySpark shows no other way
    setattr(jvm, _FUNCTIONS, _RememberedClass(getattr(jvm, _FUNCTIONS)))


def keep_objects(spark: SparkSession) -> None:
    """Leave the JVM's objects to its end. Otherwise every Python object that is collected costs a call to release one.

    Only for a session that ends soon: its objects stay until then.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark shows no other way
    if gateway is not None:
        gateway._gateway_client.gateway_property.enable_memory_management = False  # noqa: SLF001
