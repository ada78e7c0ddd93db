// SPDX-License-Identifier: Apache-2.0
import io.hvd.Hvd;
import java.net.InetAddress;

/** Every rank says who and where it is: {@code horovodrun -np 2 java -cp hvd-java-1.0.0.jar examples/java/Hello.java}. */
public class Hello {
    public static void main(String[] arguments) throws Exception {
        try (Hvd hvd = Hvd.init()) {
            System.out.printf("rank %d of %d on %s%n", hvd.rank(), hvd.size(), InetAddress.getLocalHost().getHostName());
        }
    }
}
