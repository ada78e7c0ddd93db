// SPDX-License-Identifier: Apache-2.0
// A store that one rank serves over TCP. With a secret every connection is TLS whose both ends
// prove that they know it; without one the store works on loopback only, unless the level of
// security is `none`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "rendezvous/remote_store.h"
#include "rendezvous/store_settings.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

class TcpStore {
 public:
  // Rank 0 starts the server, waiting for the port if it is taken; the others wait for the server.
  // Among ranks that do not know their number (-1) the first to get the port of the first candidate
  // serves. The server ends with the store that started it. Several ports of one host are a range:
  // rank 0 takes the first free one. All at the latest at the deadline, except that the system's
  // resolver takes its own time for names.
  static Result<std::shared_ptr<RemoteStore>> open(const TcpUrl& url,
                                                   const StoreSettings& settings);

  struct Served {
    std::shared_ptr<RemoteStore> store;
    TcpUrl url;  // with the real ports
  };
  // Serves at `addresses` of this machine (port 0: a free one) and is the first client, for
  // bootstraps that pass the URL on themselves.
  static Result<Served> serve(const std::vector<SocketAddress>& addresses, const std::string& job,
                              const StoreSettings& settings);
};

}  // namespace hvd::rendezvous
