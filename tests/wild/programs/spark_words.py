"""A Java program beside Python workers: words counted, and a function of Python's in a query."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
words = spark.sparkContext.parallelize([f"word{i % 17} and more" for i in range(20000)], 4)
counts = words.flatMap(str.split).map(lambda w: (w, 1)).reduceByKey(lambda a, b: a + b).collect()
print(sorted(counts)[:5])
length = udf(lambda n: len(str(n)), IntegerType())
print(spark.range(5000).select(length("id").alias("n")).groupBy("n").count().orderBy("n").collect())
spark.stop()
