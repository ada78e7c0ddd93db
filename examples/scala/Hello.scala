// SPDX-License-Identifier: Apache-2.0
import io.hvd.scaladsl._

/** Every rank says who and where it is: `horovodrun -np 2 java -cp ... Hello`. */
object Hello {
  def main(arguments: Array[String]): Unit = Hvd.run() { hvd =>
    println(s"rank ${hvd.rank} of ${hvd.size} on ${java.net.InetAddress.getLocalHost.getHostName}")
  }
}
