// SPDX-License-Identifier: Apache-2.0
// Strangers are peers that have connected to a server and have not yet shown that they belong to
// the job. The class says which strangers have to go when there are too many, or when one takes too
// long. The class has no sockets and no clock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace hvd::secure {

class Strangers {
 public:
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostOfOneSource = 48;
  static constexpr Duration kTime = std::chrono::seconds(5);
  // A stranger is not sent away for another one sooner: ranks that all come at once need that long
  // to say their first word.
  static constexpr Duration kGrace = std::chrono::milliseconds(20);

  struct Victim {
    int id = 0;
    Time since{};
  };

  // The stranger that has to go before one more may come, if there are kMost: the oldest of the
  // source with the most strangers. Credible strangers go after all others.
  std::optional<Victim> victim() const;
  // The stranger that has to go after one more has come from `source`, if `source` has its fill and
  // the oldest of its strangers has had its grace.
  std::optional<Victim> excess(const std::string& source, Time now) const;
  // The oldest that is not credible.
  std::optional<Victim> least_credible() const;

  void add(int id, const std::string& source, Time since) { all_[id] = {source, since, false}; }
  // The first message of stranger `id` was right.
  void believe(int id) { all_.at(id).credible = true; }
  void remove(int id) { all_.erase(id); }

  bool has(int id) const { return all_.count(id) != 0; }
  size_t size() const { return all_.size(); }
  // Whose time is over.
  std::optional<int> overdue(Time now) const;
  Time next_overdue() const;

 private:
  struct Stranger {
    std::string source;
    Time since{};
    bool credible = false;
  };
  std::optional<Victim> first_to_go(const std::string& source) const;
  // The oldest stranger of `source`, or of all sources if `source` is null.
  std::optional<Victim> oldest(const std::string* source, bool credible) const;

  std::map<int, Stranger> all_;  // never more than kMost, so looking at each is cheap
};

}  // namespace hvd::secure
