// SPDX-License-Identifier: Apache-2.0
// A store behind a connection. The connection is used by one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "rendezvous/channel.h"
#include "rendezvous/store.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_server.h"

namespace hvd::rendezvous {

class RemoteStore final : public Store {
 public:
  // `name` begins every message: "store tcp://127.0.0.1:7777/job". `channel` is one that the server
  // has welcomed; `server` is this process's own or null, and ends with the store.
  RemoteStore(std::string name, StoreServer::Handle server, Channel channel)
      : name_(std::move(name)), server_(std::move(server)), channel_(std::move(channel)) {}

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Time deadline) override;
  Result<int64_t> add(const std::string& key, int64_t delta) override;
  Status remove(const std::string& key) override;

  // Null unless this process serves.
  const StoreServer* server() const { return server_.get(); }

 private:
  struct Answer {
    int64_t number = 0;
    std::string text;
  };

  Result<Answer> ask(const Request& request, Time deadline);
  Status exchange(Time deadline);
  Status send_all(std::span<const std::byte> bytes, Time deadline);
  Status receive_all(std::span<std::byte> bytes, Time deadline);
  Status wait_for(short events, Time deadline) const;

  const std::string name_;
  const StoreServer::Handle server_;
  // after server_, so that this client has gone when the server waits for its clients
  Channel channel_;
  Bytes message_;
};

}  // namespace hvd::rendezvous
