// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import java.util.concurrent.CompletableFuture

import scala.concurrent.{Future, Promise}
import scala.jdk.CollectionConverters._

import io.hvd.{Histogram, Membership, OperationRecord, Options, ProcessSet}

/** One rank of a job; a thin layer over `io.hvd.Hvd`, which it gives as `java`.
  *
  * {{{
  * Hvd.run() { hvd =>
  *   val sum: Array[Float] = hvd.allreduce(Array[Float](hvd.rank), Op("sum"))
  * }
  * }}}
  *
  * Futures end on threads of the binding, never on one of the library's own; what they fail with is an `HvdException`.
  */
final class Hvd(val java: io.hvd.Hvd) extends AutoCloseable {

  def rank: Int = java.rank
  def size: Int = java.size
  def localRank: Int = java.localRank
  def localSize: Int = java.localSize

  /** The set of all ranks. */
  def world: ProcessSet = java.world

  /** Makes a set of these ranks; collective over the whole job, members or not. */
  def createProcessSet(ranks: Int*): ProcessSet = java.createProcessSet(ranks: _*)

  /** All counters of this rank by name. */
  def metrics: Map[String, Double] = java.metrics.asScala.view.mapValues(_.doubleValue).toMap

  /** How often this rank has seen which sizes and times, by name. */
  def histograms: Map[String, Histogram] = java.histograms.asScala.toMap

  /** The last operations of this rank, from the number `after` + 1 on, oldest first, then those in flight. */
  def records(after: Long = 0): Seq[OperationRecord] = java.records(after).asScala.toSeq

  /** Writes the operations that this rank submits from now on to a file in Chrome's trace format: see `io.hvd.Hvd`. */
  def startTimeline(path: String, markCycles: Boolean = false): Unit = java.startTimeline(path, markCycles)

  /** Ends the file of the timeline; nothing if there is none. */
  def stopTimeline(): Unit = java.stopTimeline()

  /** The members of an elastic job, as far as this rank knows. */
  def membership: Membership = java.membership

  /** Announces that this rank wants to leave an elastic job. */
  def leave(): Unit = java.leave()

  /** Leaves the job. */
  override def close(): Unit = java.close()

  // ---- collectives: they wait, write over their argument (InPlace), or give a future (Async) ----

  def allreduce[A: Data](data: A, op: Op = Op()): A = java.allreduce(data, op.options)
  def allreduceInPlace[A: Data](data: A, op: Op = Op()): A = java.allreduceInPlace(data, op.options)
  def allreduceAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.allreduceAsync(data, op.options))
  def allreduceInPlaceAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.allreduceInPlaceAsync(data, op.options))

  /** Several arrays as one operation: none starts before all are ready on every rank. */
  def groupedAllreduce[A: Data](data: Seq[A], op: Op = Op()): Seq[A] = java.groupedAllreduce(data.asJava, op.options).asScala.toSeq

  def groupedAllreduceAsync[A: Data](data: Seq[A], op: Op = Op()): Future[Seq[A]] =
    later(java.groupedAllreduceAsync(data.asJava, op.options).thenApply[Seq[A]](_.asScala.toSeq))

  def allgather[A: Data](data: A, op: Op = Op()): A = java.allgather(data, op.options)
  def allgatherAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.allgatherAsync(data, op.options))
  def groupedAllgather[A: Data](data: Seq[A], op: Op = Op()): Seq[A] = java.groupedAllgather(data.asJava, op.options).asScala.toSeq

  def groupedAllgatherAsync[A: Data](data: Seq[A], op: Op = Op()): Future[Seq[A]] =
    later(java.groupedAllgatherAsync(data.asJava, op.options).thenApply[Seq[A]](_.asScala.toSeq))

  def broadcast[A: Data](data: A, op: Op = Op()): A = java.broadcast(data, op.options)
  def broadcastInPlace[A: Data](data: A, op: Op = Op()): A = java.broadcastInPlace(data, op.options)
  def broadcastAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.broadcastAsync(data, op.options))

  /** On the root of `op` the rows of all ranks, elsewhere none. */
  def gather[A: Data](data: A, op: Op = Op()): A = java.gather(data, op.options)
  def gatherAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.gatherAsync(data, op.options))

  /**
   * Sends `splits(i)` rows to the i-th rank of the set, or equal parts; gives the rows received and how many came from
   * each.
   */
  def alltoall[A: Data](data: A, splits: Option[Seq[Long]] = None, op: Op = Op()): (A, Seq[Long]) = {
    val received = java.alltoall(data, splits.map(_.toArray).orNull, op.options)
    (received.data, received.splits.toSeq)
  }

  def alltoallAsync[A: Data](data: A, splits: Option[Seq[Long]] = None, op: Op = Op()): Future[(A, Seq[Long])] =
    later(
      java.alltoallAsync(data, splits.map(_.toArray).orNull, op.options)
        .thenApply[(A, Seq[Long])](received => (received.data, received.splits.toSeq))
    )

  def reducescatter[A: Data](data: A, op: Op = Op()): A = java.reducescatter(data, op.options)
  def reducescatterAsync[A: Data](data: A, op: Op = Op()): Future[A] = later(java.reducescatterAsync(data, op.options))

  def groupedReducescatter[A: Data](data: Seq[A], op: Op = Op()): Seq[A] =
    java.groupedReducescatter(data.asJava, op.options).asScala.toSeq

  def groupedReducescatterAsync[A: Data](data: Seq[A], op: Op = Op()): Future[Seq[A]] =
    later(java.groupedReducescatterAsync(data.asJava, op.options).thenApply[Seq[A]](_.asScala.toSeq))

  /** Returns on no rank before every rank of the set has called it. */
  def barrier(op: Op = Op()): Unit = java.barrier(op.options)
  def barrierAsync(op: Op = Op()): Future[Unit] = later(java.barrierAsync(op.options).thenApply[Unit](_ => ()))

  /** This rank has no more data; returns who joined last. */
  def join(op: Op = Op()): Int = java.join(op.options)
  def joinAsync(op: Op = Op()): Future[Int] = later(java.joinAsync(op.options).thenApply[Int](_.intValue))

  private def later[A](future: CompletableFuture[A]): Future[A] = {
    val promise = Promise[A]()
    future.whenComplete { (result: A, error: Throwable) =>
      error match {
        case null => promise.success(result)
        case wrapped: _root_.java.util.concurrent.CompletionException if wrapped.getCause != null => promise.failure(wrapped.getCause)
        case other => promise.failure(other)
      }
      ()
    }
    promise.future
  }

  override def toString: String = java.toString
}

object Hvd {
  /** Joins the job that the environment or the options describe. */
  def init(options: Options = new Options): Hvd = new Hvd(io.hvd.Hvd.init(options))

  /** Joins, does this, and leaves, whatever happens. */
  def run[R](options: Options = new Options)(part: Hvd => R): R = {
    val hvd = init(options)
    try part(hvd)
    finally hvd.close()
  }
}
