// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/open_store.h"

#include "rendezvous/file_store.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store.h"
#include "rendezvous/unix_store.h"

namespace hvd::rendezvous {
namespace {

template <class Concrete>
Result<std::shared_ptr<Store>> as_store(Result<std::shared_ptr<Concrete>> store) {
  if (!store.ok()) return store.status();
  return std::shared_ptr<Store>(std::move(store).value());
}

struct Opener {
  const StoreSettings& settings;

  Result<std::shared_ptr<Store>> operator()(const EnvUrl&) const {
    return Status(Code::kInvalidArgument, "rendezvous \"env:\" names no store");
  }
  Result<std::shared_ptr<Store>> operator()(const FileUrl& url) const {
    return as_store(FileStore::open(url.directory));
  }
  Result<std::shared_ptr<Store>> operator()(const TcpUrl& url) const {
    return as_store(TcpStore::open(url, settings));
  }
  Result<std::shared_ptr<Store>> operator()(const UnixUrl& url) const {
    return as_store(open_unix_store(url, settings));
  }
  Result<std::shared_ptr<Store>> operator()(const MemoryUrl& url) const {
    return std::shared_ptr<Store>(MemoryStore::named(url.name));
  }
};

}  // namespace

Result<std::shared_ptr<Store>> open_store(const Url& url, const StoreSettings& settings) {
  if (settings.size < 1 || settings.rank < -1 || settings.rank >= settings.size) {
    return Status(Code::kInvalidArgument, "rendezvous: rank " + std::to_string(settings.rank) +
                                              " does not exist in a job of " +
                                              std::to_string(settings.size));
  }
  return std::visit(Opener{settings}, url);
}

Result<int> rank_by_arrival(Store& store, int size) {
  const Result<int64_t> arrivals = store.add("arrivals", 1);
  if (!arrivals.ok()) return arrivals.status();
  if (arrivals.value() >= 1 && arrivals.value() <= size)
    return static_cast<int>(arrivals.value() - 1);
  return Status(Code::kInvalidState, "rendezvous: this is arrival " +
                                         std::to_string(arrivals.value()) + " in a job of " +
                                         std::to_string(size) + " ranks");
}

}  // namespace hvd::rendezvous
