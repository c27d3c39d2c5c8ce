"""The floor of a pipeline run: PySpark as it is installed starts a local session and counts 1,000 numbers."""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    spark.range(1000).count()
    spark.stop()
