// SPDX-License-Identifier: Apache-2.0
// The table of launchers: by which variables each is known, and how its ranks meet.
#pragma once

#include <array>
#include <span>
#include <string>

#include "rendezvous/env.h"

namespace hvd::rendezvous {

// The environment, in which a variable that is not set is the same as an empty one.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}
  std::string operator[](const char* name) const {
    return name == nullptr ? "" : environment_(name).value_or("");
  }
  bool has(const char* name) const { return !(*this)[name].empty(); }

 private:
  const Environment& environment_;
};

struct LauncherRow {
  const char* launcher;
  bool (*is_here)(const Variables&);
  const char* rank;
  const char* size;
  const char* local_rank;  // nullptr: not known
  const char* local_size;
  std::array<const char*, 2> needed;  // besides rank and size
  const char* version;
  Status (*meet)(const Variables&, Place&);
};

// Innermost first: a launcher can be started by the launchers below it, hardly by those above. The
// last row is RANK and WORLD_SIZE, which launchers set beside their own variables.
std::span<const LauncherRow> launcher_rows();

bool kubernetes_is_here(const Variables& variables);

// horovodrun tells its ranks torchrun's names too. In a process to which its own names were not
// passed on, torchrun's names are no place. The variable that says so does not begin with HOROVOD_,
// because programs that start a process of another job remove everything that does.
bool horovodrun_has_set_plain(const Variables& variables);

}  // namespace hvd::rendezvous
