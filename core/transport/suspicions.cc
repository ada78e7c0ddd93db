// SPDX-License-Identifier: Apache-2.0
#include "transport/suspicions.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hvd::transport {
namespace {

constexpr long kLookNanoseconds = 50'000'000;

}  // namespace

Status Suspicions::hold(int rank, std::string cause, Time until) {
  if (has(rank)) return {};
  if (!timer_) {
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer_) return io_error("timerfd_create", errno);
    HVD_TRY(events_.add(timer_.get(), EPOLLIN, EventKind::kTimer, kSuspicionTimer));
  }
  if (all_.empty()) {
    itimerspec spec{};
    spec.it_value.tv_nsec = spec.it_interval.tv_nsec = kLookNanoseconds;
    ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }
  all_.push_back({rank, std::move(cause), until});
  return {};
}

bool Suspicions::has(int rank) const {
  return std::any_of(all_.begin(), all_.end(),
                     [rank](const Suspicion& one) { return one.rank == rank; });
}

void Suspicions::forget(int rank) {
  if (std::erase_if(all_, [rank](const Suspicion& one) { return one.rank == rank; }) == 0 ||
      !all_.empty())
    return;
  const itimerspec never{};
  ::timerfd_settime(timer_.get(), 0, &never, nullptr);
}

void Suspicions::on_timer() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
}

}  // namespace hvd::transport
