// SPDX-License-Identifier: Apache-2.0
// Connections that do not belong to a job, and what they may send.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "places.h"
#include "rendezvous/attempt.h"
#include "secure/tls.h"

namespace hvd::rendezvous {

std::shared_ptr<const secure::Keyring> keyring_of(char digit);

// With the secret of 64 times `digit`.
StoreSettings secret_settings(int rank, int size, Time deadline, char digit = 'a');

SocketAddress address_of(const TcpUrl& url);

// A connection that speaks no protocol; its own address is `from`, if that is given.
Fd raw_connection(const SocketAddress& to, const std::string& from = "");
void send_text(const Fd& socket, std::string_view text);
// True when the other side closes the connection within the time.
bool is_closed_within(const Fd& socket, Duration limit);

// The first message of a TLS client that has never heard of us.
std::string ordinary_client_hello();
// Every byte that a rank sends until it is welcome.
std::string recording_of_a_rank(const SocketAddress& server, const ClientInfo& who);
// Takes steps until the attempt is over.
Status outcome_of(const SocketAddress& server, const ClientInfo& who);
// As a client with a key for `identity`, whatever that says. Ok: the server has welcomed it.
Status outcome_of(const SocketAddress& server, const secure::Keyring& keyring,
                  const secure::Identity& identity, int64_t rank);

size_t open_descriptors();
size_t resident_kib();

// Counts lines, from any thread.
class LineCounter {
 public:
  std::shared_ptr<const Logger> logger();
  std::vector<std::string> lines() const;

 private:
  struct Lines;
  std::shared_ptr<Lines> lines_;
};

}  // namespace hvd::rendezvous
