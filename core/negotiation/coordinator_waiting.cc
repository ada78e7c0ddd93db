// SPDX-License-Identifier: Apache-2.0
// Coordinator: the end of an operation for which a member's time is over.
#include <algorithm>
#include <utility>

#include "negotiation/coordinator.h"

namespace hvd::negotiation {

void Coordinator::on_withdraw(int member, ByteReader& in) {
  const auto waited = Duration(in.get<int64_t>());
  const auto found = by_name_.find(get_short_text(in));
  if (!in.ok() || found == by_name_.end()) return;
  Instance& instance = *found->second;
  // decided meanwhile
  if (!instance.pending || instance.arrived[static_cast<size_t>(member)] == 0) return;
  if (member == 0) {
    // this member withdraws when all messages of the moment have been taken in
    withdraw(instance, waited);
  } else {
    withdrawals_.push_back({instance.name, instance.use, waited});
  }
}

bool Coordinator::take_withdrawals() {
  for (const Withdrawal& withdrawal : std::exchange(withdrawals_, {})) {
    const auto found = by_name_.find(withdrawal.name);
    if (found == by_name_.end()) continue;
    Instance& instance = *found->second;
    if (instance.pending && instance.use == withdrawal.use) withdraw(instance, withdrawal.waited);
  }
  return true;
}

// All ranks may be there, and the operation still not be planned because earlier ones take long:
// the operation fails all the same.
void Coordinator::withdraw(Instance& instance, Duration waited) {
  ++counters_.timeouts;
  const std::string text = subject(instance) + ": waited " + seconds_text(waited) + " s; ";
  if (!instance.complete) {
    fail(instance, Status(Code::kTimeout, text + missing_text(instance)));
    return;
  }
  const auto use = std::find_if(ready_.begin(), ready_.end(),
                                [&](const ReadyUse& ready) { return ready.instance == &instance; });
  ready_bytes_ -= use->bytes;
  ready_.erase(use);
  std::vector<int> joined;  // and therefore owe nothing
  for (int other = 0; other < size(); ++other) {
    if (instance.arrived[static_cast<size_t>(other)] == 0) joined.push_back(other);
  }
  fail(instance, Status(Code::kTimeout, text + kNobodyMissing), joined);
}

}  // namespace hvd::negotiation
