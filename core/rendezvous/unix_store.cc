// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/unix_store.h"

#include <errno.h>

#include <thread>

#include "rendezvous/listen.h"
#include "rendezvous/race.h"

namespace hvd::rendezvous {
namespace {

// before a name that is taken is tried again
constexpr Duration kNamePause = std::chrono::milliseconds(20);

// Nothing if another process has the name and this one need not have it.
Result<Fd> listen(const UnixUrl& url, const StoreSettings& settings) {
  for (;;) {
    Result<Fd> socket = listen_at_unix(url.name);
    if (socket.ok() || socket.status().sys_errno() != EADDRINUSE) return socket;
    if (settings.rank < 0) return Fd();
    if (now() >= settings.deadline) return socket;
    std::this_thread::sleep_for(kNamePause);
  }
}

Result<StoreServer::Handle> serve(const UnixUrl& url, const StoreSettings& settings,
                                  const std::string& name) {
  Result<Fd> socket = listen(url, settings);
  if (!socket.ok()) return socket.status();
  if (!socket.value()) return StoreServer::Handle();
  StoreServer::Setup setup;
  setup.listeners.push_back(std::move(socket).value());
  setup.name = name;
  setup.job = url.name;
  setup.size = settings.size;
  setup.log = settings.log;
  return StoreServer::start(std::move(setup));
}

}  // namespace

Result<std::shared_ptr<RemoteStore>> open_unix_store(const UnixUrl& url,
                                                     const StoreSettings& settings) {
  const std::string name = "store unix://" + url.name;
  const auto named = [&](const Status& status) {
    return Status(status.code(), name + ": " + status.message()).with_errno(status.sys_errno());
  };
  StoreServer::Handle server;
  if (settings.rank <= 0) {
    Result<StoreServer::Handle> started = serve(url, settings, name);
    if (!started.ok()) return named(started.status());
    server = std::move(started).value();
  }
  const std::vector<Target> targets = {Target::unix_name(url.name)};
  Race race([&] { return targets; }, {url.name, settings.rank, nullptr});
  Result<Channel> channel = race.run(settings.deadline);
  if (!channel.ok()) return named(channel.status());
  return std::make_shared<RemoteStore>(name, std::move(server), std::move(channel).value());
}

}  // namespace hvd::rendezvous
