// SPDX-License-Identifier: Apache-2.0
// Training that goes on after a failure. docs/elastic.md says what a job can go on after.
#pragma once

#include <hvd/hvd.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "context.hpp"

// Programs without exceptions have Context::membership() instead.
#if HVD_EXCEPTIONS
namespace hvd::inline v1 {

// A state is copied by each commit; synchronize(job) gives all ranks the state of rank 0.
template <class State>
concept ElasticState =
    std::copyable<State> && requires(State state, Context& job) { state.synchronize(job); };

// Runs a training function again and again, each time as a member of the job's next epoch, until
// the function returns. Under `horovodrun --min-np` other ranks may die, leave and come meanwhile;
// in a job of fixed members the function begins again after an operation that failed. For one
// thread.
template <ElasticState State>
class Elastic {
 public:
  explicit Elastic(State initial, InitOptions options = {})
      : state(std::move(initial)), committed_(state), options_(std::move(options)) {}
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // Joins the job and calls train(*this), which must let exceptions of hvd pass. A failed operation
  // brings back the latest commit. The third failure in a row without a commit in between is
  // thrown, except for ranks that died, which the launcher counts. A process that has no place in
  // the job any more ends here, with exit code 0.
  template <class Train>
  auto run(Train&& train) {
    for (;;) {
      join();
      try {
        const Membership members = job().membership();
        if (members.synchronize || members.epoch == 0) take_over();
        return train(*this);
      } catch (const Changed&) {
        // The state is that of the commit.
      } catch (const Exception& error) {
        if (!may_go_on(error)) throw;
        state = committed_;
      }
      static_cast<void>(job().try_shutdown(kGrace));
      job_.reset();
    }
  }

  // The job of the present epoch, also after run(). Process sets end with it.
  Context& job() { return *job_; }

  // Keeps a copy of the state, to which a failure from now on goes back. All ranks commit after the
  // same steps. If members are about to come or go, train() is left here and called again.
  void commit() {
    committed_ = state;
    ++commits_;
    const Membership members = job().membership();
    if (members.epoch == 0) return;
    std::array<std::int32_t, 1> changes = {(members.removed ? HVD_MEMBERS_REMOVED : 0) |
                                           (members.added ? HVD_MEMBERS_ADDED : 0)};
    // Every language does the same, so that ranks of several languages can be one job.
    job().allreduce(changes, {.name = "hvd.elastic.commit", .reduce_op = ReduceOp::kMax}).wait();
    if (changes[0] != 0) throw Changed();
  }

  State state;

 private:
  struct Changed {};
  static constexpr int kMostFailures = 3;
  static constexpr std::chrono::seconds kGrace{5};

  static bool is_elastic() {
    const char* launcher = std::getenv("HOROVOD_MEMBERSHIP");
    return launcher != nullptr && *launcher != '\0';
  }

  void join() {
    InitOptions options = options_;
    options.options.emplace_back("membership_position", std::to_string(commits_));
    for (;;) {
      Expected<Context> opened = Context::try_open(options);
      if (opened) {
        job_.emplace(std::move(opened).value());
        return;
      }
      const hvd_status why = opened.error().status();
      const bool expelled = opened.error().sys_errno() != 0;
      if (why == HVD_ERR_DISMISSED && !expelled) std::exit(EXIT_SUCCESS);
      const bool other_ended =
          why == HVD_ERR_PEER_LOST || why == HVD_ERR_SHUT_DOWN || why == HVD_ERR_TIMEOUT;
      // The launcher knows which member has ended on its way, and decides anew.
      if (!other_ended || !is_elastic()) detail::raise(opened.error());
    }
  }

  void take_over() {
    state.synchronize(job());
    std::array<std::int64_t, 1> commits = {commits_ > 0 ? commits_ : 0};
    job().broadcast(commits, 0, {.name = "hvd.elastic.commits"}).wait();
    commits_ = commits[0];
    committed_ = state;
  }

  bool may_go_on(const Error& error) {
    if (!error.is_operation() && !error.is_set() && !error.is_context()) return false;
    const bool lost = error.status() == HVD_ERR_PEER_LOST;
    if (commits_ != commits_at_failure_) failures_ = 0;
    commits_at_failure_ = commits_;
    if (!(lost && is_elastic())) ++failures_;
    return failures_ < kMostFailures && (!lost || is_elastic());
  }

  State committed_;
  InitOptions options_;
  std::optional<Context> job_;
  std::int64_t commits_ = -1;  // of the whole job; -1 until this process has a state of it
  std::int64_t commits_at_failure_ = -1;
  int failures_ = 0;
};

}  // namespace hvd::inline v1
#endif
