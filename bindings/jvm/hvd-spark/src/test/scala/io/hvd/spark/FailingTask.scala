// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession

import io.hvd.scaladsl._

/** For spark-submit: a rank that fails in an executor of its own. Prints the line of Spark's message that names the cause. */
object FailingTask {
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().appName("hvd failing task").getOrCreate()
    try {
      HvdSpark.run(spark.sparkContext, 2) { hvd =>
        if (hvd.rank == 1) throw new IllegalArgumentException("no such flower")
        hvd.allreduce(Array(1))
      }
      throw new IllegalStateException("the stage succeeded")
    } catch {
      case error: SparkException =>
        println(error.getMessage.linesIterator.find(_.contains("failed: ")).getOrElse(error.getMessage))
    } finally spark.stop()
  }
}
