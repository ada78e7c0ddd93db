// SPDX-License-Identifier: Apache-2.0
#include "engine/device_plane.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvd::engine {

using backend::Progress;

namespace {

// A member's conclusion says whether the member has connected: the text is empty, or says why not.
constexpr size_t kConclusionBytes = 400;

}  // namespace

void DevicePlane::begin(device::Device& device, backend::Comm& comm) {
  device_ = &device;
  step_ = Step::kShowing;
  mine_ = around_.factory->capabilities({device, comm, me_, split_.get()});
}

// Gathers everybody's `mine_`, each of `bytes` bytes.
Progress DevicePlane::exchange(backend::Comm& comm, size_t bytes) {
  if (!exchanging_) {
    all_.assign(bytes * static_cast<size_t>(members_), std::byte{0});
    parts_.assign(static_cast<size_t>(members_), bytes);
    item_ = {mine_.data(), all_.data(), all_.size(), parts_};
    work_ = {};
    work_.kind = backend::Kind::kAllgather;
    work_.items = {&item_, 1};
    failure_ = comm.start(work_);
    if (!failure_.ok()) return Progress::kDone;
    exchanging_ = true;
  }
  const Progress progress = comm.poll();
  if (progress != Progress::kDone) return progress;
  exchanging_ = false;
  failure_ = comm.result();
  return Progress::kDone;
}

Progress DevicePlane::meet(backend::Comm& comm, Time now) {
  if (step_ == Step::kShowing) {
    const Progress progress = exchange(comm, backend::DeviceCommFactory::kCapabilityBytes);
    if (progress != Progress::kDone || !failure_.ok()) return progress;
    deadline_ = now + around_.limit;
    connect(comm);
  }
  if (step_ == Step::kConnecting) {
    const bool waits = comm_ && comm_->poll() != Progress::kDone;
    if (waits && now < deadline_) return Progress::kWaiting;
    if (waits) connected_ = Status(Code::kTimeout, "not connected in time");
    if (comm_ && !waits) connected_ = comm_->result();
    conclude();
  }
  if (step_ == Step::kConcluding) {
    const Progress progress = exchange(comm, kConclusionBytes);
    if (progress != Progress::kDone || !failure_.ok()) return progress;
    read_conclusions();
  }
  return Progress::kDone;
}

void DevicePlane::connect(backend::Comm& comm) {
  Result<std::unique_ptr<backend::DeviceComm>> opened =
      around_.factory->open({*device_, comm, me_, split_.get()}, all_, around_.describe);
  give_up(std::move(split_));
  if (opened.ok()) {
    comm_ = std::move(opened).value();
  } else {
    connected_ = opened.status();
  }
  step_ = Step::kConnecting;
}

// A member that can not connect still answers, so that the others give up as well.
void DevicePlane::conclude() {
  mine_.assign(kConclusionBytes, std::byte{0});
  const std::string& why = connected_.message();
  std::memcpy(mine_.data(), why.data(), std::min(why.size(), kConclusionBytes - 1));
  step_ = Step::kConcluding;
}

void DevicePlane::read_conclusions() {
  step_ = Step::kMet;
  for (int member = 0; member < members_ && outcome_.ok(); ++member) {
    const auto* text =
        reinterpret_cast<const char*>(all_.data()) + static_cast<size_t>(member) * kConclusionBytes;
    const std::string why(text, ::strnlen(text, kConclusionBytes));
    if (why.empty()) continue;
    // An error that all members found out together names its members itself.
    const bool common = connected_.code() == Code::kUnsupported;
    outcome_ = Status(Code::kUnsupported, common ? why : around_.describe(member) + ": " + why);
  }
  tell();
  if (outcome_.ok()) return;
  give_up(std::move(comm_));
}

void DevicePlane::give_up(std::unique_ptr<backend::DeviceComm> comm) {
  if (!comm) return;
  comm->begin_end(false);
  unused_.push_back(std::move(comm));
}

void DevicePlane::tell() const {
  if (around_.log == nullptr) return;
  const std::string subject =
      "tensors of CUDA device " + std::to_string(device_->id()) + " go through ";
  if (outcome_.ok()) {
    around_.log->write(LogLevel::kInfo, "device", subject + comm_->name());
  } else {
    around_.log->write(around_.regret, "device", subject + "host memory: " + outcome_.message());
  }
}

Result<const device::Moment*> DevicePlane::mark() {
  Result<device::Moment> moment = device_->mark(comm_->stream());
  if (!moment.ok()) return moment.status();
  device::Moment& latest = latest_[comm_->stream()];
  latest = std::move(moment).value();
  return static_cast<const device::Moment*>(&latest);
}

Status DevicePlane::health(bool* under_way) {
  *under_way = false;
  for (auto latest = latest_.begin(); latest != latest_.end();) {
    const Result<bool> done = device_->reached(latest->second);
    if (!done.ok()) return done.status();
    latest = done.value() ? latest_.erase(latest) : std::next(latest);
  }
  if (latest_.empty()) return {};
  *under_way = true;
  return comm_->health();
}

void DevicePlane::abort() noexcept {
  if (comm_) comm_->abort();
}

void DevicePlane::begin_end(bool in_order) noexcept {
  if (comm_) comm_->begin_end(in_order);
  if (split_) split_->begin_end(in_order);
}

std::vector<std::unique_ptr<backend::DeviceComm>> DevicePlane::leave() {
  begin_end(true);
  if (comm_) unused_.push_back(std::move(comm_));
  if (split_) unused_.push_back(std::move(split_));
  std::erase_if(unused_, [](const auto& one) { return one->ended(); });
  return std::move(unused_);
}

}  // namespace hvd::engine
