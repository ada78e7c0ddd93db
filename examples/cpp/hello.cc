// SPDX-License-Identifier: Apache-2.0
// Every rank says who and where it is: `horovodrun -np 2 ./hello`.
#include <unistd.h>
#include <hvd/hvd.hpp>

#include <cstdio>

int main() {
  hvd::Context job;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::printf("rank %d of %d on %s\n", job.rank(), job.size(), host);
}
