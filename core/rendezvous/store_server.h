// SPDX-License-Identifier: Apache-2.0
// The server of a store, with a thread that moves bytes between its clients and a StoreService. A
// client is a stranger until it has proved that it knows the secret (if there is one) and has
// greeted. Strangers are few and have little time. A stranger that is wrong is only closed and
// counted, and however many come, the clients are served in between.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/channel.h"
#include "rendezvous/store_service.h"
#include "secure/strangers.h"
#include "secure/tls.h"

namespace hvd::rendezvous {

class StoreServer {
 public:
  // In a forked child the server is left as it is, because the thread may have been in the middle
  // of anything when the fork happened.
  struct End {
    void operator()(StoreServer* server) const;
  };
  using Handle = std::unique_ptr<StoreServer, End>;

  static constexpr size_t kMaxClients = 16384;
  static constexpr Duration kFarewell = std::chrono::seconds(2);

  struct Setup {
    // internet sockets, or Unix ones, which only processes of this user may use
    std::vector<Fd> listeners;
    std::string name;  // for messages: "store tcp://127.0.0.1:7777/job"
    std::string job;
    int size = 1;                                    // ranks of the job
    std::shared_ptr<const secure::Keyring> keyring;  // null: plain
    std::shared_ptr<const Logger> log;               // null: silent
  };
  static Result<Handle> start(Setup setup);

  // Accepts nobody any more, waits until the clients have gone, at most kFarewell, and ends.
  ~StoreServer();

  // Strangers that were sent away so far.
  uint64_t refused() const { return refused_; }

  StoreServer(Setup setup, Fd wake, Fd events);

 private:
  enum class Stage {
    kSilent,   // has said nothing yet; nothing is kept for it but its socket
    kProving,  // TLS handshake
    kTalking,  // known to the service; a stranger until it has greeted
  };
  struct Client {
    Channel channel;
    std::string source;  // the address without the port
    Time since{};
    Stage stage = Stage::kSilent;
    uint32_t watched = 0;  // events asked of epoll
  };

  Status start_serving();
  void run() noexcept;
  void look_round(Time end);
  Time next_time(Time end) const;
  void handle(int fd, uint32_t events);
  void end_of_time();

  void accept_from(int listener);
  bool make_room();
  void pause_accepting(Time until);
  void welcome(Fd socket, const sockaddr_storage& peer);

  // Does what can be done for a client, and drops it when it has gone or has to go.
  void serve(int id, uint32_t events);
  // Ok or kPending: all is well. kMismatch: why the client has to go; any other status: the client
  // has gone.
  Status advance(int id, Client& client, uint32_t events);
  Status begin(int id, Client& client);
  Status prove(int id, Client& client);
  Status talk(int id, Client& client, uint32_t events);
  Status send_output(int id, Client& client);
  uint32_t wanted_events(int id, const Client& client) const;

  void count_refusal(const std::string& source, const std::string& why);
  void refuse(int id, const std::string& why);
  void drop(int id);

  Setup setup_;
  const Fd wake_;
  const Fd events_;  // epoll
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> refused_{0};

  // Owned by the thread.
  StoreService service_;
  secure::Strangers strangers_;
  std::map<int, Client> clients_;
  std::vector<int> knocked_at_;  // listeners with somebody to accept
  Time accept_again_ = kNever;   // accepts no client before; kNever: accepting

  const ForkGuard fork_guard_;
  std::thread thread_;
};

}  // namespace hvd::rendezvous
