// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import scala.concurrent.duration.FiniteDuration
import scala.util.Try

import org.apache.spark.SparkContext

/** What must hold for ranks to run as tasks, checked before Spark waits for it, for minutes, and says it in its own words. */
private[spark] object Conditions {
  private val PollMillis = 100L

  def check(context: SparkContext, tasks: Int, limit: FiniteDuration): Unit = {
    refuseIf(
      context,
      "spark.dynamicAllocation.enabled",
      "all ranks must run at once, which executors that come and go cannot promise"
    )
    refuseIf(context, "spark.speculation", "a second copy of a rank cannot join its job")
    require(tasks > 0, "HvdSpark.run: the RDD has no partitions; each is one rank")
    awaitSlots(context, tasks, limit)
  }

  private def refuseIf(context: SparkContext, name: String, why: String): Unit =
    if (context.getConf.getBoolean(name, defaultValue = false)) {
      throw new IllegalStateException(s"HvdSpark.run: $name is true; $why; set it to false")
    }

  /** Executors register one after another; the limit is for those that are still starting. */
  private def awaitSlots(context: SparkContext, tasks: Int, limit: FiniteDuration): Unit = {
    val deadline = limit.fromNow
    var slots = slotsOf(context)
    while (slots.exists(_ < tasks) && deadline.hasTimeLeft() && !context.isLocal) {
      Thread.sleep(PollMillis)
      slots = slotsOf(context)
    }
    for (found <- slots if found < tasks) {
      throw new IllegalStateException(
        s"HvdSpark.run: $tasks ranks need $tasks task slots at once; ${context.master} has $found" +
          (if (context.isLocal) "" else s" after ${limit.toSeconds} s") + "; use fewer partitions or more cores"
      )
    }
  }

  /** The tasks that can run at once. Spark knows it, but shows it to itself only; without the number its own check remains. */
  private def slotsOf(context: SparkContext): Option[Int] = Try {
    val manager = classOf[SparkContext].getMethod("resourceProfileManager").invoke(context)
    val profile = manager.getClass.getMethod("defaultResourceProfile").invoke(manager)
    classOf[SparkContext].getMethod("maxNumConcurrentTasks", profile.getClass).invoke(context, profile).asInstanceOf[Int]
  }.toOption
}
