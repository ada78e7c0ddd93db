// SPDX-License-Identifier: Apache-2.0
#include "context/context.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "backend/host/host_comm.h"
#include "context/eager.h"
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
  std::shared_ptr<rendezvous::Store> store;
  bool in_process = false;
};

Result<Meeting> find_meeting(ContextRequest& request, Time deadline) {
  Meeting meeting;
  meeting.rank = request.rank;
  meeting.size = request.size;
  std::string url = request.rendezvous;
  const bool from_environment = !request.store && (url.empty() || url == "env:");
  if (from_environment) {
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
  if (request.store) {
    meeting.store = std::move(request.store);
  } else if (!url.empty()) {
    Result<rendezvous::Url> parsed = rendezvous::parse_url(url);
    if (!parsed.ok()) return parsed.status();
    meeting.in_process = std::holds_alternative<rendezvous::MemoryUrl>(parsed.value());
    Result<std::shared_ptr<rendezvous::Store>> store =
        rendezvous::open_store(parsed.value(), meeting.rank, meeting.size, deadline);
    if (!store.ok()) return store.status();
    meeting.store = std::move(store).value();
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

}  // namespace

Result<std::shared_ptr<engine::Engine>> open_context(ContextRequest request) {
  Result<Options> options = read_options(request);
  if (!options.ok()) return options.status();
  const Duration limit =
      request.timeout != Duration::zero()
          ? request.timeout
          : std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.value().start_timeout));
  const Time deadline = deadline_after(now(), limit);
  Result<Meeting> meeting = find_meeting(request, deadline);
  if (!meeting.ok()) return meeting.status();

  engine::EngineParts parts;
  parts.options = options.value();
  parts.log = std::make_shared<Logger>(std::move(request.log), log_level(options.value().log_level));
  parts.log->set_rank(meeting.value().rank);
  parts.reduce = reduce_eagerly;

  transport::FabricOptions fabric_options;
  fabric_options.rank = meeting.value().rank;
  fabric_options.size = meeting.value().size;
  fabric_options.host = options.value().hostname;
  fabric_options.in_process = meeting.value().in_process;
  fabric_options.peer_timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.value().peer_timeout));
  fabric_options.deadline = deadline;
  fabric_options.log = parts.log.get();
  Result<std::unique_ptr<transport::Fabric>> fabric = transport::open_fabric(*meeting.value().store, fabric_options);
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
