// SPDX-License-Identifier: Apache-2.0
// What of PMIx's binary interface is used here: the same in all releases of libpmix.so.2, that is
// from version 2 on. A test compares it with PMIx's own header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::rendezvous::pmix {

inline constexpr int kSuccess = 0;
inline constexpr int kNotFound = -46;
inline constexpr uint16_t kString = 3;  // a data type
inline constexpr uint8_t kGlobal = 3;   // a scope: ranks on all hosts

struct Proc {
  char space[256];
  uint32_t rank;
};

struct Value {
  uint16_t type;
  union {
    const char* string;
    uint64_t room[3];  // the largest member of PMIx's union
  } data;
};

using Callback = void (*)(int status, Value* value, void* data);
using Init = int(Proc* self, void* info, size_t info_count);
using Finalize = int(const void* info, size_t info_count);
using Put = int(uint8_t scope, const char* key, Value* value);
using Commit = int();
using GetNb = int(const Proc* proc, const char* key, const void* info, size_t info_count,
                  Callback callback, void* data);
using ErrorString = const char*(int status);

}  // namespace hvd::rendezvous::pmix
