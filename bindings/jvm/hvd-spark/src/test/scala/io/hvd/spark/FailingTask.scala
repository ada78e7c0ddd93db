// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import org.apache.spark.sql.SparkSession
import org.apache.spark.{SparkException, TaskContext}

import io.hvd.scaladsl._

/** For spark-submit: a rank that fails in an executor of its own. Prints the line of Spark's message that names the cause. With
  * an argument the rank's executor ends instead, the first time; prints what the ranks of the next attempt have.
  */
object FailingTask {
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().appName("hvd failing task").getOrCreate()
    try {
      val attempts = HvdSpark.run(spark.sparkContext, 2) { hvd =>
        val attempt = TaskContext.get().stageAttemptNumber()
        if (hvd.rank == 1 && attempt == 0 && arguments.nonEmpty) Runtime.getRuntime.halt(9)
        if (hvd.rank == 1 && arguments.isEmpty) throw new IllegalArgumentException("no such flower")
        hvd.allreduce(Array(attempt)).head
      }
      println(s"after the executor was lost: $attempts")
    } catch {
      case error: SparkException =>
        println(error.getMessage.linesIterator.find(_.contains("failed: ")).getOrElse(error.getMessage))
    } finally spark.stop()
  }
}
