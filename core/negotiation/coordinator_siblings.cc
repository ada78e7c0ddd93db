// SPDX-License-Identifier: Apache-2.0
// Coordinator: operations of several kinds under one name. Each kind has names of its own, so an
// allreduce and a broadcast may be in flight under one name. Where all ranks have named either, and
// some have nothing else of that name in flight, the ranks wait for each other for ever: the
// mismatch is certain, and no guess.
#include <algorithm>

#include "negotiation/coordinator.h"

namespace hvd::negotiation {

void Coordinator::link(Instance* instance) {
  instance->sibling = instance;
  if (instance->name[0] == kUnnamedMark || instance->name == kJoinKey) return;
  const auto [found, first] = siblings_.emplace(name_of(instance->name), instance);
  if (first) return;
  instance->sibling = found->second->sibling;
  found->second->sibling = instance;
}

void Coordinator::unlink(Instance* instance) {
  const auto found = siblings_.find(name_of(instance->name));
  if (found == siblings_.end()) return;
  Instance* before = instance;
  while (before->sibling != instance) before = before->sibling;
  before->sibling = instance->sibling;
  if (found->second != instance) return;
  siblings_.erase(found);  // its key is a view into that instance
  if (before != instance) siblings_.emplace(name_of(before->name), before);
}

// True if it has failed.
bool Coordinator::examine_siblings(Instance& instance) {
  std::vector<Instance*> uses;
  for (Instance* one = instance.sibling;; one = one->sibling) {
    if (one->pending && !one->complete) uses.push_back(one);
    if (one == &instance) break;
  }
  if (uses.size() < 2) return false;
  size_t with_exclusive = 0;
  for (const Instance* use : uses) {
    with_exclusive += std::count(use->exclusive.begin(), use->exclusive.end(), 1) > 0 ? 1 : 0;
  }
  if (with_exclusive < 2) return false;
  for (size_t member = 0; member < joined_.size(); ++member) {
    const auto in = std::count_if(uses.begin(), uses.end(), [member](const Instance* use) {
      return use->arrived[member] != 0;
    });
    if (in > 1 || (in == 0 && joined_[member] == 0)) return false;
  }
  fail_siblings(uses);
  return true;
}

// Each operation ends under its own kind; nobody owes one that he has named differently.
void Coordinator::fail_siblings(const std::vector<Instance*>& uses) {
  ++counters_.mismatches;
  std::vector<std::pair<int, Signature>> said;
  std::vector<int> everybody;
  for (int member = 0; member < size(); ++member) everybody.push_back(member);
  for (const Instance* use : uses) {
    for (size_t member = 0; member < use->arrived.size(); ++member) {
      if (use->arrived[member] != 0) said.emplace_back(settings_.ranks[member], use->decoded);
    }
  }
  std::sort(said.begin(), said.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> who;
  std::vector<Signature> signatures;
  for (auto& [rank, signature] : said) {
    who.push_back(rank);
    signatures.push_back(std::move(signature));
  }
  const std::string text = explain_difference(signatures, who);
  for (Instance* use : uses)
    fail(*use, Status(Code::kMismatch, subject(*use) + ": " + text), everybody);
}

}  // namespace hvd::negotiation
