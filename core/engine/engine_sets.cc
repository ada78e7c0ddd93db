// SPDX-License-Identifier: Apache-2.0
// Engine: process sets come and go by agreement of all ranks, in the same order everywhere.
#include <algorithm>

#include "engine/engine.h"

namespace hvd::engine {

namespace {

// Drops the reference at the end of the scope, however the end comes.
struct DropReference {
  void operator()(Operation* operation) const { operation->drop_reference(); }
};
using Reference = std::unique_ptr<Operation, DropReference>;

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = "{";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? " " : "") + std::to_string(ranks[i]);
  return text + "}";
}

Status check_ranks(const std::vector<int>& sorted, int size) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] < 0 || sorted[i] >= size) {
      return Status(Code::kInvalidArgument, "process set create: rank " +
                                                std::to_string(sorted[i]) + " is outside 0 to " +
                                                std::to_string(size - 1));
    }
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      return Status(Code::kInvalidArgument,
                    "process set create: rank " + std::to_string(sorted[i]) + " is listed twice");
    }
  }
  return {};
}

}  // namespace

Result<Operation*> Engine::submit_set_operation(OpKind kind, std::vector<int32_t> numbers,
                                                const char* name,
                                                std::shared_ptr<ProcessSet> confirms) {
  std::unique_ptr<Operation> operation = fresh_operation();
  operation->tensors.clear();
  operation->kind = kind;
  operation->set_name(name);
  operation->numbers = std::move(numbers);
  operation->confirms = std::move(confirms);
  operation->engine = shared_from_this();
  operation->set = world_;
  negotiation::SignatureWriter writer(operation->signature, kind, ReduceOp::kSum, 0, 1.0, 1.0, 0);
  writer.numbers(operation->numbers);
  operation->print = fingerprint(operation->signature);
  return submit(std::move(operation));
}

// Waits for the operation and gives the reference back.
Status Engine::finish_set_operation(Operation* operation) {
  const Reference reference(operation);
  Status status = wait(*operation, kNever);
  if (status.ok()) status = operation->result();
  return status;
}

Result<std::shared_ptr<ProcessSet>> Engine::create_set(std::vector<int> ranks) {
  if (inside_callback())
    return Status(Code::kWouldDeadlock, "process set create: called inside a callback");
  std::sort(ranks.begin(), ranks.end());
  HVD_TRY(check_ranks(ranks, topology_.size()));
  MutexLock one_at_a_time(set_mutex_);
  if (const int32_t id = directory_.id_of(ranks); id >= 0) {
    return Status(Code::kAlreadyExists, "process set create: set " + std::to_string(id) +
                                            " has the ranks " + ranks_text(ranks));
  }
  Result<std::shared_ptr<ProcessSet>> made = agree_on_set(std::move(ranks));
  if (made.ok() && tell_of_set_) tell_of_set_(made.value()->id.load(), made.value()->ranks);
  return made;
}

Status Engine::create_sets_again(const std::map<int32_t, std::vector<int>>& sets, int32_t next_id) {
  MutexLock one_at_a_time(set_mutex_);
  for (const auto& [id, ranks] : sets) {
    HVD_TRY(check_ranks(ranks, topology_.size()));
    directory_.skip_to(id);
    HVD_TRY(agree_on_set(ranks).status());
  }
  directory_.skip_to(next_id);
  return {};
}

// `ranks`: ascending.
Result<std::shared_ptr<ProcessSet>> Engine::agree_on_set(std::vector<int> ranks) {
  Result<Operation*> agreed = submit_set_operation(
      OpKind::kCreateSet, std::vector<int32_t>(ranks.begin(), ranks.end()), "hvd:create_set");
  if (!agreed.ok()) return agreed.status();
  Operation* operation = agreed.value();
  operation->add_reference();
  const Reference reference(operation);
  HVD_TRY(finish_set_operation(operation));
  try {
    return open_agreed(operation->numbers, std::move(ranks));
  } catch (...) {
    return collapse();
  }
}

// `given`: the set's id and serial, which ProgressEngine::on_set_operation() has chosen.
Result<std::shared_ptr<ProcessSet>> Engine::open_agreed(const std::vector<int32_t>& given,
                                                        std::vector<int> ranks) {
  auto set = std::make_shared<ProcessSet>();
  set->engine = weak_from_this();
  set->serial = static_cast<uint32_t>(given[1]);
  set->id.store(given[0]);
  set->ranks = std::move(ranks);
  const auto me = std::find(set->ranks.begin(), set->ranks.end(), topology_.rank());
  set->me = me == set->ranks.end() ? -1 : static_cast<int>(me - set->ranks.begin());
  std::unique_ptr<backend::Comm> comm;
  const Status opened = open_here(set, &comm);
  std::unique_ptr<backend::DeviceComm> split;
  HVD_TRY(confirm_set(set, opened, &split));
  HVD_TRY(attach(set, std::move(comm), std::move(split)));
  return set;
}

Status Engine::open_here(const std::shared_ptr<ProcessSet>& set,
                         std::unique_ptr<backend::Comm>* comm) {
  if (set->me < 0) return {};
  Result<std::unique_ptr<backend::Comm>> opened =
      factory_->open(set->id.load(), set->ranks, deadline_after(now(), start_limit_));
  if (!opened.ok()) return opened.status();
  *comm = std::move(opened).value();
  return {};
}

// All ranks learn whether all could open the set; if one could not, no rank keeps the set.
Status Engine::confirm_set(const std::shared_ptr<ProcessSet>& set, const Status& opened,
                           std::unique_ptr<backend::DeviceComm>* split) {
  Result<Operation*> agreed =
      submit_set_operation(OpKind::kConfirmSet, {set->id.load(), opened.ok() ? 0 : 1},
                           "hvd:confirm_set", opened.ok() ? set : nullptr);
  Status status;
  if (!agreed.ok()) {
    status = agreed.status();
  } else {
    Operation* operation = agreed.value();
    operation->add_reference();
    const Reference reference(operation);
    status = finish_set_operation(operation);
    *split = std::move(operation->split);
  }
  if (status.ok() && opened.ok()) return {};
  const ProgressRole::Guest guest(role_);
  engine_.forget(set->serial);
  directory_.give_id_back(*set);
  if (!opened.ok()) return opened;
  return status.code() == Code::kMismatch ? Status(Code::kSetBroken, status.message()) : status;
}

Status Engine::attach(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                      std::unique_ptr<backend::DeviceComm> split) {
  const ProgressRole::Guest guest(role_);
  return engine_.attach(set, std::move(comm), std::move(split));
}

Status Engine::destroy_set(const std::shared_ptr<ProcessSet>& set) {
  if (inside_callback())
    return Status(Code::kWouldDeadlock, "process set destroy: called inside a callback");
  const int32_t id = set->id.load();
  if (id == 0)
    return Status(Code::kInvalidArgument,
                  "process set destroy: set 0, all ranks, cannot be destroyed");
  if (id < 0)
    return Status(Code::kInvalidState, "process set destroy: the process set has been destroyed");
  MutexLock one_at_a_time(set_mutex_);
  Result<Operation*> agreed = submit_set_operation(OpKind::kDestroySet, {id}, "hvd:destroy_set");
  if (!agreed.ok()) return agreed.status();
  HVD_TRY(finish_set_operation(agreed.value()));
  if (tell_of_set_) tell_of_set_(id, {});
  return {};
}

}  // namespace hvd::engine
