// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_comm.h"

#include <set>
#include <utility>

#include "collectives/program.h"

namespace hvd::backend::host {

namespace {

class HostComm final : public Comm {
 public:
  HostComm(transport::Fabric& fabric, std::unique_ptr<transport::Lane> lane, const collectives::Settings& settings)
      : fabric_(fabric), lane_(std::move(lane)), communicator_(collectives::make_communicator(*lane_, settings)) {}
  ~HostComm() override {
    abort();
    communicator_.reset();
    fabric_.close_lane(std::move(lane_));
  }

  int score(const Work&) const override { return 1; }
  Status start(const Work& work) override;
  Progress poll() override {
    if (program_.step()) return program_.done() ? Progress::kDone : Progress::kMoved;
    return program_.done() ? Progress::kDone : Progress::kWaiting;
  }
  int waiting_for() const override { return program_.waiting_for(); }
  void abort() noexcept override { program_ = collectives::Program(); }

 private:
  transport::Fabric& fabric_;
  std::unique_ptr<transport::Lane> lane_;
  std::unique_ptr<collectives::Communicator> communicator_;
  collectives::Program program_;
  // Memory for the running program's spans, kept between operations so that steady state allocates
  // nothing.
  std::vector<collectives::Piece> pieces_;
  std::vector<collectives::GatherPiece> gathers_;
  std::vector<collectives::ScatterPiece> scatters_;
};

Status HostComm::start(const Work& work) {
  program_ = collectives::Program();
  switch (work.kind) {
    case Kind::kAllreduce:
      pieces_.clear();
      for (const Item& item : work.items) pieces_.push_back({item.in, item.out, item.count});
      program_ = communicator_->allreduce({pieces_, work.dtype, work.op, work.prescale, work.postscale});
      return {};
    case Kind::kAllgather:
      gathers_.clear();
      for (const Item& item : work.items) gathers_.push_back({item.in, item.out, item.parts});
      program_ = communicator_->allgather(gathers_);
      return {};
    case Kind::kBroadcast:
      program_ = communicator_->broadcast(work.items[0].in, work.items[0].out, work.items[0].count, work.root_member);
      return {};
    case Kind::kAlltoall:
      program_ = communicator_->alltoall({work.items[0].in, work.items[0].out, work.send_bytes, work.receive_bytes});
      return {};
    case Kind::kReducescatter:
      scatters_.clear();
      for (const Item& item : work.items) scatters_.push_back({item.in, item.out, item.parts});
      program_ = communicator_->reducescatter(scatters_, work.dtype, work.op, work.prescale, work.postscale);
      return {};
  }
  return Status(Code::kInternal, "unknown kind of work");
}

}  // namespace

Result<std::unique_ptr<Comm>> HostCommFactory::open(int lane_id, const std::vector<int>& ranks, Time deadline) {
  std::set<int> hosts;
  for (const int rank : ranks) hosts.insert(fabric_.topology().host_index(rank));
  const size_t bytes = collectives::bytes_per_member(static_cast<int>(ranks.size()), static_cast<int>(hosts.size()));
  Result<std::unique_ptr<transport::Lane>> lane = fabric_.open_lane(lane_id, ranks, bytes, deadline);
  if (!lane.ok()) return lane.status();
  std::unique_ptr<Comm> comm = std::make_unique<HostComm>(fabric_, std::move(lane).value(), settings_);
  return comm;
}

}  // namespace hvd::backend::host
