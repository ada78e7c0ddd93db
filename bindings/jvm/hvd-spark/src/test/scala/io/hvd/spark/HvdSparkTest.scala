// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import java.nio.file.Path

import scala.concurrent.duration._

import org.apache.spark.sql.SparkSession
import org.apache.spark.{SparkContext, SparkException, TaskContext}
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.{AfterEach, Test}

import io.hvd.examples.spark.TrainIris
import io.hvd.scaladsl._

/** Two ranks as threads of this JVM, under `local[2]`. */
class HvdSparkTest {
  private var session: Option[SparkSession] = None

  private def spark(settings: (String, String)*): SparkSession = {
    val builder = SparkSession.builder().master("local[2]").appName("hvd").config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    settings.foreach { case (name, value) => builder.config(name, value) }
    session = Some(builder.getOrCreate())
    session.get
  }

  @AfterEach def stop(): Unit = session.foreach(_.stop())

  @Test def resultsComeInTheOrderOfTheRanks(): Unit = {
    val context = spark().sparkContext
    val results = HvdSpark.run(context, 2)(hvd => (hvd.rank, hvd.size, hvd.allreduce(Array(hvd.rank + 1)).head))
    assertEquals(Seq((0, 2, 3), (1, 2, 3)), results)
    assertEquals(Seq(1), HvdSpark.run(context, 1)(_.size))
    val sums = HvdSpark.run(context.parallelize(1 to 10, 2)) { (hvd, numbers: Iterator[Int]) =>
      hvd.allreduce(Array(numbers.sum)).head
    }
    assertEquals(Seq(55, 55), sums)
  }

  @Test def modelsAreThoseOfOneProcess(): Unit =
    TrainIris.train(spark(), Path.of(System.getProperty("hvd.repository"), "examples", "spark", "iris.csv").toString, 2)

  @Test def theErrorOfTheTaskThatFailedIsNamed(): Unit = {
    val context = spark().sparkContext
    val error = assertThrows(
      classOf[SparkException],
      () => {
        HvdSpark.run(context, 2) { hvd =>
          if (hvd.rank == 1) throw new IllegalArgumentException("no such flower")
          hvd.allreduce(Array(1))
        }
        ()
      }
    )
    assertTrue(error.getMessage.contains("rank 1 of 2 failed: java.lang.IllegalArgumentException: no such flower"), error.getMessage)
    assertEquals(Seq(2, 2), HvdSpark.run(context, 2)(hvd => hvd.allreduce(Array(1)).head))
  }

  /** The attempts that rank 1 was in; it fails in all before `good`. */
  private def attempts(context: SparkContext, good: Int): Seq[Int] = HvdSpark.run(context, 2) { hvd =>
    val attempt = TaskContext.get().stageAttemptNumber()
    if (hvd.rank == 1 && attempt < good) throw new IllegalStateException(s"not in attempt $attempt")
    hvd.allreduce(Array(attempt)).head
  }

  @Test def aStageThatFailedIsTriedAgain(): Unit = assertEquals(Seq(4, 4), attempts(spark().sparkContext, 2))

  @Test def attemptsAreLimitedBySparksSetting(): Unit = {
    val context = spark("spark.stage.maxConsecutiveAttempts" -> "2").sparkContext
    val error = assertThrows(classOf[SparkException], () => { attempts(context, 2); () })
    assertTrue(error.getMessage.contains("rank 1 of 2 failed: java.lang.IllegalStateException: not in attempt 1"), error.getMessage)
  }

  @Test def errorsOfTheLibraryAreNamed(): Unit = {
    val context = spark().sparkContext
    val error = assertThrows(
      classOf[SparkException],
      () => { HvdSpark.run(context, 2)(hvd => hvd.allreduce(new Array[Float](hvd.rank + 1), Op("x")).length); () }
    )
    assertTrue(error.getMessage.contains("allreduce \"x\": shape differs: rank 0 [1], rank 1 [2]"), error.getMessage)
  }

  private def refused(context: SparkContext, tasks: Int): String =
    assertThrows(classOf[IllegalStateException], () => { HvdSpark.run(context, tasks)(_.rank); () }).getMessage

  @Test def tooFewSlots(): Unit =
    assertEquals(
      "HvdSpark.run: 3 ranks need 3 task slots at once; local[2] has 2; use fewer partitions or more cores",
      refused(spark().sparkContext, 3)
    )

  @Test def speculation(): Unit =
    assertTrue(refused(spark("spark.speculation" -> "true").sparkContext, 2).contains("spark.speculation is true"))

  @Test def dynamicAllocation(): Unit = {
    val context = spark("spark.dynamicAllocation.enabled" -> "true", "spark.shuffle.service.enabled" -> "true").sparkContext
    assertTrue(refused(context, 2).contains("spark.dynamicAllocation.enabled is true"))
  }

  @Test def hostsAsTheyStandInUrls(): Unit = {
    assertEquals("n1", Rank.hostOf("n1:4040"))
    assertEquals("10.0.0.1", Rank.hostOf("10.0.0.1"))
    assertEquals("[fd00::1]", Rank.hostOf("[fd00::1]:7077"))
    assertEquals("[fd00::1]", Rank.hostOf("[fd00::1]"))
    assertEquals("[fd00::1]", Rank.hostOf("fd00::1"))
  }

  @Test def settingsReachTheLibrary(): Unit = {
    val context = spark().sparkContext
    val rdd = context.parallelize(0 until 2, 2)
    val settings = Settings(Map("op_timeout" -> "7"), startTimeout = 20.seconds)
    assertEquals(Seq("7", "7"), HvdSpark.run(rdd, settings)((hvd, _: Iterator[Int]) => hvd.java.option("op_timeout")))
    assertEquals(Seq("7", "7"), HvdSpark.run(context, 2, settings)(_.java.option("op_timeout")))
    val frame = session.get.range(5).toDF()
    assertEquals(Seq(5, 5), HvdSpark.run(frame, 2, settings)((hvd, rows) => hvd.allreduce(Array(rows.size)).head))
  }
}
