// SPDX-License-Identifier: Apache-2.0
// Members that the launcher of an elastic job has expelled because they stand still. Such a
// member has not ended, so only the launcher's word tells the others, and tells the member when it
// goes on.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace hvd::transport {

struct Expulsions {
  // Readable when there may be news; valid as long as `take` is.
  std::vector<int> descriptors;
  // The ranks expelled since the last call, perhaps this one, with causes for Sink::on_peer_lost.
  // Never blocks. Fails once there will be no more.
  std::function<Result<std::map<int, std::string>>()> take;
};

}  // namespace hvd::transport
