// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import java.nio.{ByteBuffer, ByteOrder}

import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.jdk.CollectionConverters._

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import io.hvd.{HvdCallException, HvdMismatchException, HvdShutDownException, HvdTimeoutException, Options, Team, Tensor}

class HvdTest {
  private def ranks[R](size: Int)(part: Hvd => R): Seq[R] = Team.of[R](size, hvd => part(new Hvd(hvd))).asScala.toSeq

  @Test def arraysOfEveryType(): Unit = ranks(2) { hvd =>
    val r = hvd.rank
    assertArrayEquals(Array(1f, 5f), hvd.allreduce(Array[Float](r.toFloat, 2f + r)))
    assertArrayEquals(Array(0.5), hvd.allreduce(Array[Double](r), Op(reduce = Average)))
    assertArrayEquals(Array(1, 9), hvd.allreduce(Array(r, 9), Op(reduce = Max)))
    assertArrayEquals(Array(-1L << 40), hvd.allreduce(Array(-(1L << 40) * r), Op(reduce = Min)))
    assertArrayEquals(Array[Short](6), hvd.allreduce(Array((2 + r).toShort), Op(reduce = Product)))
    assertArrayEquals(Array[Byte](3), hvd.allreduce(Array((1 + r).toByte)))
    assertArrayEquals(Array(true, false), hvd.allreduce(Array(r == 1, false)))
  }

  @Test def arraysHaveTheCollectivesAsMethods(): Unit = ranks(2) { rank =>
    implicit val hvd: Hvd = rank
    val gradients = Array(1f, 2f)
    assertArrayEquals(Array(2f, 4f), gradients.allreduce(Op("a")))
    assertArrayEquals(Array(2f, 4f), Await.result(gradients.allreduceAsync(Op("b")), 1.minute))
    gradients.allreduceInPlace(Op("c"))
    assertArrayEquals(Array(2f, 4f), gradients)
    assertEquals(4, gradients.allgather(Op("d")).length)
    assertArrayEquals(Array(1), Array(hvd.rank).broadcast(Op("e", root = 1)))
    assertArrayEquals(Array(0), Array(hvd.rank).broadcastInPlace(Op("f")))
    assertArrayEquals(Array(2L), Array(1L, 1L).reducescatter(Op("g")))
  }

  @Test def onlyNumbersCompile(): Unit = {
    assertTrue(implicitly[Data[Array[Float]]] != null && implicitly[Data[Tensor[Array[Int]]]] != null)
  }

  @Test def directBuffersInPlace(): Unit = ranks(2) { hvd =>
    val buffer = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder).asFloatBuffer
    buffer.put(1, hvd.rank + 1f)
    hvd.allreduceInPlace(buffer)
    assertEquals(3f, buffer.get(1))
  }

  @Test def futuresCompose(): Unit = ranks(2) { hvd =>
    implicit val executor: ExecutionContext = ExecutionContext.global
    val labels = if (hvd.rank == 0) Seq("a", "b", "c") else Seq("c", "a", "b")
    val sums = Future.sequence(labels.map(label => hvd.allreduceAsync(Array(1), Op(label)).map(_.head)))
    assertEquals(Seq(2, 2, 2), Await.result(sums, 1.minute))
    val chained = for {
      one <- hvd.allreduceInPlaceAsync(Array(1), Op("d"))
      two <- hvd.allreduceAsync(one, Op("e"))
      _ <- hvd.barrierAsync()
    } yield two.head
    assertEquals(4, Await.result(chained, 1.minute))
    assertEquals(Seq(2L, 0L).take(1), Await.result(hvd.alltoallAsync(Array(1, 2, 3, 4), None, Op("f")), 1.minute)._2.take(1))
  }

  @Test def processSets(): Unit = ranks(3) { hvd =>
    val outer = hvd.createProcessSet(0, 2)
    if (outer.included) assertArrayEquals(Array(2), hvd.allreduce(Array(1), Op("x", in = Some(outer))))
    hvd.barrier()
    outer.destroy()
  }

  @Test def errorsKeepTheirClassAndText(): Unit = {
    val texts = ranks(2) { hvd =>
      val error = assertThrows(classOf[HvdMismatchException], () => { hvd.allreduce(new Array[Float](2 + hvd.rank), Op("x")); () })
      val late = assertThrows(
        classOf[HvdMismatchException],
        () => { Await.result(hvd.allreduceAsync(new Array[Float](2 + hvd.rank), Op("y")), 1.minute); () }
      )
      assertTrue(late.getMessage.startsWith("allreduce \"y\": shape differs"), late.getMessage)
      assertThrows(classOf[HvdCallException], () => { hvd.broadcast(Array(1), Op("z", root = 7)); () })
      if (hvd.rank == 0) {
        assertThrows(classOf[HvdTimeoutException], () => { hvd.allreduce(Array(1), Op("late", timeout = Some(100.millis))); () })
      }
      hvd.barrier()
      error.getMessage
    }
    assertEquals(texts.head, texts(1))
  }

  @Test def runClosesWhateverHappens(): Unit = {
    var kept: Option[Hvd] = None
    val options = new Options().rank(0).size(1).rendezvous("mem://scala-run")
    assertThrows(classOf[IllegalStateException], () => Hvd.run(options) { hvd => kept = Some(hvd); throw new IllegalStateException })
    assertThrows(classOf[HvdShutDownException], () => kept.get.barrier())
  }
}
