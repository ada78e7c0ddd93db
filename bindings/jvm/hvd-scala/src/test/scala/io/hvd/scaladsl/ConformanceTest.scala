// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import java.nio.{ByteBuffer, ByteOrder}
import java.util.stream.Stream

import scala.collection.mutable
import scala.concurrent.duration._
import scala.concurrent.{Await, Future}
import scala.jdk.CollectionConverters._

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{AfterAll, DynamicTest, TestFactory, TestInstance}

import io.hvd.{DType, HvdException, Team, Tensor, Vector => Case}

/** Runs all of tests/vectors through the Scala API, one thread per rank; none is left out. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ConformanceTest {
  private val teams = mutable.Map.empty[Int, Team]

  @AfterAll
  def close(): Unit = teams.values.foreach(_.close())

  @TestFactory
  def vectors(): Stream[DynamicTest] = {
    val cases = Case.all.asScala
    assertTrue(cases.size > 100)
    val tests = for (each <- cases; later <- Seq(false, true)) yield DynamicTest.dynamicTest(
      s"$each, ${if (later) "futures" else "waiting"}",
      () => {
        val team = teams.getOrElseUpdate(each.size, new Team(each.size))
        val faults = team.run(hvd => new Run(new Hvd(hvd), each, later).run())
        assertEquals(Nil, faults.asScala.toList.flatten)
      }
    )
    tests.asJava.stream()
  }
}

/** One rank's part in one run of one vector. */
private final class Run(hvd: Hvd, vector: Case, later: Boolean) {
  private val rank = hvd.rank
  private val faults = mutable.ListBuffer.empty[String]

  private def fault(text: String): Unit = faults += s"rank $rank: $text"
  private def result[A](future: Future[A]): A = Await.result(future, 1.minute)

  def run(): List[String] = {
    val set = Option(vector.set).map(ranks => hvd.createProcessSet(ranks.toSeq: _*))
    if (vector.member(rank) && !vector.joins(rank)) {
      val options = vector.options(rank)
      operate(Op(s"$vector $later", options.reduce, set, options.root, options.prescale, options.postscale))
    }
    if (vector.anyJoined) {
      val last = hvd.join(Op(in = set))
      if (vector.joins(last)) fault(s"rank $last joined early but is named as the last")
    }
    if (vector.expectStatus != null) {
      val total = hvd.allreduce(Array(rank + 1), Op(s"after $vector")).head
      if (total != vector.size * (vector.size + 1) / 2) fault(s"the next operation gave $total")
    }
    set.foreach(_.destroy())
    faults.toList
  }

  private def operate(op: Op): Unit =
    try {
      val results = call(op)
      if (vector.expectStatus != null) fault(s"expected ${vector.expectStatus}, got a result")
      else for ((tensor, i) <- results.zipWithIndex) {
        val found = vector.difference(rank, i, new Case.Array(tensor.dtype, tensor.shape, bytes(tensor)))
        if (found.nonEmpty) fault(s"tensor $i: $found")
      }
    } catch {
      case error: HvdException if vector.expectStatus != null =>
        if (error.status.nativeName != vector.expectStatus) fault(s"expected ${vector.expectStatus}, got $error")
        for (part <- vector.expectMessageHas.asScala if !error.getMessage.contains(part)) fault(s"message lacks $part: $error")
    }

  private def call(op: Op): Seq[Tensor[AnyRef]] = {
    val inputs = vector.input(rank).asScala.toSeq.map(array => tensor(array))
    vector.op(rank) match {
      case "allreduce" if vector.grouped =>
        if (later) result(hvd.groupedAllreduceAsync(inputs, op)) else hvd.groupedAllreduce(inputs, op)
      case "allgather" if vector.grouped =>
        if (later) result(hvd.groupedAllgatherAsync(inputs, op)) else hvd.groupedAllgather(inputs, op)
      case "reducescatter" if vector.grouped =>
        if (later) result(hvd.groupedReducescatterAsync(inputs, op)) else hvd.groupedReducescatter(inputs, op)
      case "allreduce" => Seq(if (later) result(hvd.allreduceAsync(inputs.head, op)) else hvd.allreduce(inputs.head, op))
      case "broadcast" => Seq(if (later) result(hvd.broadcastAsync(inputs.head, op)) else hvd.broadcast(inputs.head, op))
      case "allgather" => Seq(if (later) result(hvd.allgatherAsync(inputs.head, op)) else hvd.allgather(inputs.head, op))
      case "gather" => Seq(if (later) result(hvd.gatherAsync(inputs.head, op)) else hvd.gather(inputs.head, op))
      case "reducescatter" =>
        Seq(if (later) result(hvd.reducescatterAsync(inputs.head, op)) else hvd.reducescatter(inputs.head, op))
      case "alltoall" =>
        val splits = Option(vector.splits(rank)).map(_.toSeq)
        val (received, counts) =
          if (later) result(hvd.alltoallAsync(inputs.head, splits, op)) else hvd.alltoall(inputs.head, splits, op)
        val wanted = vector.expectSplits(rank)
        if (wanted != null && wanted.toSeq != counts) fault(s"received splits $counts")
        Seq(received)
      case "barrier" =>
        if (later) result(hvd.barrierAsync(op)) else hvd.barrier(op)
        Nil
      case "join" =>
        val last = if (later) result(hvd.joinAsync(op)) else hvd.join(op)
        if (last < 0 || last >= vector.size) fault(s"join returned $last")
        Nil
    }
  }

  private def tensor(array: Case.Array): Tensor[AnyRef] = {
    val from = ByteBuffer.wrap(array.bytes).order(ByteOrder.LITTLE_ENDIAN)
    val count = array.bytes.length / array.dtype.bytes
    val storage: AnyRef = array.dtype match {
      case DType.FLOAT32 => Array.fill(count)(from.getFloat)
      case DType.FLOAT64 => Array.fill(count)(from.getDouble)
      case DType.INT32 => Array.fill(count)(from.getInt)
      case DType.INT64 => Array.fill(count)(from.getLong)
      case narrow if narrow.bytes == 2 => Array.fill(count)(from.getShort)
      case _ => array.bytes
    }
    Tensor.of[AnyRef](storage, array.dtype, array.shape.toSeq: _*)
  }

  private def bytes(tensor: Tensor[AnyRef]): Array[Byte] = {
    val to = ByteBuffer.allocate(tensor.bytes.toInt).order(ByteOrder.LITTLE_ENDIAN)
    tensor.storage match {
      case floats: Array[Float] => floats.foreach(to.putFloat(_))
      case doubles: Array[Double] => doubles.foreach(to.putDouble(_))
      case ints: Array[Int] => ints.foreach(to.putInt(_))
      case longs: Array[Long] => longs.foreach(to.putLong(_))
      case shorts: Array[Short] => shorts.foreach(to.putShort(_))
      case raw: Array[Byte] => to.put(raw)
      case other => throw new IllegalStateException(other.getClass.getName)
    }
    to.array
  }
}
