// SPDX-License-Identifier: Apache-2.0
// Listening sockets of a store's server: at the addresses that its URL names and this machine has,
// and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

struct Listener {
  Fd socket;
  SocketAddress address;  // with the real port
};

// Port 0 takes a free one.
Result<Listener> listen_at(const SocketAddress& address);

// The abstract Unix socket of `name`, which only processes of this user may use.
Result<Fd> listen_at_unix(const std::string& name);

// The addresses that a host of a URL stands for, without duplicates. "localhost" is 127.0.0.1.
Result<std::vector<SocketAddress>> addresses_of_candidate(const Candidate& candidate);

// The addresses at which the server of `url` should listen, as its candidates stand for them,
// whether or not this machine has them. A name that leads only to loopback here leads the other
// machines elsewhere; `widely` adds the addresses of the interfaces `interfaces` for such a name.
Result<std::vector<SocketAddress>> places_to_listen(const TcpUrl& url, bool widely,
                                                    const std::string& interfaces);

// Listens at those of `places` that this machine has. kNotFound if it has none of them; EADDRINUSE
// is kept in the status.
Result<std::vector<Listener>> listen_at_own(const std::vector<SocketAddress>& places);

}  // namespace hvd::rendezvous
