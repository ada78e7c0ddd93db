// SPDX-License-Identifier: Apache-2.0
// The process sets that are open on this rank, by serial, and those that are being opened or ended.
// Only the driver uses them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "engine/set_engine.h"

namespace hvd::engine {

class OpenSets {
 public:
  using Map = std::map<uint32_t, std::unique_ptr<SetEngine>>;
  using Messages = std::vector<std::pair<int, Bytes>>;  // with the ranks that sent them

  Map::const_iterator begin() const { return sets_.begin(); }
  Map::const_iterator end() const { return sets_.end(); }
  SetEngine* find(uint32_t serial) const {
    const auto found = sets_.find(serial);
    return found == sets_.end() ? nullptr : found->second.get();
  }

  // All ranks have agreed on a new set, and each opens it next: the set's serial.
  uint32_t begin_opening();
  // False if the set has been destroyed here: a message that is late for the set is of no use any
  // more.
  bool keep_early(uint32_t serial, int from, std::span<const std::byte> message);
  // Ends the opening without the set, on a rank that is no member or because some rank could not
  // open the set.
  void forget(uint32_t serial);
  // Ends the opening with the set. The messages that came before it are the caller's to deliver.
  Messages open(uint32_t serial, std::unique_ptr<SetEngine> set);

  // The set ends at the end of the round.
  void end_later(uint32_t serial) { ended_.push_back(serial); }
  bool ending() const { return !ended_.empty(); }
  void apply_ended();

  void fail_all(const Status& why, bool in_order);
  // The end where there is no memory, see SetEngine::abandon.
  void abandon() noexcept;
  // The rank leaves the job.
  void close();

  void apply_options();
  void collect_metrics() const;
  bool data_moving() const;
  bool must_poll() const;
  bool must_plan() const;
  bool owes_answer() const;
  // The operation of any set for which this rank waits, as members of `asked` are told who miss
  // this rank in `key`; or empty.
  std::string whereabouts(const SetEngine& asked, std::string_view key) const;
  // The same for the flight recorder; empty, with 0 operations in flight, if there is none.
  WaitRecord record_of_wait() const;

 private:
  struct Wait {
    const SetEngine* set = nullptr;
    const Operation* operation = nullptr;  // nullptr if the rank waits for none
  };
  Wait wait_of(std::string_view key) const;

  Map sets_;
  std::vector<std::unique_ptr<backend::DeviceComm>> leaving_;  // comms of sets that have gone
  // for sets that are still being opened here
  std::map<uint32_t, Messages> early_;
  // sets agreed on, but not attached here yet
  std::set<uint32_t> opening_{0};
  uint32_t next_serial_ = 1;
  std::vector<uint32_t> ended_;  // sets destroyed in this round
};

}  // namespace hvd::engine
