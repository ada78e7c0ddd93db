// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/race.h"

#include <poll.h>

#include <algorithm>

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHeadStart = 50ms;  // the lead of an address over the next one
constexpr Duration kFirstPause = 5ms;
constexpr Duration kLongestPause = 50ms;
constexpr Duration kFindAgain = 1s;
constexpr size_t kMostLanes = 64;  // names may stand for very many addresses
constexpr char kNotTried[] = "not tried";

}  // namespace

Status Race::find_targets() {
  // Looking names up can take its time, which whoever is talking already should not have to wait.
  if (std::any_of(lanes_.begin(), lanes_.end(),
                  [](const Lane& lane) { return lane.attempt && lane.attempt->talks(); })) {
    find_again_ = now() + kHeadStart;
    return {};
  }
  const Result<std::vector<Target>> found = find_();
  find_again_ = now() + kFindAgain;
  unknown_.clear();
  if (!found.ok()) {
    if (found.status().code() != Code::kIo) return found.status();
    unknown_ = found.status().message();
    return {};
  }
  Time start = now();
  for (const Target& target : found.value()) {
    const bool known = std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
      return lane.target.text == target.text;
    });
    if (known || lanes_.size() >= kMostLanes) continue;
    Lane& lane = lanes_.emplace_back();
    lane.target = target;
    lane.outcome = kNotTried;
    lane.next = start;
    lane.pause = kFirstPause;
    start += kHeadStart;
  }
  return {};
}

bool Race::advance(Lane& lane, Status& status) {
  const Time time = now();
  if (!lane.attempt) {
    if (time < lane.next) return false;
    lane.attempt.emplace(lane.target, who_);
    lane.next = time + Attempt::kTime;
  }
  status = lane.attempt->step();
  if (status.ok() || status.code() == Code::kVersion) return true;
  const bool pending = status.code() == Code::kPending;
  if (pending && time < lane.next) {
    // The outcome of an earlier attempt says more.
    if (lane.outcome == kNotTried) lane.outcome = "no answer";
    return false;
  }
  lane.outcome = pending ? "no answer in " + seconds_text(Attempt::kTime) + " s" : status.message();
  lane.attempt.reset();
  lane.next = time + lane.pause;
  lane.pause = std::min(lane.pause * 2, kLongestPause);
  // The next address need not wait for the end of this head start.
  for (Lane& other : lanes_) {
    if (!other.attempt && other.outcome == kNotTried) {
      other.next = time;
      break;
    }
  }
  return false;
}

void Race::wait(Time deadline) const {
  std::vector<pollfd> watched;
  Time until = std::min(deadline, find_again_);
  for (const Lane& lane : lanes_) {
    if (lane.attempt) watched.push_back({lane.attempt->fd(), lane.attempt->wants(), 0});
    until = std::min(until, lane.next);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
}

Status Race::nobody(Duration waited) const {
  std::string text = "no server in " + seconds_text(waited) + " s: ";
  for (const Lane& lane : lanes_) {
    text += (&lane == &lanes_.front() ? "" : "; ") + lane.target.text + ": " + lane.outcome;
    if (text.size() > 700) {
      text += "; and others";
      break;
    }
  }
  if (!unknown_.empty()) text += (lanes_.empty() ? "" : "; ") + unknown_;
  return {Code::kTimeout, text};
}

Result<Channel> Race::run(Time deadline) {
  const Time start = now();
  for (;;) {
    if (now() >= find_again_) HVD_TRY(find_targets());
    for (Lane& lane : lanes_) {
      Status status;
      if (!advance(lane, status)) continue;
      if (status.ok()) return lane.attempt->take();
      return Status(status.code(), lane.target.text + ": " + status.message());
    }
    if (now() >= deadline) return nobody(now() - start);
    wait(deadline);
  }
}

}  // namespace hvd::rendezvous
