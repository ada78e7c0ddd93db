// SPDX-License-Identifier: Apache-2.0
// Engine: process sets come and go by agreement of all ranks, in the same order everywhere.
#include <algorithm>

#include "engine/eager.h"
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

}  // namespace

Result<Operation*> Engine::submit_set_operation(OpKind kind, std::vector<int32_t> numbers, const char* name,
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
  std::sort(ranks.begin(), ranks.end());
  MutexLock one_at_a_time(set_mutex_);
  {
    MutexLock lock(submit_mutex_);
    for (const auto& [id, set] : sets_by_id_) {
      if (set->ranks != ranks) continue;
      return Status(Code::kAlreadyExists,
                    "process set create: set " + std::to_string(id) + " has the ranks " + ranks_text(ranks));
    }
  }
  Result<Operation*> agreed =
      submit_set_operation(OpKind::kCreateSet, std::vector<int32_t>(ranks.begin(), ranks.end()), "hvd:create_set");
  if (!agreed.ok()) return agreed.status();
  Operation* operation = agreed.value();
  operation->add_reference();
  const Reference reference(operation);
  HVD_TRY(finish_set_operation(operation));
  try {
    return open_agreed(operation->numbers, std::move(ranks));
  } catch (...) {
    return collapse_as_guest();
  }
}

// `given`: the set's id and serial, which on_set_operation() has chosen.
Result<std::shared_ptr<ProcessSet>> Engine::open_agreed(const std::vector<int32_t>& given, std::vector<int> ranks) {
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

Status Engine::open_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm>* comm) {
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
  Result<Operation*> agreed = submit_set_operation(OpKind::kConfirmSet, {set->id.load(), opened.ok() ? 0 : 1},
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
  Guest guest(*this);
  opening_.erase(set->serial);
  early_.erase(set->serial);
  MutexLock lock(submit_mutex_);
  free_ids_.push_back(set->id.exchange(-1));
  if (!opened.ok()) return opened;
  return status.code() == Code::kMismatch ? Status(Code::kSetBroken, status.message()) : status;
}

Status Engine::attach(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                      std::unique_ptr<backend::DeviceComm> split) {
  Guest guest(*this);
  attempt([&]() HVD_REQUIRES(role_) {
    attach_here(set, std::move(comm), std::move(split));
    return true;
  });
  return collapsed_ ? status() : Status();
}

void Engine::attach_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                         std::unique_ptr<backend::DeviceComm> split) {
  set->eager = eager_limit(options_.eager_bytes, topology_, set->ranks, fabric_->payloads_apart());
  if (options_.allreduce_by_hosts()) set->hosts = hosts_of(topology_, set->ranks);
  {
    MutexLock lock(submit_mutex_);
    sets_by_id_[set->id.load()] = set;
  }
  opening_.erase(set->serial);
  if (set->me < 0) return;
  SetHost& host = *this;
  sets_[set->serial] = std::make_unique<SetEngine>(host, set, std::move(comm), std::move(split), reduce_);
  const auto early = early_.find(set->serial);
  if (early == early_.end()) return;
  const auto messages = std::move(early->second);
  early_.erase(early);
  for (const auto& [from, bytes] : messages) on_message(from, bytes);
}

DevicePlane::Around Engine::device_around(const ProcessSet& set) {
  DevicePlane::Around around;
  around.factory = device_comms_.get();
  around.log = log_.get();
  if (options_.gpu_operations == "nccl") around.regret = LogLevel::kWarn;
  around.describe = [this, &ranks = set.ranks](int member) { return topology_.describe(ranks[static_cast<size_t>(member)]); };
  around.limit = start_limit_;
  return around;
}

Status Engine::destroy_set(const std::shared_ptr<ProcessSet>& set) {
  const int32_t id = set->id.load();
  if (id == 0) return Status(Code::kInvalidArgument, "process set destroy: set 0, all ranks, cannot be destroyed");
  if (id < 0) return Status(Code::kInvalidState, "process set destroy: the process set has been destroyed");
  MutexLock one_at_a_time(set_mutex_);
  Result<Operation*> agreed = submit_set_operation(OpKind::kDestroySet, {id}, "hvd:destroy_set");
  if (!agreed.ok()) return agreed.status();
  return finish_set_operation(agreed.value());
}

// Runs on the driver, in the order in which the coordinator of the world decided: the same on every rank.
void Engine::on_set_operation(Operation* operation) {
  MutexLock lock(submit_mutex_);
  if (operation->kind == OpKind::kCreateSet) {
    int32_t id = next_id_;
    if (free_ids_.empty()) {
      ++next_id_;
    } else {
      id = free_ids_.front();
      free_ids_.pop_front();
    }
    opening_.insert(next_serial_);
    operation->numbers = {id, static_cast<int32_t>(next_serial_++)};
    return;
  }
  if (operation->kind != OpKind::kDestroySet) return;
  const auto found = sets_by_id_.find(operation->numbers[0]);
  if (found == sets_by_id_.end()) return;
  const std::shared_ptr<ProcessSet> set = found->second;
  sets_by_id_.erase(found);
  free_ids_.push_back(set->id.exchange(-1));
  ended_sets_.push_back(set->serial);
}

void Engine::apply_ended_sets() {
  std::vector<uint32_t> ended;
  ended.swap(ended_sets_);
  for (const uint32_t serial : ended) {
    const auto found = sets_.find(serial);
    if (found == sets_.end()) continue;
    found->second->fail_all(Status(Code::kCancelled, "the process set was destroyed"), true);
    for (auto& one : found->second->leave()) leaving_.push_back(std::move(one));
    sets_.erase(found);
  }
  if (!ended.empty()) std::erase_if(leaving_, [](const auto& one) { return one->ended(); });
}

std::shared_ptr<ProcessSet> Engine::find_set(int id) {
  MutexLock lock(submit_mutex_);
  const auto found = sets_by_id_.find(id);
  return found == sets_by_id_.end() ? nullptr : found->second;
}

std::vector<int> Engine::set_ids() {
  MutexLock lock(submit_mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_by_id_) ids.push_back(id);
  return ids;
}

}  // namespace hvd::engine
