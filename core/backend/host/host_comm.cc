// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_comm.h"

#include <set>
#include <utility>

#include "collectives/algorithms.h"

namespace hvd::backend::host {

namespace {

class HostComm final : public Comm {
 public:
  HostComm(transport::Fabric& fabric, std::unique_ptr<transport::Lane> lane,
           const collectives::Settings& settings)
      : fabric_(fabric), lane_(std::move(lane)), state_(*lane_, settings) {}
  ~HostComm() override {
    abort();
    fabric_.close_lane(std::move(lane_));
  }

  int score(const Work&) const override { return 1; }
  Status start(const Work& work) override {
    program_ = collectives::Program();  // gives its memory back before the next one is made
    program_ = collectives::start(state_, work);
    return {};
  }
  Progress poll() override {
    if (program_.step()) return program_.done() ? Progress::kDone : Progress::kMoved;
    return program_.done() ? Progress::kDone : Progress::kWaiting;
  }
  Effort effort() const override { return state_.effort; }
  int waiting_for() const override { return program_.waiting_for(); }
  void abort() noexcept override { program_ = collectives::Program(); }

 private:
  transport::Fabric& fabric_;
  std::unique_ptr<transport::Lane> lane_;
  collectives::LaneState state_;  // refers to the lane, which close_lane() takes away before
  collectives::Program program_;
};

}  // namespace

Result<std::unique_ptr<Comm>> HostCommFactory::open(int lane_id, const std::vector<int>& ranks,
                                                    Time deadline) {
  std::set<int> hosts;
  for (const int rank : ranks) hosts.insert(fabric_.topology().host_index(rank));
  const size_t bytes =
      collectives::bytes_per_member(static_cast<int>(ranks.size()), static_cast<int>(hosts.size()));
  Result<std::unique_ptr<transport::Lane>> lane =
      fabric_.open_lane(lane_id, ranks, bytes, deadline);
  if (!lane.ok()) return lane.status();
  std::unique_ptr<Comm> comm =
      std::make_unique<HostComm>(fabric_, std::move(lane).value(), settings_);
  return comm;
}

}  // namespace hvd::backend::host
