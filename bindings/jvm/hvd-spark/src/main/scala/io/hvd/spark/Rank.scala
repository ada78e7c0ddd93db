// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import java.net.{InetAddress, InetSocketAddress, ServerSocket}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path}
import java.security.SecureRandom
import java.time.Duration
import java.util.concurrent.TimeUnit

import scala.concurrent.duration._

import org.apache.spark.{BarrierTaskContext, SparkException}

import io.hvd.scaladsl.Hvd
import io.hvd.{HvdContextException, Options}

/** A task as a rank. */
private[spark] object Rank {
  private val GraceForTheFirstError = 10.seconds
  private val PollMillis = 20L

  /** Where the ranks of one job meet, and the secret by which they know each other. */
  private final case class Rendezvous(url: String, secret: String)

  def run[R](task: BarrierTaskContext, settings: Settings)(part: Hvd => R): R = {
    val rank = task.partitionId()
    val size = task.getTaskInfos().length
    val rendezvous = agree(task)
    try {
      val hvd = join(rank, size, rendezvous, settings)
      try part(hvd)
      finally hvd.close()
    } catch {
      case error: Throwable =>
        if (isConsequence(error)) awaitEndOfStage(task)
        throw new SparkException(s"rank $rank of $size failed: $error", error)
    }
  }

  /** Task 0 decides; all learn it over Spark's own channel. */
  private def agree(task: BarrierTaskContext): Rendezvous = {
    val mine = if (task.partitionId() == 0) {
      val host = hostOf(task.getTaskInfos()(0).address)
      val job = s"spark-${task.stageId()}-${task.stageAttemptNumber()}"
      s"tcp://$host:${freePort()}/$job ${newSecret()}"
    } else ""
    task.allGather(mine)(0).split(" ") match {
      case Array(url, secret) => Rendezvous(url, secret)
      case other => throw new IllegalStateException(s"task 0 said ${other.length} words instead of an address and a secret")
    }
  }

  /** The host of "host:port" or of "host" alone, as it stands in a URL. */
  private[spark] def hostOf(address: String): String = {
    val colon = address.lastIndexOf(':')
    val host = if (colon < 0 || address.endsWith("]") || address.indexOf(':') != colon && !address.startsWith("[")) address
    else address.substring(0, colon)
    if (host.contains(':') && !host.startsWith("[")) s"[$host]" else host
  }

  /**
   * A port that is free now. If somebody takes it before rank 0 does, rank 0 tries until the start timeout whether it is free
   * again; the next attempt of the stage takes another one.
   */
  private def freePort(): Int = {
    val probe = new ServerSocket()
    try {
      probe.bind(new InetSocketAddress(null: InetAddress, 0))
      probe.getLocalPort
    } finally probe.close()
  }

  private def newSecret(): String = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    bytes.map(byte => f"$byte%02x").mkString
  }

  private def join(rank: Int, size: Int, rendezvous: Rendezvous, settings: Settings): Hvd = {
    val file = secretFile(rendezvous.secret)
    try {
      val options = new Options()
        .rank(rank)
        .size(size)
        .rendezvous(rendezvous.url)
        .timeout(Duration.ofNanos(settings.startTimeout.toNanos))
        .set("secret_file", file.toString)
      settings.options.foreach { case (name, value) => options.set(name, value) }
      Hvd.init(options)
    } finally Files.deleteIfExists(file)
  }

  /** Readable by its owner only, for as long as the library reads it. */
  private def secretFile(secret: String): Path = {
    val owner = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
    Files.writeString(Files.createTempFile("hvd-spark-", ".secret", owner), secret + "\n")
  }

  /** Whether an error only says that the job has ended, for a reason that another rank has. */
  private def isConsequence(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(10).exists(_.isInstanceOf[HvdContextException])

  /** Spark reports the error that reaches it first. So those that only follow from it wait until Spark stops their task. */
  private def awaitEndOfStage(task: BarrierTaskContext): Unit = {
    val deadline = GraceForTheFirstError.fromNow
    try while (!task.isInterrupted() && deadline.hasTimeLeft()) TimeUnit.MILLISECONDS.sleep(PollMillis)
    catch { case _: InterruptedException => Thread.currentThread().interrupt() }
  }
}
