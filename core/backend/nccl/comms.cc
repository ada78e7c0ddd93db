// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/comms.h"

#include <system_error>
#include <thread>
#include <utility>

namespace hvd::backend::nccl {

namespace {

constexpr Duration kAnswerTime = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::microseconds(100);
constexpr int kNoColor = -1;

}  // namespace

Status Comms::begin(const UniqueId& id, std::vector<Split> splits) {
  splits_ = std::move(splits);
  all_.reserve(1 + splits_.size());  // the library writes there
  const device::Device::Scope scope(device_);
  Config config;
  all_.push_back(nullptr);
  const Status begun =
      library_->check(calls().init(&all_[0], members_, id, me_, &config), "ncclCommInitRankConfig");
  if (!begun.ok()) all_.clear();
  return begun;
}

void Comms::adopt(CommHandle comm, std::vector<Split> splits) {
  splits_ = std::move(splits);
  all_.reserve(1 + splits_.size());
  all_.push_back(comm);
}

Status Comms::split(const Split& split) {
  all_.push_back(nullptr);
  return this->split(all_[split.of], split.color, &all_.back());
}

Status Comms::split(CommHandle parent, int color, CommHandle* made) {
  const device::Device::Scope scope(device_);
  Config config;
  return library_->check(calls().split(parent, color, me_, made, &config), "ncclCommSplit", parent);
}

Status Comms::split_off(bool member) { return split(all_[0], member ? 0 : kNoColor, &split_off_); }

CommHandle Comms::give_up() {
  const CommHandle first = all_[0];
  all_.clear();
  return first;
}

// Makes the splits one after the other, because a communicator that is being split is in progress
// itself.
Progress Comms::connect() {
  while (!connected_ && !gone()) {
    if (poll() != Progress::kDone) return Progress::kWaiting;
    if (result_.ok() && all_.back() == nullptr)
      result_ = Status(Code::kIo, "ncclCommSplit: no communicator has come of it");
    if (!result_.ok()) return Progress::kDone;
    connected_ = all_.size() == 1 + splits_.size();
    if (connected_) return Progress::kDone;
    result_ = split(splits_[all_.size() - 1]);
    if (!result_.ok()) return Progress::kDone;
  }
  return Progress::kDone;
}

Status Comms::ask(CommHandle comm, int* state) {
  const device::Device::Scope scope(device_);
  HVD_TRY(library_->check(calls().async_error(comm, state), "ncclCommGetAsyncError"));
  return excused(*state) ? Status() : library_->check(*state, "NCCL", comm);
}

// The library does not say which rank has gone. A member that has lost that rank in another way
// says so, and is given the time to.
bool Comms::excused(int state) {
  if (state != kRemoteError) return false;
  if (remote_since_ == kNever) remote_since_ = now();
  return now() - remote_since_ < kAnswerTime;
}

Status Comms::check(int error, CommHandle comm) {
  return excused(error) ? Status() : library_->check(error, "NCCL", comm);
}

Progress Comms::poll() {
  bool in_progress = false;
  for (size_t i = 0; i <= all_.size(); ++i) {
    const CommHandle comm = i < all_.size() ? all_[i] : split_off_;
    if (comm == nullptr) continue;  // not split off yet
    int state = kSuccess;
    result_ = ask(comm, &state);
    if (!result_.ok()) return Progress::kDone;
    in_progress |= state != kSuccess;
  }
  return in_progress ? Progress::kWaiting : Progress::kDone;
}

bool Comms::leave() {
  if (!connected_) return false;
  const device::Device::Scope scope(device_);
  const Time limit = now() + kAnswerTime;
  for (CommHandle comm : all_) {
    if (library_->check(calls().finalize(comm), "ncclCommFinalize").ok()) continue;
    return false;
  }
  for (CommHandle comm : all_) {
    int state = kInProgress;
    for (;;) {
      if (calls().async_error(comm, &state) != kSuccess) return false;
      if (state == kSuccess) break;
      if (state != kInProgress || now() >= limit) return false;
      std::this_thread::sleep_for(kPause);
    }
  }
  return true;
}

void Comms::destroy() {
  const device::Device::Scope scope(device_);
  for (CommHandle comm : std::exchange(all_, {})) calls().destroy(comm);
}

void Comms::abort() noexcept {
  if (split_off_ != nullptr) all_.push_back(take_split_off());
  const std::vector<CommHandle> comms = std::exchange(all_, {});
  const auto abort_one = [this](CommHandle comm) {
    const device::Device::Scope scope(device_);
    calls().abort(comm);
  };
  std::vector<std::thread> threads(comms.size());
  for (size_t i = 0; i < comms.size(); ++i) {
    if (comms[i] == nullptr) continue;
    try {
      threads[i] = std::thread(abort_one, comms[i]);
    } catch (const std::system_error&) {  // no thread is to be had
      abort_one(comms[i]);
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace hvd::backend::nccl
