// SPDX-License-Identifier: Apache-2.0
#include "context/context.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "backend/host/host_comm.h"
#include "backend/plugin/chosen_factory.h"
#include "context/backends.h"
#include "device/devices.h"
#include "rendezvous/watched_store.h"

namespace hvd {

namespace {

using rendezvous::JobRendezvous;
using rendezvous::Membership;

LogLevel log_level(const std::string& name) {
  if (name == "trace") return LogLevel::kTrace;
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarn;
  return LogLevel::kError;
}

Result<Options> read_options(const ContextRequest& request) {
  Options options;
  HVD_TRY(options.load(request.job.environment));
  for (const auto& [name, value] : request.options) HVD_TRY(options.set(name, value));
  return options;
}

Result<std::unique_ptr<transport::Fabric>> join_fabric(
    const JobRendezvous& met, const Options& options, Time deadline,
    const std::shared_ptr<Membership>& membership, const Logger* log) {
  transport::FabricOptions fabric;
  fabric.rank = met.rank;
  fabric.size = met.size;
  fabric.host = options.hostname;
  fabric.in_process = met.in_process;
  fabric.tcp_streams = static_cast<int>(options.tcp_streams);
  fabric.peer_timeout =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.peer_timeout));
  fabric.deadline = deadline;
  if (membership != nullptr) {
    fabric.lost = transport::LostMember([membership] { return membership->lost(); });
    fabric.expulsions = {membership->descriptors(),
                         [membership] { return membership->expelled(); }};
  }
  fabric.log = log;
  fabric.job = met.job;
  fabric.keyring = met.protection.keyring;
  fabric.security = met.protection.level;
  fabric.data_mac = options.data_mac;
  fabric.data_plane = options.cpu_operations;
  fabric.interfaces = options.network_interfaces;
  return transport::open_fabric(*met.store, fabric);
}

// Writes the facts that users look for first when a job is not what they thought.
void describe(const JobRendezvous& met, const Topology& topology, const Logger& log) {
  if (!log.enabled(LogLevel::kInfo)) return;
  log.write(LogLevel::kInfo, "context",
            "rank " + std::to_string(met.rank) + " of " + std::to_string(met.size) + " (local " +
                std::to_string(topology.local_rank()) + " of " +
                std::to_string(topology.local_size()) + ") on host " +
                topology.peer(met.rank).host + "; launcher " +
                (met.launcher.empty() ? "none" : met.launcher) + "; rendezvous " +
                (met.where.empty() ? "none" : met.where) + "; security " +
                secure::level_name(met.protection.level));
}

// In an elastic job the launcher gives this process its place in the next epoch, unless the caller
// has said where it is. The answer takes as long as the other members need to come.
Result<std::shared_ptr<Membership>> take_place(ContextRequest& request, const Options& options) {
  rendezvous::JobRequest& job = request.job;
  const bool given = job.store || job.rank >= 0 || job.size > 0 || job.url != "env:";
  if (given || !Membership::is_elastic(job.environment)) return std::shared_ptr<Membership>();
  if (!options.ranks.empty())
    return Status(Code::kUnsupported, "init: an elastic job consists of all of its ranks");
  const Time deadline =
      request.timeout == Duration::zero() ? kNever : deadline_after(now(), request.timeout);
  auto asked = Membership::ask(job.environment, options.membership_position, deadline);
  if (!asked.ok()) return asked;
  const rendezvous::Epoch& epoch = asked.value()->epoch();
  job.rank = epoch.rank;
  job.size = epoch.size;
  job.url = epoch.url;
  return asked;
}

// Members of an elastic job meet at one of them, which may end before others have reached it.
Result<JobRendezvous> find_members(ContextRequest& request, const Options& options,
                                   const secure::Protection& protection, Time deadline,
                                   const std::shared_ptr<const Logger>& log,
                                   Membership* membership) {
  constexpr Duration kLook = std::chrono::seconds(5);
  for (;;) {
    const Time look = membership == nullptr ? deadline : std::min(deadline, now() + kLook);
    Result<JobRendezvous> met = rendezvous::find_rendezvous(request.job, options, protection, look,
                                                            log, broadcast_by_mpi(options));
    if (met.status().code() != Code::kTimeout || look == deadline) return met;
    HVD_TRY(membership->lost());
  }
}

// A timeline that cannot be written is no reason to end a job.
std::shared_ptr<observe::Timeline> begin_timeline(const std::shared_ptr<engine::Engine>& engine,
                                                  const Options& options,
                                                  const std::shared_ptr<const Logger>& log) {
  // Ranks without a timeline do not take part in measuring the clocks.
  constexpr Duration kPatience = std::chrono::seconds(5);
  observe::ClockOffset clock{.known = engine->topology().host_count() == 1};
  if (!options.timeline.empty()) {
    const Result<observe::ClockOffset> measured = observe::measure_clock(engine, kPatience);
    if (measured.ok())
      clock = measured.value();
    else
      log->write(
          LogLevel::kInfo, "timeline",
          "the clocks of hosts were not compared, because HOROVOD_TIMELINE is not set on all "
          "ranks, or: " +
              measured.status().message());
  }
  auto timeline = std::make_shared<observe::Timeline>(engine, log, clock);
  if (options.timeline.empty() || options.timeline == "DYNAMIC") return timeline;
  const Status started = timeline->start(options.timeline, options.timeline_mark_cycles);
  if (!started.ok())
    log->write(LogLevel::kError, "timeline", started.message() + "; the job runs without it");
  return timeline;
}

