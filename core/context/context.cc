// SPDX-License-Identifier: Apache-2.0
#include "context/context.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "backend/host/host_comm.h"
#include "context/eager.h"
#include "context/protection.h"
#include "rendezvous/env.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/open_store.h"
#include "rendezvous/url.h"

namespace hvd {

namespace {

LogLevel log_level(const std::string& name) {
  if (name == "trace") return LogLevel::kTrace;
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarn;
  return LogLevel::kError;
}

Result<Options> read_options(const ContextRequest& request) {
  Options options;
  HVD_TRY(options.load(request.environment));
  for (const auto& [name, value] : request.options) HVD_TRY(options.set(name, value));
  return options;
}

// Where this rank is and how it meets the others, from what the caller gave and what the environment says.
struct Meeting {
  int rank = 0;
  int size = 1;
  std::string job = "job";
  std::shared_ptr<rendezvous::Store> store;
  bool in_process = false;
};

// Fills in rank and size, and returns the URL; "" for none.
Result<std::string> find_place(const ContextRequest& request, Meeting& meeting) {
  meeting.rank = request.rank;
  meeting.size = request.size;
  std::string url = request.rendezvous;
  if (!request.store && (url.empty() || url == "env:")) {
    Result<rendezvous::Place> place = rendezvous::place_from_environment(request.environment);
    if (!place.ok()) return place.status();
    if (meeting.rank < 0) meeting.rank = place.value().rank;
    if (meeting.size == 0) meeting.size = place.value().size;
    url = place.value().url;
  }
  if (meeting.size < 1) {
    return Status(Code::kInvalidArgument,
                  "init: size is " + std::to_string(meeting.size) + "; with a rendezvous it must be at least 1");
  }
  if (meeting.rank >= meeting.size) {
    return Status(Code::kInvalidArgument, "init: rank is " + std::to_string(meeting.rank) + ", size is " +
                                              std::to_string(meeting.size) + "; rank must be below size");
  }
  return url;
}

Status open_store_at(const std::string& url, const rendezvous::StoreSettings& settings, Meeting& meeting) {
  Result<rendezvous::Url> parsed = rendezvous::parse_url(url);
  if (!parsed.ok()) return parsed.status();
  meeting.in_process = std::holds_alternative<rendezvous::MemoryUrl>(parsed.value());
  meeting.job = rendezvous::job_of(parsed.value());
  Result<std::shared_ptr<rendezvous::Store>> store = rendezvous::open_store(parsed.value(), settings);
  if (!store.ok()) return store.status();
  meeting.store = std::move(store).value();
  return {};
}

// `settings` says everything about the store but rank and size.
Result<Meeting> find_meeting(ContextRequest& request, rendezvous::StoreSettings settings) {
  Meeting meeting;
  const Result<std::string> url = find_place(request, meeting);
  if (!url.ok()) return url.status();
  settings.rank = meeting.rank;
  settings.size = meeting.size;
  if (request.store) {
    meeting.store = std::move(request.store);
  } else if (!url.value().empty()) {
    HVD_TRY(open_store_at(url.value(), settings, meeting));
  } else if (meeting.size > 1) {
    return Status(Code::kInvalidArgument, "init: size is " + std::to_string(meeting.size) + " but no rendezvous is given");
  } else {
    meeting.store = std::make_shared<rendezvous::MemoryStore>();
    meeting.in_process = true;
  }
  if (meeting.rank < 0) {
    Result<int> rank = rendezvous::rank_by_arrival(*meeting.store, meeting.size);
    if (!rank.ok()) return rank.status();
    meeting.rank = rank.value();
  }
  return meeting;
}

Result<std::unique_ptr<transport::Fabric>> join_fabric(const Meeting& meeting, const Options& options,
                                                       const Protection& protection, Time deadline, const Logger* log) {
  transport::FabricOptions fabric;
  fabric.rank = meeting.rank;
  fabric.size = meeting.size;
  fabric.host = options.hostname;
  fabric.in_process = meeting.in_process;
  fabric.peer_timeout = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.peer_timeout));
  fabric.deadline = deadline;
  fabric.log = log;
  fabric.job = meeting.job;
  fabric.keyring = protection.keyring;
  fabric.security = protection.level;
  fabric.interfaces = options.network_interfaces;
  return transport::open_fabric(*meeting.store, fabric);
}

}  // namespace

Result<std::shared_ptr<engine::Engine>> open_context(ContextRequest request) {
  Result<Options> options = read_options(request);
  if (!options.ok()) return options.status();
  const Result<Protection> protection = read_protection(options.value());
  if (!protection.ok()) return protection.status();
  const Duration limit =
      request.timeout != Duration::zero()
          ? request.timeout
          : std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.value().start_timeout));
  const Time deadline = deadline_after(now(), limit);

  engine::EngineParts parts;
  parts.options = options.value();
  parts.log = std::make_shared<Logger>(std::move(request.log), log_level(options.value().log_level));
  parts.reduce = reduce_eagerly;

  rendezvous::StoreSettings store;
  store.deadline = deadline;
  store.keyring = protection.value().keyring;
  store.security = protection.value().level;
  store.interfaces = options.value().network_interfaces;
  store.log = parts.log;
  const Result<Meeting> meeting = find_meeting(request, std::move(store));
  if (!meeting.ok()) return meeting.status();
  parts.log->set_rank(meeting.value().rank);
  Result<std::unique_ptr<transport::Fabric>> fabric =
      join_fabric(meeting.value(), options.value(), protection.value(), deadline, parts.log.get());
  if (!fabric.ok()) return fabric.status();
  parts.fabric = std::move(fabric).value();

  collectives::Settings settings;
  settings.hierarchical_allreduce = options.value().hierarchical_allreduce;
  auto factory = std::make_unique<backend::host::HostCommFactory>(*parts.fabric, settings);
  auto engine = std::make_shared<engine::Engine>(std::move(parts));
  HVD_TRY(engine->start(std::move(factory), deadline));
  return engine;
}

}  // namespace hvd
