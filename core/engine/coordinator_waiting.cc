// SPDX-License-Identifier: Apache-2.0
// Coordinator: operations that wait. Who is missing, and what happens when a member's time is over.
#include <algorithm>

#include "engine/coordinator.h"

namespace hvd::engine {

std::string Coordinator::missing_text(const Instance& instance) const {
  std::string text = "missing ranks";
  for (size_t member = 0; member < instance.arrived.size(); ++member) {
    if (instance.arrived[member] == 0 && joined_[member] == 0) {
      text += " " + std::to_string(settings_.ranks[member]);
    }
  }
  return text + " of " + std::to_string(size());
}

// The use of `name` that `member` waits for and that can still fail; nullptr if it has been decided meanwhile.
Coordinator::Instance* Coordinator::waiting_for(int member, std::string_view name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  Instance& instance = *found->second;
  const bool waits = instance.pending && !instance.complete && instance.arrived[static_cast<size_t>(member)] != 0;
  return waits ? &instance : nullptr;
}

void Coordinator::on_query(int member, ByteReader& in) {
  const std::string_view name = get_short_text(in);
  const Instance* instance = waiting_for(member, name);
  if (instance == nullptr) return;
  message_.clear();
  put_head(message_, {MessageType::kMissing, settings_.set});
  put_short_text(message_, name);
  put_short_text(message_, missing_text(*instance));
  out_.to_member(member, message_, true);
}

// All ranks may be there, and the operation still not be planned because earlier ones take long: it fails all the same.
void Coordinator::on_withdraw(int member, ByteReader& in) {
  const auto waited = Duration(in.get<int64_t>());
  const auto found = by_name_.find(get_short_text(in));
  if (!in.ok() || found == by_name_.end()) return;
  Instance& instance = *found->second;
  if (!instance.pending || instance.arrived[static_cast<size_t>(member)] == 0) return;  // decided meanwhile
  ++counters_.timeouts;
  const std::string text = subject(instance) + ": waited " + seconds_text(waited) + " s; ";
  if (!instance.complete) {
    fail(instance, Status(Code::kTimeout, text + missing_text(instance)));
    return;
  }
  const auto use =
      std::find_if(ready_.begin(), ready_.end(), [&](const ReadyUse& ready) { return ready.instance == &instance; });
  ready_bytes_ -= use->bytes;
  ready_.erase(use);
  std::vector<int> joined;  // and therefore owe nothing
  for (int other = 0; other < size(); ++other) {
    if (instance.arrived[static_cast<size_t>(other)] == 0) joined.push_back(other);
  }
  tell(condemn(instance, Status(Code::kTimeout, text + "no rank is missing, but earlier operations are not done"), joined));
}

}  // namespace hvd::engine
