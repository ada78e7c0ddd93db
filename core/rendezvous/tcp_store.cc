// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tcp_store.h"

#include <errno.h>

#include <algorithm>
#include <map>
#include <thread>

#include "rendezvous/listen.h"
#include "rendezvous/race.h"

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;
using KeyringPointer = std::shared_ptr<const secure::Keyring>;

constexpr Duration kPortPause = 20ms;  // before a port that is taken is tried again

std::string name_of(const TcpUrl& url) {
  const std::string text = "store " + url.summary();
  if (text.size() <= 200) return text;
  return "store tcp://" + url.candidates.front().text() + ",.../" + url.job;
}

// The opening of a store, with its name in messages and the protection of its connections.
class Opening {
 public:
  Opening(const TcpUrl& url, const StoreSettings& settings)
      : url_(url), settings_(settings), name_(name_of(url)) {
    if (settings.security != secure::Level::kNone) keyring_ = settings.keyring;
  }

  Result<std::shared_ptr<RemoteStore>> open();
  Result<TcpStore::Served> serve(const std::vector<SocketAddress>& addresses);

 private:
  // Whether these may be used with what protects this store.
  Status allow(const std::vector<SocketAddress>& addresses);
  Result<std::vector<SocketAddress>> find_server();
  Result<std::vector<Listener>> listen();
  Result<StoreServer::Handle> start(std::vector<Listener>& listeners);
  Result<std::shared_ptr<RemoteStore>> connect(Race::FindTargets find, StoreServer::Handle server);
  Status named(const Status& status) const {
    return Status(status.code(), name_ + ": " + status.message()).with_errno(status.sys_errno());
  }

  const TcpUrl& url_;
  const StoreSettings& settings_;
  const std::string name_;
  KeyringPointer keyring_;
  bool warned_ = false;
};

Race::FindTargets always(const std::vector<Listener>& listeners) {
  std::vector<Target> targets;
  for (const Listener& listener : listeners) targets.push_back(Target::of(listener.address));
  return [targets] { return targets; };
}

Status Opening::allow(const std::vector<SocketAddress>& addresses) {
  const auto remote =
      std::find_if(addresses.begin(), addresses.end(),
                   [](const SocketAddress& address) { return !address.is_loopback(); });
  if (keyring_ || remote == addresses.end()) return {};
  if (settings_.security != secure::Level::kNone) {
    return {Code::kInvalidArgument,
            "others can reach " + remote->text() +
                ", and no secret is given; set HOROVOD_SECRET_FILE to a file with the job's "
                "secret, or HOROVOD_SECURITY=none where everybody on the network may be trusted"};
  }
  if (!std::exchange(warned_, true) && settings_.log) {
    settings_.log->write(LogLevel::kWarn, "rendezvous",
                         name_ + ": HOROVOD_SECURITY=none: whoever can reach " + remote->text() +
                             " can join and control this job");
  }
  return {};
}

Result<std::vector<SocketAddress>> Opening::find_server() {
  std::vector<SocketAddress> addresses;
  Status unknown;
  // a resolver can take its time, and each port has the name
  std::map<std::string, Result<std::vector<SocketAddress>>> known;
  for (const Candidate& candidate : url_.candidates) {
    if (!known.contains(candidate.host))
      known.emplace(candidate.host, addresses_of_candidate(candidate));
    const Result<std::vector<SocketAddress>>& meant = known.at(candidate.host);
    if (!meant.ok()) {
      unknown = meant.status();
      continue;
    }
    for (SocketAddress address : meant.value()) {
      address.set_port(candidate.port);
      addresses.push_back(address);
    }
  }
  HVD_TRY(allow(addresses));
  if (addresses.empty()) return unknown;
  return addresses;
}

// The candidates of each port; with several names or addresses all ports belong together.
std::vector<TcpUrl> alternatives(const TcpUrl& url) {
  const auto other = [&](const Candidate& candidate) {
    return candidate.host != url.candidates.front().host;
  };
  if (std::any_of(url.candidates.begin(), url.candidates.end(), other)) return {url};
  std::vector<TcpUrl> each;
  for (const Candidate& candidate : url.candidates) each.push_back({{candidate}, url.job});
  return each;
}

