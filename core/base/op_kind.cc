// SPDX-License-Identifier: Apache-2.0
#include "base/op_kind.h"

namespace hvd {

const char* op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce: return "allreduce";
    case OpKind::kAllgather: return "allgather";
    case OpKind::kBroadcast: return "broadcast";
    case OpKind::kAlltoall: return "alltoall";
    case OpKind::kReducescatter: return "reducescatter";
    case OpKind::kBarrier: return "barrier";
    case OpKind::kJoin: return "join";
    case OpKind::kCreateSet: return "process set create";
    case OpKind::kConfirmSet: return "process set confirm";
    case OpKind::kDestroySet: return "process set destroy";
  }
  return "unknown";
}

}  // namespace hvd
