// SPDX-License-Identifier: Apache-2.0
// A rank's membership in a job.
#pragma once

#include <hvd/hvd.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operations.hpp"

namespace hvd::inline v1 {

// Operations that are submitted while one exists are announced to the other ranks together: for
// many small ones in a row. Made by Context::burst(), which it may not outlive. Bursts nest; within
// one, wait for what must have ended.
class [[nodiscard]] Burst {
 public:
  ~Burst() { hvd_burst_end(context_, nullptr); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

 private:
  friend class Context;
  explicit Burst(hvd_context* context) : context_(context) { hvd_burst_begin(context_, nullptr); }
  hvd_context* context_;
};

// The members of an elastic job (`horovodrun --min-np`), as hvd_membership of hvd.h has them.
struct Membership {
  std::int64_t epoch;  // counts the memberships of the job from 1; 0 where members are fixed
  bool removed;        // members are about to go
  bool added;          // members are about to come
  bool synchronize;    // states differ, and all take over rank 0's
};

// Leaves the job when it ends. Safe to use from several threads. Every function has a form with
// try_, which returns Expected, and one without, which throws. The operations are in Operations,
// which it inherits.
class Context : public Operations<Context> {
 public:
  // Joins a job. Collective: returns when every rank has arrived.
  static Expected<Context> try_open(const InitOptions& options = {}) {
    Context context{Empty()};
    hvd_init_options raw = HVD_INIT_OPTIONS_INIT;
    std::vector<hvd_option> settings;
    if (detail::has_null(options.rendezvous))
      return detail::null_character("the rendezvous", options.rendezvous);
    for (const auto& [name, value] : options.options) {
      if (auto refused = wrong_setting(name, value)) return *refused;
      settings.push_back({name.c_str(), value.c_str()});
    }
    raw.rank = options.rank;
    raw.size = options.size;
    raw.rendezvous = options.rendezvous.empty() ? nullptr : options.rendezvous.c_str();
    hvd_store store = HVD_STORE_INIT;
    if (options.store != nullptr) {
      store = detail::raw_store(*options.store);
      raw.store = &store;
    }
    if (options.timeout) raw.timeout_ns = detail::nanoseconds_not_default(*options.timeout);
    raw.options = settings.data();
    raw.option_count = settings.size();
    if (options.log) {
      context.log_ = std::make_unique<Log>(options.log);
      raw.log_user_data = context.log_.get();
      raw.log_fn = [](void* log, hvd_log_level level, std::int32_t rank, const char* component,
                      const char* message) noexcept {
        (*static_cast<Log*>(log))(level, rank, component, message);
      };
    } else {
      raw.log_fn = hvd_log_to_fd;
    }
    hvd_context* opened = nullptr;
    auto joined = detail::checked([&](hvd_error* error) { return hvd_init(&raw, &opened, error); });
    if (!joined) return joined.error();
    context.context_.reset(opened);
    auto placed = detail::checked(
        [&](hvd_error* error) { return hvd_topology_get(opened, &context.topology_, error); });
    if (!placed) return placed.error();
    return context;
  }
  Context() : Context(InitOptions()) {}
  explicit Context(const InitOptions& options) : Context(try_open(options).value()) {}
  Context(Context&&) noexcept = default;
  Context& operator=(Context&& other) noexcept {
    context_ = std::move(other.context_);  // ends the old one while its log function is still there
    log_ = std::move(other.log_);
    topology_ = other.topology_;
    return *this;
  }

  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  int local_rank() const { return topology_.local_rank; }
  int local_size() const { return topology_.local_size; }
  int cross_rank() const { return topology_.cross_rank; }
  int cross_size() const { return topology_.cross_size; }
  bool homogeneous() const { return topology_.homogeneous != 0; }

  // Elastic jobs: what this rank knows of their members. Never blocks.
  Expected<Membership> try_membership() const {
    hvd_membership found = HVD_MEMBERSHIP_INIT;
    auto got =
        detail::checked([&](hvd_error* error) { return hvd_membership_get(raw(), &found, error); });
    if (!got) return got.error();
    return Membership{found.epoch, (found.changes & HVD_MEMBERS_REMOVED) != 0,
                      (found.changes & HVD_MEMBERS_ADDED) != 0, found.synchronize != 0};
  }
  Membership membership() const { return try_membership().value(); }
  // Announces that this rank wants to leave; the next Context of this process is an error then.
  Expected<void> try_leave() const {
    return detail::checked([this](hvd_error* error) { return hvd_membership_leave(raw(), error); });
  }
  void leave() const { try_leave().value(); }

  // Nothing while the context works; otherwise why it does not, the same on every surviving rank.
  Expected<void> try_status() const {
    return detail::checked([this](hvd_error* error) { return hvd_context_status(raw(), error); });
  }
  void status() const { try_status().value(); }

  // Leaves the job; waits at most so long for operations that are moving data.
  Expected<void> try_shutdown(std::optional<std::chrono::nanoseconds> limit = {}) {
    const std::int64_t nanoseconds = limit ? detail::nanoseconds(*limit) : -1;
    return detail::checked(
        [&](hvd_error* error) { return hvd_shutdown(raw(), nanoseconds, error); });
  }
  void shutdown(std::optional<std::chrono::nanoseconds> limit = {}) { try_shutdown(limit).value(); }

