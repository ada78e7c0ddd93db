// SPDX-License-Identifier: Apache-2.0
// What the server of a store does, without sockets, threads or a clock of its own: bytes of clients
// go in, bytes for them come out. Nothing that a client sends harms another one; a client that
// breaks the protocol is dropped. Costs per request grow with the logarithm of the number of
// clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "rendezvous/store_protocol.h"

namespace hvd::rendezvous {

class StoreService {
 public:
  // from connect() until the client has greeted
  static constexpr Duration kGreetingTime = std::chrono::seconds(5);
  // for the rest of a message, or its acceptance
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr size_t kMaxEntries = 65536;
  static constexpr size_t kMaxStored = size_t{64} << 20;  // bytes of all keys and values

  explicit StoreService(std::string job) : job_(std::move(job)) {}

  // Ids are the caller's, who uses an id again only after drop(). `proved` is the rank that the
  // client has already proved to be, or -1 for no rank; the client may greet as no other.
  void connect(int client, Time since, std::optional<int64_t> proved = std::nullopt);
  void drop(int client);

  // False: the client broke the protocol; the caller drops it.
  bool receive(int client, std::span<const std::byte> bytes, Time now);
  bool greeted(int client) const { return clients_.at(client).greeted; }

  // False while a client waits for a key or has not taken its last reply: reading on would only
  // collect memory.
  bool wants_input(int client) const;

  // output() is to be sent to the client, and sent() says that the first `size` bytes of it have
  // been.
  std::span<const std::byte> output(int client) const;
  void sent(int client, size_t size, Time now);

  // The clients that have got output by others' requests or by the time, since the last call. The
  // clients may have been dropped.
  std::vector<int> take_woken() { return std::exchange(woken_, {}); }

  // Answers waits that are over. Returns a client that has been silent in the middle of a message
  // for too long, to be dropped, or -1.
  int tick(Time now);
  // When tick() has something to do.
  Time next_tick() const { return due_.empty() ? kNever : due_.begin()->first; }

 private:
  struct Client {
    int id = 0;
    Bytes in;
    Bytes out;
    size_t out_at = 0;
    bool greeted = false;
    bool worked = false;  // has sent more than its greeting
    int64_t rank = -1;
    std::optional<int64_t> proved;
    Time patience_ends = kNever;  // kNever between messages
    std::string awaited;          // the key a pending get waits for, or empty
    Time wait_started{};
    Time wait_ends = kNever;
    Time due = kNever;  // the place in due_
  };

  void schedule(Client& client);
  bool handle_frames(Client& client, Time now);
  bool handle(Client& client, const Request& request, Time now);
  bool greet(Client& client, const Request& request);
  void set(Client& client, const Request& request, Time now);
  void get(Client& client, const Request& request, Time now);
  void add(Client& client, const Request& request, Time now);
  void remove(Client& client, const Request& request);
  Status store(std::string_view key, std::string_view value, Time now);
  void stop_waiting(Client& client);
  void end_wait(Client& client, const Status& status, std::string_view value, Time now);
  static void reply(Client& client, const Status& status, int64_t number = 0,
                    std::string_view text = {});

  const std::string job_;
  std::map<int, Client> clients_;
  // clients whose patience or wait will end
  std::set<std::pair<Time, int>> due_;
  std::map<std::string, std::set<int>, std::less<>> waiting_;  // clients by the key they wait for
  std::vector<int> woken_;
  std::set<int64_t> ranks_;  // ranks that have come; each comes once per job
  std::map<std::string, std::string, std::less<>> entries_;
  size_t stored_ = 0;
};

}  // namespace hvd::rendezvous
