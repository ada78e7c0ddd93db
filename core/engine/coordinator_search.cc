// SPDX-License-Identifier: Apache-2.0
// Coordinator: ranks that name one operation on different process sets. Each set would wait for ever, and neither sees the
// other's half; so a set that has waited long asks its missing members where they are. Of two sets the one with the lower
// serial decides. It has the other one's operation failed first and tells its own members after that: whoever is told may
// try again at once, on either set, and must not meet a half that is still waiting.
#include <algorithm>

#include "engine/coordinator.h"

namespace hvd::engine {

namespace {
constexpr size_t kMostNamed = 16;  // ranks in one message: a line must stay readable
}

void Coordinator::on_search(int member, ByteReader& in) {
  const std::string_view name = get_short_text(in);
  Instance* instance = waiting_for(member, name);
  if (instance == nullptr || (instance->search != 0 && instance->unanswered > 0)) return;
  instance->search = next_search_++;
  instance->elsewhere.clear();
  std::vector<int> missing;
  for (int other = 0; other < size(); ++other) {
    const auto index = static_cast<size_t>(other);
    if (instance->arrived[index] == 0 && joined_[index] == 0) missing.push_back(other);
  }
  instance->unanswered = static_cast<int>(missing.size());
  Bytes message;
  put_head(message, {MessageType::kWhere, settings_.set});
  ByteWriter(message).put(instance->search);
  put_short_text(message, instance->name);
  for (const int other : missing) out_.to_member(other, message, true);
}

void Coordinator::on_elsewhere(int member, ByteReader& in) {
  const auto search = in.get<uint32_t>();
  const auto set_id = in.get<int32_t>();
  const auto found = by_name_.find(get_short_text(in));
  if (!in.ok() || found == by_name_.end()) return;
  Instance& instance = *found->second;
  const bool current = instance.pending && !instance.complete && instance.search == search && search != 0;
  if (!current || instance.unanswered == 0) return;
  if (set_id >= 0 && instance.arrived[static_cast<size_t>(member)] == 0) instance.elsewhere.emplace_back(member, set_id);
  if (--instance.unanswered == 0 && !instance.elsewhere.empty()) end_search(instance);
}

void Coordinator::end_search(Instance& instance) {
  ++counters_.mismatches;
  StrayNote note;
  std::vector<int> strays;
  std::vector<std::pair<int, int32_t>> said;  // rank, set id
  const int32_t set_id = settings_.set_id();
  for (const auto& [member, other_id] : instance.elsewhere) {
    strays.push_back(member);
    said.emplace_back(settings_.ranks[static_cast<size_t>(member)], other_id);
  }
  for (int member = 0; member < size(); ++member) {
    const int rank = settings_.ranks[static_cast<size_t>(member)];
    if (std::find(strays.begin(), strays.end(), member) == strays.end()) note.ranks.push_back(rank);
    if (instance.arrived[static_cast<size_t>(member)] != 0) said.emplace_back(rank, set_id);
  }
  std::sort(said.begin(), said.end());
  std::string text = "process set differs:";
  for (size_t i = 0; i < std::min(said.size(), kMostNamed); ++i) {
    text += (i > 0 ? ", rank " : " rank ") + std::to_string(said[i].first) + " " + std::to_string(said[i].second);
  }
  note.why = Status(Code::kMismatch, text);
  note.set = settings_.set;
  note.search = instance.search;
  Bytes message;
  put_head(message, {MessageType::kStray, settings_.set});
  put_short_text(message, instance.name);
  note.write(message);
  Verdict verdict = condemn(instance, Status(Code::kMismatch, subject(instance) + ": " + text), strays);
  verdict.search = note.search;
  verdict.unsettled = static_cast<int>(strays.size());
  held_verdicts_.push_back(std::move(verdict));
  for (const int member : strays) out_.to_member(member, message, true);
}

void Coordinator::on_settled(ByteReader& in) {
  const auto search = in.get<uint32_t>();
  const auto found = std::find_if(held_verdicts_.begin(), held_verdicts_.end(),
                                  [&](const Verdict& verdict) { return verdict.search == search; });
  if (!in.ok() || found == held_verdicts_.end() || --found->unsettled > 0) return;
  const Verdict verdict = std::move(*found);
  held_verdicts_.erase(found);
  tell(verdict);
}

Status Coordinator::on_disown(int member, ByteReader& in) {
  const std::string_view name = get_short_text(in);
  StrayNote note;
  if (!StrayNote::read(in, &note)) return Status(Code::kInternal, "malformed disown message");
  if (Instance* instance = waiting_for(member, name)) {
    ++counters_.mismatches;
    std::vector<int> excused;
    for (int other = 0; other < size(); ++other) {
      const int rank = settings_.ranks[static_cast<size_t>(other)];
      if (std::find(note.ranks.begin(), note.ranks.end(), rank) != note.ranks.end()) excused.push_back(other);
    }
    tell(condemn(*instance, Status(note.why.code(), subject(*instance) + ": " + note.why.message()), excused));
  }
  Bytes message;
  put_head(message, {MessageType::kDisowned, settings_.set});
  ByteWriter(message).put(note.set);
  ByteWriter(message).put(note.search);
  out_.to_member(member, message, true);
  return {};
}

}  // namespace hvd::engine