  // All ranks.
  ProcessSet world() const { return find_process_set(0); }
  // Collective over the whole job: every rank calls it with the same ranks, members or not.
  Expected<ProcessSet> try_create_process_set(std::span<const std::int32_t> ranks) {
    hvd_process_set* set = nullptr;
    auto made = detail::checked([&](hvd_error* error) {
      return hvd_process_set_create(raw(), ranks.data(), ranks.size(), &set, error);
    });
    return made ? Expected<ProcessSet>(ProcessSet(set)) : Expected<ProcessSet>(made.error());
  }
  ProcessSet create_process_set(std::span<const std::int32_t> ranks) {
    return try_create_process_set(ranks).value();
  }
  ProcessSet create_process_set(std::initializer_list<std::int32_t> ranks) {
    return create_process_set(std::span<const std::int32_t>(ranks.begin(), ranks.size()));
  }
  Expected<ProcessSet> try_find_process_set(int id) const {
    hvd_process_set* set = nullptr;
    auto found = detail::checked(
        [&](hvd_error* error) { return hvd_process_set_find(raw(), id, &set, error); });
    return found ? Expected<ProcessSet>(ProcessSet(set)) : Expected<ProcessSet>(found.error());
  }
  ProcessSet find_process_set(int id) const { return try_find_process_set(id).value(); }
  Expected<std::vector<std::int32_t>> try_process_set_ids() const {
    return detail::read_list<std::int32_t>(
        [this](std::int32_t* ids, std::size_t* count, hvd_error* error) {
          return hvd_process_set_ids(raw(), ids, count, error);
        });
  }
  std::vector<std::int32_t> process_set_ids() const { return try_process_set_ids().value(); }

  // Without a context, or in a forked child, a burst does nothing; its operations are refused.
  Burst burst() { return Burst(raw()); }

  // The value in force.
  Expected<std::string> try_option(const std::string& name) const {
    if (auto refused = wrong_setting(name, {})) return *refused;
    auto text = detail::read_list<char>([&](char* value, std::size_t* size, hvd_error* error) {
      return hvd_option_get(raw(), name.c_str(), value, size, error);
    });
    return text ? Expected<std::string>(std::string(text->data()))
                : Expected<std::string>(text.error());
  }
  std::string option(const std::string& name) const { return try_option(name).value(); }
  Expected<void> try_set_option(const std::string& name, const std::string& value) {
    if (auto refused = wrong_setting(name, value)) return *refused;
    return detail::checked([&](hvd_error* error) {
      return hvd_option_set(raw(), name.c_str(), value.c_str(), error);
    });
  }
  void set_option(const std::string& name, const std::string& value) {
    try_set_option(name, value).value();
  }

  // All counters of this rank.
  Expected<std::vector<hvd_metric>> try_metrics() const {
    return detail::read_list<hvd_metric>(
        [this](hvd_metric* metrics, std::size_t* count, hvd_error* error) {
          return hvd_metrics_snapshot(raw(), metrics, count, error);
        });
  }
  std::vector<hvd_metric> metrics() const { return try_metrics().value(); }

  // How often this rank has seen which sizes and times: see hvd_histogram.
  Expected<std::vector<hvd_histogram>> try_histograms() const {
    return detail::read_list<hvd_histogram>(
        [this](hvd_histogram* histograms, std::size_t* count, hvd_error* error) {
          return hvd_histograms_snapshot(raw(), histograms, count, error);
        });
  }
  std::vector<hvd_histogram> histograms() const { return try_histograms().value(); }

  // The last operations of this rank that have ended, from number `after` + 1 on, oldest first,
  // then those in flight: see hvd_record.
  Expected<std::vector<hvd_record>> try_records(std::uint64_t after = 0) const {
    return detail::read_list<hvd_record>(
        [this, after](hvd_record* records, std::size_t* count, hvd_error* error) {
          return hvd_records_snapshot(raw(), after, records, count, error);
        });
  }
  std::vector<hvd_record> records(std::uint64_t after = 0) const {
    return try_records(after).value();
  }

  // Writes the operations that this rank submits from now on to a file in Chrome's trace format:
  // see hvd_timeline_start.
  Expected<void> try_start_timeline(const std::string& path, bool mark_cycles = false) {
    if (detail::has_null(path)) return detail::null_character("the path", path);
    return detail::checked([&](hvd_error* error) {
      return hvd_timeline_start(raw(), path.c_str(), mark_cycles ? 1 : 0, error);
    });
  }
  void start_timeline(const std::string& path, bool mark_cycles = false) {
    try_start_timeline(path, mark_cycles).value();
  }
  Expected<void> try_stop_timeline() {
    return detail::checked([&](hvd_error* error) { return hvd_timeline_stop(raw(), error); });
  }
  void stop_timeline() { try_stop_timeline().value(); }

  // A descriptor that is readable while ended operations wait for pop_completed(): for event loops.
  // Operations submitted after the first call are queued there. It belongs to the context.
  Expected<int> try_completions_fd() {
    std::int32_t fd = -1;
    auto got =
        detail::checked([&](hvd_error* error) { return hvd_completions_fd(raw(), &fd, error); });
    return got ? Expected<int>(fd) : Expected<int>(got.error());
  }
  int completions_fd() { return try_completions_fd().value(); }
  // The next operation that has ended, with the same handle() as the Pending that began it; without
  // valid() if there is none.
  Pending pop_completed() { return Pending(hvd_completions_pop(raw())); }

  hvd_context* raw() const { return context_.get(); }

 private:
  using Log = decltype(InitOptions::log);
  struct Close {
    void operator()(hvd_context* context) const { hvd_context_free(context); }
  };

  struct Empty {};
  explicit Context(Empty) {}

  static std::optional<Error> wrong_setting(const std::string& name, const std::string& value) {
    if (detail::has_null(name)) return detail::null_character("the option", name);
    if (detail::has_null(value))
      return detail::null_character(("the value of " + name).c_str(), value);
    return {};
  }

  std::unique_ptr<Log> log_;  // outlives the context that calls it
  std::unique_ptr<hvd_context, Close> context_;
  hvd_topology topology_ = HVD_TOPOLOGY_INIT;
};

}  // namespace hvd::inline v1