Result<Context> meet(ContextRequest& request, const Options& options,
                     const secure::Protection& protection,
                     const std::shared_ptr<FaultRecord>& faults,
                     const std::shared_ptr<Membership>& membership) {
  const Duration limit = request.timeout != Duration::zero()
                             ? request.timeout
                             : std::chrono::duration_cast<Duration>(
                                   std::chrono::duration<double>(options.start_timeout));
  const Time deadline = deadline_after(now(), limit);

  engine::EngineParts parts;
  parts.options = options;
  const auto logger =
      std::make_shared<Logger>(std::move(request.log), log_level(options.log_level));
  parts.log = logger;
  parts.faults = faults;

  Result<JobRendezvous> met =
      find_members(request, options, protection, deadline, parts.log, membership.get());
  if (!met.ok()) return met.status();
  if (membership != nullptr) {
    met.value().store =
        std::make_shared<rendezvous::WatchedStore>(std::move(met.value().store), membership);
    parts.restarts = membership->epoch().number - 1;
    parts.tell_of_set = [membership](int32_t id, const std::vector<int>& ranks) {
      try {
        (void)membership->tell_of_set(id, ranks);  // where that fails, the job is about to end
      } catch (const std::bad_alloc&) {
        // The set is made, but does not go on in the next epoch.
      }
    };
  }
  // A program that asks whether MPI is in use gets this answer.
  if (met.value().launcher.starts_with("Open MPI")) HVD_TRY(parts.options.set("controller", "mpi"));
  parts.log->set_rank(met.value().rank);
  faults->set_place(met.value().rank, met.value().size);
  Result<std::unique_ptr<transport::Fabric>> fabric =
      join_fabric(met.value(), options, deadline, membership, parts.log.get());
  if (!fabric.ok()) return fabric.status();
  parts.fabric = std::move(fabric).value();
  describe(met.value(), parts.fabric->topology(), *parts.log);

  collectives::Settings settings;
  settings.hierarchical_allreduce = options.allreduce_by_hosts();
  settings.hierarchical_allgather = options.hierarchical_allgather;
  transport::Fabric* const lanes = parts.fabric.get();
  const Logger* const log = parts.log.get();
  parts.devices = std::make_unique<device::Devices>([lanes] { lanes->interrupt(); });
  parts.device_comms = choose_device_comms(options, lanes->topology());
  auto engine = std::make_shared<engine::Engine>(std::move(parts));
  auto native = std::make_unique<backend::host::HostCommFactory>(*lanes, settings);
  auto factory = std::make_unique<backend::plugin::ChosenFactory>(
      std::move(native), choose_backend(options), lanes->topology(), log,
      backend::plugin::ChosenFactory::Engine{[lanes] { lanes->interrupt(); },
                                             [of = engine.get()] { return of->status(); }});
  HVD_TRY(engine->start(std::move(factory), deadline));
  if (membership != nullptr)
    HVD_TRY(engine->create_sets_again(membership->epoch().sets, membership->epoch().next_set_id));
  auto timeline = begin_timeline(engine, options, logger);
  return Context{std::move(engine), membership, std::move(timeline)};
}

// A member's end makes the meeting of the others fail in one way or another. The launcher says so,
// perhaps a moment later.
Status end_of_meeting(const Status& status, Membership* membership) {
  constexpr Duration kLook = std::chrono::milliseconds(10), kPatience = std::chrono::seconds(1);
  const bool unclear = status.code() == Code::kIo || status.code() == Code::kTimeout;
  if (membership == nullptr || !unclear) return status;
  for (const Time until = now() + kPatience; now() < until; std::this_thread::sleep_for(kLook))
    HVD_TRY(membership->lost());
  return status;
}

Result<Context> open(ContextRequest request, const std::shared_ptr<FaultRecord>& faults) {
  const Result<Options> options = read_options(request);
  if (!options.ok()) return options.status();
  const Result<secure::Protection> protection = secure::read_protection(options.value());
  if (!protection.ok()) return protection.status();
  const auto membership = take_place(request, options.value());
  if (!membership.ok()) return membership.status();
  Result<Context> met =
      meet(request, options.value(), protection.value(), faults, membership.value());
  if (met.ok()) return met;
  return end_of_meeting(met.status(), membership.value().get());
}

}  // namespace

Result<Context> open_context(ContextRequest request) {
  const auto faults =
      std::make_shared<FaultRecord>(request.job.environment("HOROVOD_FAULT_FILE").value_or(""));
  Result<Context> opened = open(std::move(request), faults);
  if (!opened.ok()) faults->note(opened.status());
  return opened;
}

}  // namespace hvd
