// SPDX-License-Identifier: Apache-2.0
// A store that rank 0 serves over TCP. Loopback only: the protocol does not authenticate, so every user of the machine who
// knows the job's name could speak. The connection is used by one thread at a time.
#pragma once

#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/fd.h"
#include "rendezvous/store.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

class TcpStore final : public Store {
 public:
  // Rank 0 starts the server, waiting for the port if it is taken; the others wait for the server. Among ranks that do not
  // know their number (-1) the first to get the port serves. The server ends with the store that started it.
  static Result<std::shared_ptr<TcpStore>> open(const TcpUrl& url, int rank, Time deadline);

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Time deadline) override;
  Result<int64_t> add(const std::string& key, int64_t delta) override;
  Status remove(const std::string& key) override;

  TcpStore(std::string name, std::unique_ptr<TcpServer> server) : name_(std::move(name)), server_(std::move(server)) {}

 private:
  struct Answer {
    int64_t number = 0;
    std::string text;
  };

  Status connect(const sockaddr_in& address, const TcpUrl& url, int rank, Time deadline);
  Status connect_once(const sockaddr_in& address, Time deadline);
  Result<Answer> ask(const Request& request, Time deadline);
  Status send_all(std::span<const std::byte> bytes, Time deadline);
  Status receive_all(std::span<std::byte> bytes, Time deadline);
  Status wait_for(short events, Time deadline);
  Status error(const std::string& what, int number) const;

  const std::string name_;  // "store tcp://127.0.0.1:7777/job"
  const std::unique_ptr<TcpServer> server_;
  Fd socket_;  // after server_, so that this client has gone when the server waits for its clients
  Bytes message_;
};

}  // namespace hvd::rendezvous
