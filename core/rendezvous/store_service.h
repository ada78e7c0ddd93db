// SPDX-License-Identifier: Apache-2.0
// What the server of a TCP store does, without sockets, threads or a clock of its own: bytes of clients go in, bytes for
// them come out. Nothing that a client sends harms another one; a client that breaks the protocol is dropped.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "rendezvous/store_protocol.h"

namespace hvd::rendezvous {

class StoreService {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(10);  // for the rest of a message, or its acceptance
  static constexpr size_t kMaxEntries = 65536;
  static constexpr size_t kMaxStored = size_t{64} << 20;  // bytes of all keys and values

  explicit StoreService(std::string job) : job_(std::move(job)) {}

  // Ids are the caller's; one is used again only after drop().
  void connect(int client, Time now);
  void drop(int client);

  // False: the client broke the protocol; the caller drops it.
  bool receive(int client, std::span<const std::byte> bytes, Time now);

  // False while a client waits for a key or has not taken its last reply: reading on would only collect memory.
  bool wants_input(int client) const;

  // What is to be sent, and that the first `size` bytes of it have been.
  std::span<const std::byte> output(int client) const;
  void sent(int client, size_t size, Time now);

  // Answers waits that are over. Returns a client that has been silent in the middle of a message for too long, to be
  // dropped, or -1.
  int tick(Time now);
  // When tick() has something to do, at the latest.
  Time next_tick() const;

 private:
  struct Client {
    Bytes in;
    Bytes out;
    size_t out_at = 0;
    bool greeted = false;
    int64_t rank = -1;
    Time patience_ends = kNever;  // kNever between messages
    std::string awaited;          // the key a pending get waits for; empty: none
    Time wait_started{};
    Time wait_ends = kNever;
  };

  bool handle_frames(Client& client, Time now);
  bool handle(Client& client, const Request& request, Time now);
  bool greet(Client& client, const Request& request);
  void set(Client& client, const Request& request, Time now);
  void get(Client& client, const Request& request, Time now);
  void add(Client& client, const Request& request, Time now);
  Status store(std::string_view key, std::string_view value, Time now);
  static void reply(Client& client, const Status& status, int64_t number = 0, std::string_view text = {});

  const std::string job_;
  std::map<int, Client> clients_;
  std::set<int64_t> ranks_;  // that have come: each comes once per job
  std::map<std::string, std::string, std::less<>> entries_;
  size_t stored_ = 0;
};

}  // namespace hvd::rendezvous
