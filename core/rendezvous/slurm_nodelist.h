// SPDX-License-Identifier: Apache-2.0
// The two compressed lists in Slurm's environment.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvd::rendezvous {

// "gpu-[08-10,12]x[1-2],login" to gpu-08x1, gpu-08x2, gpu-09x1, ..., login: brackets hold numbers,
// ranges of numbers (as wide as the first is written) or words, and several in one name multiply.
// kInvalidArgument for anything else, and for more than `most` hosts.
Result<std::vector<std::string>> expand_nodelist(std::string_view text, size_t most);

// "2(x3),1": how many tasks run on the node with this index, here 2 on 0 to 2 and 1 on 3.
// kInvalidArgument if the text is no such list or has no such node.
Result<int> tasks_on_node(std::string_view text, int node);

}  // namespace hvd::rendezvous
