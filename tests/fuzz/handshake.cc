// SPDX-License-Identifier: Apache-2.0
// Whatever a stranger sends to the accepting end of a connection, a good recording of somebody else
// included, it does not get through; and a text is either no identity or exactly the text of one.
#include <sys/socket.h>

#include <algorithm>

#include "secure/tls.h"
#include "target.h"

using namespace hvd;
using namespace hvd::secure;

namespace {

// With the secret that the recordings of the corpus were made with.
const Keyring& ring() {
  static const std::shared_ptr<Keyring> made =
      Keyring::make(Secret::parse(std::string(64, 'a')).value()).value();
  return *made;
}

void read_identity(std::string_view text) {
  const std::optional<Identity> identity = Identity::parse(text);
  if (!identity) return;
  FUZZ_CHECK(identity->text() == text && text.size() <= kLongestIdentity);
  FUZZ_CHECK(!identity->job.empty() && !identity->purpose.empty());
  FUZZ_CHECK(identity->epoch >= 0 && identity->client >= kUnranked && identity->server >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_identity(fuzz::text(data, size));
  int pair[2];
  FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
  const Fd stranger(pair[0]);
  const auto admit = [](const Identity& claimed) { return claimed.job == "job"; };
  Result<std::unique_ptr<TlsSocket>> server = ring().accept(Fd(pair[1]), admit);
  FUZZ_CHECK(server.ok());
  Status status = server.value()->handshake();
  FUZZ_CHECK(status.code() == Code::kPending);
  while (size > 0 && status.code() == Code::kPending) {
    const ssize_t sent = ::send(stranger.get(), data, std::min<size_t>(size, 4096), MSG_NOSIGNAL);
    FUZZ_CHECK(sent > 0);
    data += sent;
    size -= static_cast<size_t>(sent);
    status = server.value()->handshake();
  }
  ::shutdown(stranger.get(), SHUT_WR);
  if (status.code() == Code::kPending) status = server.value()->handshake();
  fuzz::check_error(status, status.code() == Code::kPeerLost ? Code::kPeerLost : Code::kMismatch);
  return 0;
}
