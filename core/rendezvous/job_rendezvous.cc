// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/job_rendezvous.h"

#include <utility>
#include <variant>

#include "rendezvous/bootstrap.h"
#include "rendezvous/launchers.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/open_store.h"
#include "rendezvous/prefix_store.h"
#include "rendezvous/rank_subset.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

// The caller's word counts more than the launcher's.
Result<Place> place_of(const JobRequest& request) {
  Place place;
  const bool from_environment = !request.store && (request.url.empty() || request.url == "env:");
  if (from_environment) {
    Result<Place> found = find_place(request.environment);
    if (!found.ok()) return found;
    place = std::move(found).value();
  } else {
    place.rank = -1;
    place.size = 0;
    place.url = request.store ? "" : request.url;
    place.way = Way::kUrl;
  }
  if (request.rank >= 0) place.rank = request.rank;
  if (request.size > 0) place.size = request.size;
  if (place.size < 1) {
    return Status(Code::kInvalidArgument, "init: size is " + std::to_string(place.size) +
                                              "; with a rendezvous it must be at least 1");
  }
  if (place.rank >= place.size) {
    return Status(Code::kInvalidArgument, "init: rank is " + std::to_string(place.rank) +
                                              ", size is " + std::to_string(place.size) +
                                              "; rank must be below size");
  }
  if (place.size == 1 && place.way != Way::kUrl) place.way = Way::kAlone;
  if (place.size > 1 && place.way == Way::kAlone) {
    return Status(Code::kInvalidArgument,
                  "init: size is " + std::to_string(place.size) + " but no rendezvous is given");
  }
  return place;
}

// The place is one address with several ports: rank 0 takes the first free port, the others look
// for it.
TcpUrl range_of(const Place& place) {
  TcpUrl url{{}, place.job};
  for (int port = 0; port < place.ports; ++port) {
    url.candidates.push_back({place.address, static_cast<uint16_t>(place.first_port + port)});
  }
  return url;
}

Status open_store_at(const std::string& url, const StoreSettings& settings, JobRendezvous& met) {
  Result<Url> parsed = parse_url(url);
  if (!parsed.ok()) return parsed.status();
  met.in_process = std::holds_alternative<MemoryUrl>(parsed.value());
  met.job = job_of(parsed.value());
  Result<std::shared_ptr<Store>> store = open_store(parsed.value(), settings);
  if (!store.ok()) return store.status();
  met.store = std::move(store).value();
  met.where = url;
  return {};
}

Status meet(const Place& place, const Environment& environment, const StoreSettings& settings,
            const MpiBroadcast& broadcast_by_mpi, JobRendezvous& met) {
  switch (place.way) {
    case Way::kAlone:
      met.store = std::make_shared<MemoryStore>();
      met.in_process = true;
      return {};
    case Way::kUrl: return open_store_at(place.url, settings, met);
    case Way::kHost: return open_store_at("unix://" + place.job, settings, met);
    case Way::kAddress:
      HVD_TRY(open_store_at(range_of(place).text(), settings, met));
      met.where = range_of(place).summary();
      return {};
    case Way::kUnknown:
      return {
          Code::kUnsupported,
          "init: " + place.launcher + " offers " + std::to_string(place.size) +
              " ranks no way to meet; set HOROVOD_RENDEZVOUS to file:///folder-of-all-hosts, or to "
              "tcp://host:port/job together with HOROVOD_SECRET_FILE"};
    case Way::kMpi:
    case Way::kPmix:
    case Way::kPmi: break;
  }
  Result<Bootstrap> bootstrap =
      meet_through_launcher(place, environment, met.protection, settings, broadcast_by_mpi);
  if (!bootstrap.ok()) return bootstrap.status();
  met.store = std::move(bootstrap.value().store);
  met.protection = std::move(bootstrap.value().protection);
  met.where = std::move(bootstrap.value().url);
  if (!place.job.empty()) met.job = place.job;
  return {};
}

// Where the ranks themselves open the place to meet, the lowest rank of a subset does that for it;
// a subset need not know of the others, and the launched rank 0 may be elsewhere.
Status subset_before_rendezvous(const std::string& ranks, Place& place) {
  if (place.way != Way::kHost && place.way != Way::kAddress) return {};
  const Result<RankSubset> subset = find_rank_subset(ranks, place.rank, place.size);
  if (!subset.ok()) return subset.status();
  place.rank = subset.value().rank;
  place.size = subset.value().size;
  if (!subset.value().name.empty()) place.job += "." + subset.value().name;
  return {};
}

// Elsewhere a subset has a corner of the place where all launched ranks may meet.
Status subset_in_store(const std::string& ranks, JobRendezvous& met) {
  const Result<RankSubset> subset = find_rank_subset(ranks, met.rank, met.size);
  if (!subset.ok()) return subset.status();
  met.rank = subset.value().rank;
  met.size = subset.value().size;
  if (subset.value().name.empty()) return {};
  met.store = std::make_shared<PrefixStore>(std::move(met.store), subset.value().name + "/");
  return {};
}

}  // namespace

Result<JobRendezvous> find_rendezvous(JobRequest& request, const Options& options,
                                      secure::Protection protection, Time deadline,
                                      std::shared_ptr<const Logger> log,
                                      const MpiBroadcast& broadcast_by_mpi) {
  Result<Place> place = place_of(request);
  if (!place.ok()) return place.status();
  const Way way = place.value().way;
  HVD_TRY(subset_before_rendezvous(options.ranks, place.value()));
  JobRendezvous met;
  met.rank = place.value().rank;
  met.size = place.value().size;
  met.launcher = place.value().launcher;
  met.protection = std::move(protection);
  if (!place.value().note.empty()) log->write(LogLevel::kWarn, "context", place.value().note);

  StoreSettings settings;
  settings.rank = met.rank;
  settings.size = met.size;
  settings.deadline = deadline;
  settings.keyring = met.protection.keyring;
  settings.security = met.protection.level;
  settings.interfaces = options.network_interfaces;
  settings.log = std::move(log);
  if (request.store) {
    met.store = std::move(request.store);
    met.where = "of the caller";
  } else {
    HVD_TRY(meet(place.value(), request.environment, settings, broadcast_by_mpi, met));
  }
  if (met.rank < 0) {
    Result<int> rank = rank_by_arrival(*met.store, met.size);
    if (!rank.ok()) return rank.status();
    met.rank = rank.value();
  }
  if (way != Way::kHost && way != Way::kAddress) HVD_TRY(subset_in_store(options.ranks, met));
  return met;
}

}  // namespace hvd::rendezvous
