// SPDX-License-Identifier: Apache-2.0
// Whatever a launcher sends, the client of PMI-1 ends with a text or one clear error. The input is
// all that the launcher sends before it closes the connection.
#include "rendezvous/pmi.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "target.h"

using namespace hvd;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 16384) return 0;
  const Result<rendezvous::PmiLine> line = rendezvous::PmiLine::parse(fuzz::text(data, size));
  if (!line.ok()) fuzz::check_error(line.status(), Code::kIo);
  FUZZ_CHECK(!line.ok() || !line.value()["cmd"].empty());

  int ends[2] = {};
  FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Fd client(ends[0]), launcher(ends[1]);
  FUZZ_CHECK(::send(launcher.get(), data, size, MSG_DONTWAIT) == static_cast<ssize_t>(size));
  FUZZ_CHECK(::shutdown(launcher.get(), SHUT_WR) == 0);
  const Time deadline = deadline_after(now(), std::chrono::seconds(2));
  const Result<std::string> shared =
      rendezvous::share_by_pmi(client.get(), (data[0] & 1) != 0, "text", deadline);
  if (!shared.ok()) {
    FUZZ_CHECK(shared.status().code() == Code::kIo || shared.status().code() == Code::kUnsupported);
    fuzz::check_error(shared.status(), shared.status().code());
  } else {
    FUZZ_CHECK(shared.value().find_first_of(" \n") == std::string::npos);
  }
  return 0;
}
