// SPDX-License-Identifier: Apache-2.0
// The engine of one context: takes operations from callers, and makes, opens and destroys process
// sets. The engine is put together of classes that each keep one thing: SubmitQueue what callers
// share with the driver, ProgressRole who drives, ProgressEngine what the driver does, SetDirectory
// the sets by id, Completions who is told of ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/fault_record.h"
#include "base/fork_guard.h"
#include "base/histograms.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/options.h"
#include "device/devices.h"
#include "engine/alarm.h"
#include "engine/completions.h"
#include "engine/operation.h"
#include "engine/operation_pool.h"
#include "engine/process_set.h"
#include "engine/progress_engine.h"
#include "engine/progress_role.h"
#include "engine/set_directory.h"
#include "engine/submit_queue.h"
#include "engine/thread_placement.h"
#include "transport/fabric.h"

namespace hvd::engine {

struct EngineParts {
  Options options;
  std::shared_ptr<Logger> log;
  std::shared_ptr<FaultRecord> faults;
  std::unique_ptr<transport::Fabric> fabric;
  std::unique_ptr<device::Devices> devices;
  std::unique_ptr<backend::DeviceCommFactory> device_comms;
  // Told of every process set that all ranks have made, and without ranks of each that has ended.
  // May be empty.
  std::function<void(int32_t id, const std::vector<int>& ranks)> tell_of_set;
  uint64_t restarts = 0;  // times the members of the elastic job have met before
};

class Engine final : public std::enable_shared_from_this<Engine> {
 public:
  explicit Engine(EngineParts parts);

  // Starts the thread and opens the set of all ranks; collective. The factory outlives the engine.
  Status start(std::unique_ptr<backend::CommFactory> factory, Time deadline);
  // Leaves the job; see hvd_shutdown.
  Status shutdown(Time deadline);
  // Ends the threads; after shutdown.
  void stop() { completions_.stop(); }

  const Topology& topology() const { return topology_; }
  Status status() const { return queue_.status(); }
  bool forked() const { return fork_guard_.forked(); }
  bool inside_callback() const { return completions_.on_callback_thread(); }
  Completions& completions() { return completions_; }
  device::Devices& devices() { return *devices_; }

  // An empty operation, if possible a used one with its memory.
  std::unique_ptr<Operation> fresh_operation() { return pool_.take(); }
  void recycle(std::unique_ptr<Operation> operation);
  // Takes over `operation`, which has one reference; gives the operation back with another
  // reference for the caller on success.
  Result<Operation*> submit(std::unique_ptr<Operation> operation);
  // Between the two calls, operations are announced together: by end_burst(), or sooner if somebody
  // drives. Bursts nest.
  void begin_burst() { role_.begin_burst(); }
  Status end_burst() { return role_.end_burst(); }
  // Ok once the operation is done, whatever its result; kPending at the deadline.
  Status wait(Operation& operation, Time deadline);
  // The result, or kPending. Lets the engine make one round of progress if nobody drives it.
  Status test(Operation& operation);
  // Registers the callback; from then on the operation may be gone. The callback is called also if
  // nobody waits, and within a burst.
  Status then(Operation& operation, Operation::Callback callback, void* user_data);

  const std::shared_ptr<ProcessSet>& world() const { return world_; }
  Result<std::shared_ptr<ProcessSet>> create_set(std::vector<int> ranks);
  Status destroy_set(const std::shared_ptr<ProcessSet>& set);
  // Makes the sets of the epoch before again, by id; collective, before anything else. No other set
  // gets an id below `next_id`.
  Status create_sets_again(const std::map<int32_t, std::vector<int>>& sets, int32_t next_id);
  std::shared_ptr<ProcessSet> find_set(int id) { return directory_.find(id); }
  std::vector<int> set_ids() { return directory_.ids(); }
  bool set_is_gone(int id) { return directory_.is_gone(id); }

  Result<std::string> option(const std::string& name) { return queue_.option(name); }
  Status set_option(const std::string& name, const std::string& value);
  bool idle() const { return queue_.idle(); }
  double default_timeout_seconds() const { return queue_.default_timeout_seconds(); }
  // The rank's last operations that have ended, from number `after` + 1 on, and then those in
  // flight, whose number is 0.
  Result<std::vector<FlightRecorder::Entry>> records(uint64_t after) const;
  const TickRate& tick_rate() const { return recorder_->rate(); }
  // Null if the option flight_recorder is 0.
  FlightRecorder* recorder() const { return recorder_.get(); }
  // The rank of that member of a set that exists, else -1.
  int rank_of(int set, uint32_t member) const;
  void snapshot(std::vector<std::pair<const MetricRow*, double>>* out);
  const Histograms& histograms() const { return histograms_; }

 private:
  void tell_of_start(const Status& why);
  // engine_sets.cc
  Result<Operation*> submit_set_operation(OpKind kind, std::vector<int32_t> numbers,
                                          const char* name,
                                          std::shared_ptr<ProcessSet> confirms = nullptr);
  Status finish_set_operation(Operation* operation);
  Status open_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm>* comm);
  Status confirm_set(const std::shared_ptr<ProcessSet>& set, const Status& opened,
                     std::unique_ptr<backend::DeviceComm>* split);
  Result<std::shared_ptr<ProcessSet>> agree_on_set(std::vector<int> ranks) HVD_REQUIRES(set_mutex_);
  Result<std::shared_ptr<ProcessSet>> open_agreed(const std::vector<int32_t>& given,
                                                  std::vector<int> ranks);
  Status attach(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                std::unique_ptr<backend::DeviceComm> split = nullptr);
  Status collapse() noexcept;

  std::shared_ptr<Logger> log_;
  std::shared_ptr<FaultRecord> faults_;
  std::unique_ptr<transport::Fabric> fabric_;
  std::unique_ptr<device::Devices> devices_;  // the devices' wake-ups use the fabric
  std::unique_ptr<backend::DeviceCommFactory> device_comms_;
  std::unique_ptr<backend::CommFactory> factory_;
  const std::function<void(int32_t, const std::vector<int>&)> tell_of_set_;
  const Topology topology_;
  const Duration start_limit_;  // for opening a process set
  Metrics metrics_;
  Histograms histograms_;
  const std::unique_ptr<FlightRecorder> recorder_;  // null if it is off
  ForkGuard fork_guard_;
  const Cores cores_;  // the cores of the thread that starts the engine
  ThreadPlacement placement_;
  Alarm alarm_;
  Completions completions_{cores_};
  SubmitQueue queue_;
  SetDirectory directory_;
  ProgressEngine engine_ HVD_GUARDED_BY(role_.mutex());
  OperationPool pool_;

  Mutex set_mutex_;  // serializes creating and destroying sets on this rank
  Mutex shutdown_mutex_;
  bool shut_down_ HVD_GUARDED_BY(shutdown_mutex_) = false;
  std::shared_ptr<ProcessSet> world_;
  ProgressRole role_;  // the last member, because its end stops the thread that uses the others
};

}  // namespace hvd::engine