// Rank 0: waits until it listens. Ranks without a number: nothing if another one listens or will.
Result<std::vector<Listener>> Opening::listen() {
  const bool numbered = settings_.rank == 0;
  TcpUrl url = url_;
  // The first candidate decides who serves; each of several would make a server of its own.
  if (!numbered) url.candidates.resize(1);
  const bool widely = !settings_.one_host && settings_.size > 1 &&
                      (keyring_ || settings_.security == secure::Level::kNone);
  const std::vector<TcpUrl> ports = alternatives(url);
  for (;;) {
    Status status;
    bool unknown_name = false, taken = false;
    for (const TcpUrl& one : ports) {
      const Result<std::vector<SocketAddress>> places =
          places_to_listen(one, widely, settings_.interfaces);
      status = places.status();
      unknown_name = status.code() == Code::kIo;
      if (!places.ok()) break;
      HVD_TRY(allow(places.value()));
      Result<std::vector<Listener>> listeners = listen_at_own(places.value());
      if (listeners.ok()) return listeners;
      status = listeners.status();
      taken = status.sys_errno() == EADDRINUSE;
      if (!taken) break;
    }
    if (!numbered && (taken || status.code() == Code::kNotFound)) return std::vector<Listener>();
    // A port may become free and a name known; nothing else changes by waiting.
    if ((!taken && !unknown_name) || now() >= settings_.deadline) return status;
    std::this_thread::sleep_for(kPortPause);
  }
}

Result<StoreServer::Handle> Opening::start(std::vector<Listener>& listeners) {
  StoreServer::Setup setup;
  for (Listener& listener : listeners) setup.listeners.push_back(std::move(listener.socket));
  setup.name = name_;
  setup.job = url_.job;
  setup.size = settings_.size;
  setup.keyring = keyring_;
  setup.log = settings_.log;
  return StoreServer::start(std::move(setup));
}

Result<std::shared_ptr<RemoteStore>> Opening::connect(Race::FindTargets find,
                                                      StoreServer::Handle server) {
  Race race(std::move(find), {url_.job, settings_.rank, keyring_});
  Result<Channel> channel = race.run(settings_.deadline);
  if (!channel.ok()) return named(channel.status());
  return std::make_shared<RemoteStore>(name_, std::move(server), std::move(channel).value());
}

Result<std::shared_ptr<RemoteStore>> Opening::open() {
  // The same answer on every rank, whichever addresses it will use itself.
  std::vector<SocketAddress> numeric;
  for (const Candidate& candidate : url_.candidates) {
    if (const auto address = SocketAddress::parse(candidate.host, candidate.port))
      numeric.push_back(*address);
  }
  if (const Status allowed = allow(numeric); !allowed.ok()) return named(allowed);
  if (settings_.rank <= 0) {
    Result<std::vector<Listener>> listeners = listen();
    if (!listeners.ok()) return named(listeners.status());
    if (!listeners.value().empty()) {
      Result<StoreServer::Handle> server = start(listeners.value());
      if (!server.ok()) return named(server.status());
      return connect(always(listeners.value()), std::move(server).value());
    }
  }
  const auto find = [this]() -> Result<std::vector<Target>> {
    const Result<std::vector<SocketAddress>> addresses = find_server();
    if (!addresses.ok()) return addresses.status();
    std::vector<Target> targets;
    for (const SocketAddress& address : addresses.value()) targets.push_back(Target::of(address));
    return targets;
  };
  return connect(find, nullptr);
}

Result<TcpStore::Served> Opening::serve(const std::vector<SocketAddress>& addresses) {
  if (const Status allowed = allow(addresses); !allowed.ok()) return named(allowed);
  TcpStore::Served served{nullptr, {{}, url_.job}};
  std::vector<Listener> listeners;
  for (const SocketAddress& address : addresses) {
    Result<Listener> listener = listen_at(address);
    if (!listener.ok()) return named(listener.status());
    listeners.push_back(std::move(listener).value());
    served.url.candidates.push_back(
        {listeners.back().address.host(), listeners.back().address.port()});
  }
  Result<StoreServer::Handle> server = start(listeners);
  if (!server.ok()) return named(server.status());
  Result<std::shared_ptr<RemoteStore>> store =
      connect(always(listeners), std::move(server).value());
  if (!store.ok()) return store.status();
  served.store = std::move(store).value();
  return served;
}

}  // namespace

Result<std::shared_ptr<RemoteStore>> TcpStore::open(const TcpUrl& url,
                                                    const StoreSettings& settings) {
  return Opening(url, settings).open();
}

Result<TcpStore::Served> TcpStore::serve(const std::vector<SocketAddress>& addresses,
                                         const std::string& job, const StoreSettings& settings) {
  TcpUrl url{{}, job};
  for (const SocketAddress& address : addresses)
    url.candidates.push_back({address.host(), address.port()});
  if (addresses.empty())
    return Status(Code::kInvalidArgument, "store of job \"" + job + "\": no address to serve at");
  return Opening(url, settings).serve(addresses);
}

}  // namespace hvd::rendezvous
